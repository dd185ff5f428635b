// What all pages are made of: numbers as texts, nodes, colours, command lines.

export const page = JSON.parse(document.getElementById("data").textContent);
export const sum = (values) => values.reduce((left, right) => left + right, 0);

const MINUS = "\u2212";
export const UNKNOWN = "\u2013";
const UNITS = {
  ns: [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]],
  bytes: [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]],
};
const WIDE_INTERVAL = 1.25;

export const known = (value) => value !== null && value !== undefined;

function significant(value, digits = 4) {
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

const MOST_FACTOR = 1000;
const PERCENT_BELOW = 1.1;
const TIME = ["slower", "faster"];

// The size of a factor either way: 1.56×, 2.41×, 123×.
function factorText(ratio) {
  if (!(ratio > 0)) return `${ratio}×`;
  const size = ratio < 1 ? 1 / ratio : ratio;
  if (size >= MOST_FACTOR) return `${MOST_FACTOR}+×`;
  return `${Number(size.toPrecision(3))}×`;
}

// +3.1 % below a factor of 1.1, then 1.56× slower or 2.41× faster.
export function changeText(ratio, words = TIME) {
  if (!known(ratio)) return UNKNOWN;
  if (!(ratio > 0)) return `${ratio}×`;
  if (ratio >= PERCENT_BELOW || ratio <= 1 / PERCENT_BELOW) {
    return `${factorText(ratio)}\u00a0${words[ratio < 1 ? 1 : 0]}`;
  }
  return percentChange(ratio);
}

export function percentChange(ratio) {
  const percent = 100 * (ratio - 1);
  const text = Math.abs(percent).toFixed(1);
  return `${text === "0.0" ? "±" : percent < 0 ? MINUS : "+"}${text}\u00a0%`;
}

// An interval that reaches further than this factor both ways says nothing.
const MOST_RATIO = 2;
export const NOTHING = "too noisy to tell";
const isTooNoisy = (low, high) =>
  known(low) && known(high) && (low <= 0 || (high > MOST_RATIO && low < 1 / MOST_RATIO));

// The change, unless its interval is too wide for it to mean anything.
export const changeWithin = ({ low, ratio, high }) =>
  (known(ratio) && !isTooNoisy(low, high) ? changeText(ratio) : "");

// Both ends as changes; as factors once one of them leaves ±25 %.
export function intervalText(low, high) {
  if (!known(low) || !known(high)) return UNKNOWN;
  if (isTooNoisy(low, high)) return NOTHING;
  const isFar = low >= PERCENT_BELOW || high <= 1 / PERCENT_BELOW;
  if (low >= 1 / WIDE_INTERVAL && high <= WIDE_INTERVAL && !isFar) return spanText(low, high);
  if (low < 1 && high > 1) {
    return `${factorText(low)} ${TIME[1]} to ${factorText(high)} ${TIME[0]}`;
  }
  const ends = low >= 1 ? [low, high] : [high, low];
  return `${ends.map(factorText).join(" to ")} ${TIME[low < 1 ? 1 : 0]}`;
}

// Both ends, or one word where they read alike.
function spanText(low, high) {
  const [first, last] = [percentChange(low), percentChange(high)];
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

// Sign in texts, symbol in charts, and the tone that gives the colour of a verdict, a state or an
// outcome: never colour alone.
const LOOKS = new Map(Object.entries({
  broken: ["✕", "x", "fatal"],
  "newly wrong": ["≠", "cross", "fatal"],
  wrong: ["≠", "cross", "fatal"],
  removed: ["∅", "circle-x-open", "fatal"],
  "newly unsupported": ["⊘", "circle-x-open", "fatal"],
  lost: ["−", "circle-x-open", "fatal"],
  incomparable: ["?", "diamond-x-open", "odd"],
  slower: ["▲", "triangle-up", "bad"],
  worse: ["▲", "triangle-up", "bad"],
  clock: ["◆", "diamond", "odd"],
  fixed: ["✓", "star", "good"],
  faster: ["▼", "triangle-down", "good"],
  better: ["▼", "triangle-down", "good"],
  added: ["+", "cross-open", "none"],
  unclear: ["○", "circle-open", "open"],
  "not measured": ["·", "circle-open-dot", "none"],
  same: ["●", "circle", "none"],
  completed: ["●", "circle", "none"],
  unsupported: ["⊘", "circle-x-open", "fatal"],
  failed: ["✕", "x", "fatal"],
  crashed: ["✕", "x", "fatal"],
  "timed out": ["✕", "x", "fatal"],
  skipped: ["·", "circle-open-dot", "none"],
  absent: ["–", "circle-open-dot", "none"],
}));
const PLAIN = ["·", "circle", "none"];

export const lookOf = (verdict) => LOOKS.get(verdict) || PLAIN;

// el("a.name", {href: "#x"}, "text", node): classes after dots, attributes, then children.
export function el(spec, attributes = {}, ...children) {
  const [tag, ...classes] = spec.split(".");
  const node = document.createElement(tag);
  if (classes.length) node.className = classes.join(" ");
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && known(value)) node.setAttribute(name, value);
  }
  const flat = children.flat(Infinity).filter(known);
  node.append(...flat.map((child) => (child instanceof Node ? child : String(child))));
  return node;
}

// Heads are texts or [text, classes]; a row is its cells, nodes or texts.
export function table(kind, heads, rows) {
  const head = heads.map((one) => [one].flat())
    .map(([text, classes]) => el("th", { scope: "col", class: classes }, text));
  const isCell = (one) => one instanceof Element && /^T[DH]$/.test(one.tagName);
  const cell = (one) => (isCell(one) ? one : el("td", {}, one));
  return el(`table.${kind}`, {},
    heads.length ? el("thead", {}, el("tr", {}, head)) : null,
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map(cell)))));
}

export const rowHead = (...children) => el("th", { scope: "row" }, children);
export const number = (text) => el("td.number", {}, text);
export const scrolling = (node) => el("div.scroll", {}, node);

export const byId = (id) => document.getElementById(id);
export const fill = (id, ...children) =>
  byId(id).replaceChildren(...children.flat(Infinity).filter(known));

export const sign = (verdict) =>
  el("span.sign", { "aria-hidden": "true" }, lookOf(verdict)[0]);

export function badge(verdict, provisional = false, allowed = false) {
  const words = [verdict, allowed ? "allowed" : "", provisional ? "provisional" : ""];
  const tone = allowed ? "none" : lookOf(verdict)[2];
  return el(`span.verdict.${tone}`, {}, sign(verdict), words.filter(Boolean).join(", "));
}

const THEMES = ["auto", "light", "dark"];
const TITLES = { auto: "◐ Auto", light: "○ Light", dark: "● Dark" };
const systemDark = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = [];
let theme = "auto";

const styleOf = () => getComputedStyle(document.documentElement);
export const color = (name) => styleOf().getPropertyValue(`--${name}`).trim();
export const toneColor = (verdict) => color(`tone-${lookOf(verdict)[2]}`);
export const onTheme = (redraw) => listeners.push(redraw);

function setTheme(next) {
  theme = next;
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  const button = byId("theme");
  button.textContent = TITLES[theme];
  button.setAttribute("aria-label", `Colours: ${theme}; press to change`);
  for (const redraw of listeners) redraw();
}

export function showTheme() {
  setTheme("auto");
  const turn = () => setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]);
  byId("theme").addEventListener("click", turn);
  systemDark.addEventListener("change", () => setTheme(theme));
}

export function commandLine([reason, command]) {
  const copy = el("button.quiet", { type: "button", onclick: () => copied(copy, command) }, "Copy");
  return el("div", {}, el("p", {}, reason), el("div.command", {}, el("pre", {}, command), copy));
}

async function copied(button, text) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select it";
  }
}
