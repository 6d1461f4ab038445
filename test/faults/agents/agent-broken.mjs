/**
 * Stores that break their word, for the negative controls: whoever checks the children that work on
 * them must notice.
 */
import { open } from "../../../dist/core/journal/open-save.js";
import { firstSeq } from "../../../dist/core/journal/save.js";
import { seal } from "../../../dist/core/journal/seal-save.js";

/** A store with some of its calls replaced. */
export function wrapped(store, calls) {
  return new Proxy(store, {
    get(target, name) {
      const value = target[name];
      return calls[name] ?? (typeof value === "function" ? value.bind(target) : value);
    },
  });
}

const carries = (changes, is) =>
  changes.some(({ saves = [] }) => saves.some(({ save }) => save.state?.includes(`"is":"${is}"`)));
const never = () => new Promise(() => {});

/**
 * Says that a change with such an event is kept, and keeps neither it nor anything that comes after
 * it.
 */
export function forgetful(store, is) {
  let isOver = false;
  return wrapped(store, {
    async apply(changes, docs) {
      if (isOver) return never();
      isOver = carries(changes, is);
      return isOver ? { ok: true } : store.apply(changes, docs);
    },
  });
}

/**
 * Reads journals without the outcomes of keyed calls that have no name, sealed as if there had
 * never been any. What people said stays.
 */
export function stripped(store) {
  /** What the digest of each save has become. */
  const became = new Map();
  const keyed = new Set();
  const isKeyed = ({ mode, named }) => mode === "keyed" && named === undefined;
  const withoutOutcome = (record) => {
    const { effect, base } = record;
    if (effect?.is === "intent" && isKeyed(effect)) keyed.add(effect.id);
    if (effect?.is === "done" && effect.by === undefined && keyed.has(effect.id))
      return { unset: "nothing" };
    if (base?.inFlight?.effects === undefined) return record;
    const effects = base.inFlight.effects.map(({ phase, ...call }) => {
      if (isKeyed(call)) keyed.add(call.id);
      return {
        ...call,
        phase:
          phase === "done" && isKeyed(call) && call.call && call.by === undefined ? "begun" : phase,
      };
    });
    return { ...record, base: { ...base, inFlight: { ...base.inFlight, effects } } };
  };
  const strip = (save) => {
    const { digest: was, items, state } = open(save, { items: true, state: true });
    const { branch, at, prior, base, mark, nMessages } = save;
    const sealed = seal({
      branch,
      after: firstSeq(save) - 1,
      at,
      prior,
      base,
      prev: became.get(save.prev) ?? save.prev,
      items: items.map((record) => JSON.stringify(record)),
      nMessages,
      state: state.map((record) => JSON.stringify(withoutOutcome(record))),
      mark,
      salt: () => "0123456789012345678901",
    });
    became.set(was, sealed.digest);
    return sealed.save;
  };
  return wrapped(store, {
    async saves(branch, query) {
      if (!query.state) return store.saves(branch, query);
      const saves = await store.saves(branch, { ...query, items: true });
      return saves.map(strip).map((save) => (query.items ? save : { ...save, items: null }));
    },
  });
}
