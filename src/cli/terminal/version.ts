/** Of what --json prints. It rises when a field goes or changes its meaning. */
export const JSON_VERSION = 1;
