// Numbers, times and durations as text. Times are UTC, as in the API and in the sentences of reasons.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const EXACT = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const CLOCK = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium", timeZone: "UTC" });
const MOMENT = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short", timeZone: "UTC" });
const UNITS = [["d", 86_400], ["h", 3_600], ["min", 60], ["s", 1]];
const BYTES = [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]];

export const NOTHING = "–";

const known = (value) => value !== null && value !== undefined && Number.isFinite(value);

/** 12345 → "12,345", and from a million on "1.23M". */
export function count(value) {
  if (!known(value)) return NOTHING;
  return Math.abs(value) < 1e6 ? WHOLE.format(value) : COMPACT.format(value);
}

/** 0.12345 → "0.1235", 12345 → "12,350"; what is tiny, with an exponent. */
export function number(value) {
  if (!known(value)) return NOTHING;
  return value !== 0 && Math.abs(value) < 1e-4 ? value.toExponential(2) : EXACT.format(value);
}

/** 0.1234 → "12.3 %". */
export function share(value, digits = 1) {
  return known(value) ? `${(100 * value).toFixed(digits)} %` : NOTHING;
}

/** 8520 → "2.4 h". */
export function duration(seconds) {
  if (!known(seconds)) return NOTHING;
  if (seconds === 0) return "0 s";
  const [unit, size] = UNITS.find(([, one]) => Math.abs(seconds) >= one) ?? UNITS.at(-1);
  const amount = seconds / size;
  if (unit === "s" && Math.abs(amount) < 1) return `${EXACT.format(Math.round(1000 * amount))} ms`;
  return `${Math.abs(amount) < 10 ? Number(amount.toFixed(1)) : Math.round(amount)} ${unit}`;
}

/** Bytes → "1.2 GB". */
export function bytes(value) {
  if (!known(value)) return NOTHING;
  const found = BYTES.find(([, size]) => value >= size);
  return found ? `${Number((value / found[1]).toPrecision(3))} ${found[0]}` : `${value} bytes`;
}

/** UTC epoch seconds → the time of day. */
export const clock = (seconds) => (known(seconds) ? CLOCK.format(1000 * seconds) : NOTHING);

/** UTC epoch seconds → date and time. */
export const moment = (seconds) => (known(seconds) ? MOMENT.format(1000 * seconds) : NOTHING);

/** 1 → "1 page", 2 → "2 pages". */
export const plural = (amount, noun, nouns = `${noun}s`) => `${count(amount)} ${amount === 1 ? noun : nouns}`;
