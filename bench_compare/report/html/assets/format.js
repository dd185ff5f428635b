// Numbers as people read them; the same rules as the text reports.

const MINUS = "\u2212";
const UNKNOWN = "\u2013";
const UNITS = {
  ns: [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]],
  bytes: [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]],
};

const known = (value) => value !== null && value !== undefined;

function significant(value, digits = 4) {
  if (!Number.isFinite(value)) return String(value);
  if (value === 0) return "0";
  const magnitude = Math.floor(Math.log10(Math.abs(Number(value.toPrecision(digits)))));
  const text = magnitude < -4 || magnitude > 6
    ? value.toExponential(digits - 1)
    : value.toFixed(Math.max(digits - 1 - magnitude, 0));
  return text.replace("-", MINUS);
}

function scaleOf(value, unit) {
  const steps = UNITS[unit];
  return steps.find((step) => Math.abs(value) >= step[0]) || steps[steps.length - 1];
}

function valueText(value, unit, digits = 4) {
  if (!known(value)) return UNKNOWN;
  if (
    !unit && Number.isInteger(value) && Math.abs(value) < 1e9
  ) return value.toLocaleString("en").replace("-", MINUS);
  if (!(unit in UNITS)) return `${significant(value, digits)}${unit ? "\u00a0" + unit : ""}`;
  const [factor, name] = scaleOf(value, unit);
  const scaled = value / factor, exact = Number.isInteger(scaled) && (
    factor === 1 || unit === "bytes"
  );
  return `${exact ? scaled : significant(scaled, digits)}\u00a0${name}`;
}

// +3.1 % below a factor of two, then ×2.40 or ÷2.40.
function changeText(ratio) {
  if (!known(ratio)) return UNKNOWN;
  if (!(ratio > 0)) return `×${ratio}`;
  if (ratio >= 2) return `×${significant(ratio, 3)}`;
  if (ratio <= 0.5) return `÷${significant(1 / ratio, 3)}`;
  const percent = 100 * (ratio - 1);
  const text = Math.abs(percent).toFixed(1);
  return `${text === "0.0" ? "±" : percent < 0 ? MINUS : "+"}${text}\u00a0%`;
}

function intervalText(low, high) {
  if (!known(low) || !known(high)) return UNKNOWN;
  return `${changeText(low)} to ${changeText(high)}`;
}

const counted = (count) => count.toLocaleString("en");
const plural = (count, one, many = `${one}s`) => `${counted(count)} ${count === 1 ? one : many}`;

// The middle goes first, as both ends of a graph's name tell something.
function shortened(text, width) {
  if (text.length <= width) return text;
  const head = Math.ceil((width - 1) / 2);
  return `${text.slice(0, head)}…${text.slice(text.length - (width - 1 - head))}`;
}

// Plotly reads a little HTML in its labels: what comes from documents is spelled out.
const label = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
