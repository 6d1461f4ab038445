/** Somebody was asked, and said no. */
export class Declined extends Error {
  override readonly name = "Declined";
}
