// Numbers as people read them; the same rules as the text reports.

const MINUS = "\u2212";
export const UNKNOWN = "\u2013";
const UNITS = {
  ns: [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]],
  bytes: [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]],
};
const WIDE_INTERVAL = 1.25;

export const known = (value) => value !== null && value !== undefined;

export function significant(value, digits = 4) {
  if (!Number.isFinite(value)) return String(value);
  if (value === 0) return "0";
  const magnitude = Math.floor(Math.log10(Math.abs(Number(value.toPrecision(digits)))));
  const text = magnitude < -4 || magnitude > 6
    ? value.toExponential(digits - 1)
    : value.toFixed(Math.max(digits - 1 - magnitude, 0));
  return text.replace("-", MINUS);
}

// The largest unit that leaves the value at least 1, as [factor, name].
export function scaleOf(value, unit) {
  const steps = UNITS[unit];
  return steps.find((step) => Math.abs(value) >= step[0]) || steps[steps.length - 1];
}

export function valueText(value, unit, digits = 4) {
  if (!known(value)) return UNKNOWN;
  if (!unit && Number.isInteger(value) && Math.abs(value) < 1e9) {
    return value.toLocaleString("en").replace("-", MINUS);
  }
  if (!(unit in UNITS)) return `${significant(value, digits)}${unit ? `\u00a0${unit}` : ""}`;
  const [factor, name] = scaleOf(value, unit);
  const scaled = value / factor;
  const exact = Number.isInteger(scaled) && (factor === 1 || unit === "bytes");
  return `${exact ? scaled : significant(scaled, digits)}\u00a0${name}`;
}

// 0.01 is 1 %.
export const percentText = (share) => `${Number((100 * share).toPrecision(3))}\u00a0%`;

// A difference of two values, with its sign: +8.5 µs.
export function differenceText(value, unit) {
  if (!known(value)) return "";
  const text = valueText(value, unit, 3);
  return value > 0 ? `+${text}` : text;
}

const factor = (value) => significant(value, 3);

// +3.1 % below a factor of two, then ×2.40 or ÷2.40.
export function changeText(ratio) {
  if (!known(ratio)) return UNKNOWN;
  if (!(ratio > 0)) return `×${ratio}`;
  if (ratio >= 2) return `×${factor(ratio)}`;
  if (ratio <= 0.5) return `÷${factor(1 / ratio)}`;
  const percent = 100 * (ratio - 1);
  const text = Math.abs(percent).toFixed(1);
  return `${text === "0.0" ? "±" : percent < 0 ? MINUS : "+"}${text}\u00a0%`;
}

// One digit more near 1: an interval from ×1.305 to ×1.312 has two ends.
function factorText(ratio) {
  if (!(ratio > 0)) return `×${ratio}`;
  const size = ratio < 1 ? 1 / ratio : ratio;
  return `${ratio < 1 ? "÷" : "×"}${significant(size, size < 2 ? 4 : 3)}`;
}

// Both ends as changes; as factors once one of them leaves ±25 %.
export function intervalText(low, high) {
  if (!known(low) || !known(high)) return UNKNOWN;
  const wide = low < 1 / WIDE_INTERVAL || high > WIDE_INTERVAL;
  const text = wide ? factorText : changeText;
  return spanText(low, high, text);
}

// Both ends, or one word where they read alike.
export function spanText(low, high, text) {
  const [first, last] = [text(low), text(high)];
  return first === last ? first : `${first} to ${last}`;
}

export const counted = (count) => count.toLocaleString("en");
export const plural = (count, one, many = `${one}s`) =>
  `${counted(count)} ${count === 1 ? one : many}`;

// The middle goes first, as both ends of a graph's name tell something.
export function shortened(text, width) {
  if (text.length <= width) return text;
  const head = Math.ceil((width - 1) / 2);
  return `${text.slice(0, head)}…${text.slice(text.length - (width - 1 - head))}`;
}

// Plotly reads a little HTML in its labels: what comes from documents is spelled out.
export const label = (text) =>
  text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
