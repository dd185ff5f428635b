// What charts share: plotly and its looks, axes of ratios, small drawings of intervals.

import { byId, changeText, color, el, onTheme, page, percentChange } from "./base.js";

const CONFIG = {
  displaylogo: false, responsive: true, displayModeBar: false, doubleClick: "reset+autosize",
};
const NO_CHART = "plotly.js could not be loaded, so there is no chart here; " +
  "the tables are complete.";

function axisLook() {
  return {
    gridcolor: color("line"), linecolor: color("line"), zerolinecolor: color("line"),
    tickfont: { color: color("soft"), size: 11 },
    title: { font: { color: color("soft"), size: 12 } },
    automargin: true, fixedrange: false,
  };
}

function baseLayout() {
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, color: color("ink"), size: 12 },
    margin: { l: 8, r: 8, t: 8, b: 8 }, hovermode: "closest",
    dragmode: window.innerWidth < 640 ? false : "zoom", showlegend: false,
    hoverlabel: {
      bgcolor: color("panel"), bordercolor: color("line"), font: { color: color("ink") },
    },
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { color: color("soft") } },
  };
}

// `extra` wins over what charts share; axes are laid over the common look.
function layout(extra) {
  const made = baseLayout(), axis = axisLook();
  for (const [name, value] of Object.entries(extra)) {
    const isAxis = /^[xy]axis/.test(name);
    made[name] = isAxis ? { ...axis, ...value, title: { ...axis.title, ...value.title } } : value;
  }
  return made;
}

// plotly.js travels as text: to parse it takes longer than all the rest of opening a page, so it
// waits for the first chart.
export function loadPlotly() {
  const held = byId("plotly");
  if (!held) return;
  held.remove();
  document.head.append(el("script", {}, held.textContent));
}

export function draw(node, traces, extra) {
  node.style.minHeight = `${extra.height}px`;
  loadPlotly();
  if (typeof Plotly !== "undefined") return Plotly.react(node, traces, layout(extra), CONFIG);
  node.replaceChildren(el("p.empty", {}, NO_CHART));
  return undefined;
}

export function extent(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}

const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹";

// Without zeros that say nothing: +5 %, 2× slower, 10⁴× slower.
function short(ratio) {
  if (Math.abs(ratio - 1) < 1e-9) return "same";
  const power = Math.round(Math.log10(ratio));
  if (Math.abs(power) > 2) {
    return `10${RAISED[Math.abs(power)]}× ${power < 0 ? "faster" : "slower"}`;
  }
  return changeText(ratio).replace(".0\u00a0%", "\u00a0%");
}

// A share, also where a text would have a factor: ticks lie at round shares.
const share = (ratio) =>
  Math.abs(ratio - 1) < 1e-9 ? "same" : percentChange(ratio).replace(".0\u00a0%", "\u00a0%");

// Ticks of a ratio axis: round percentages near 1, factors further out.
export function ratioTicks(low, high) {
  const isNear = high / low < 1.5;
  const values = isNear ? percentTicks(low, high) : factorTicks(low, high);
  return { tickvals: values, ticktext: values.map(isNear ? share : short) };
}

const PERCENT_STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2];

function percentTicks(low, high) {
  const step = PERCENT_STEPS.find((size) => (high - low) / size <= 8) || 0.2;
  const first = Math.ceil((low - 1) / step), count = Math.floor((high - 1) / step) - first + 1;
  return Array.from({ length: count }, (_, i) => 1 + (first + i) * step);
}

// Up to which factor between the ends of the axis which ticks are used.
const FACTOR_TICKS = [
  [5, [1 / 3, 1 / 2, 1 / 1.5, 1 / 1.2, 1, 1.2, 1.5, 2, 3]],
  [40, [0.1, 0.2, 0.5, 1 / 1.2, 1, 1.2, 2, 5, 10]],
  [1e4, [0.01, 0.1, 0.5, 1, 2, 10, 100]],
  [Infinity, [1e-9, 1e-6, 1e-4, 0.01, 1, 100, 1e4, 1e6, 1e9]],
];

function factorTicks(low, high) {
  const [, ticks] = FACTOR_TICKS.find(([most]) => high / low <= most);
  return ticks.filter((value) => value >= low && value <= high);
}

// Names of colours become colours, and names of lists the texts that they hold at each x.
function resolved(value) {
  if (typeof value === "string" && value.startsWith("--")) return colorOf(value);
  if (Array.isArray(value)) return value.map(resolved);
  if (value === null || typeof value !== "object") return value;
  const items = Object.entries(value).map(([name, one]) => [name, resolved(one)]);
  const made = Object.fromEntries(items);
  if (typeof made.text === "string" && (page.texts || {})[made.text]) {
    made.text = made.x.map((x) => page.texts[made.text][x]);
  }
  return made;
}

// "--band", or with how opaque it is in hexadecimal: "--side-base/26".
function colorOf(text) {
  const [name, opacity = ""] = text.slice(2).split("/"), found = color(name);
  return found ? `${found}${opacity}` : text;
}

const drawers = new WeakMap();

function drawNow(holder) {
  seen.unobserve(holder);
  holder.dataset.drawn = "yes";
  drawers.get(holder)();
}

const seen = new IntersectionObserver((entries) => {
  for (const { target } of entries.filter((one) => one.isIntersecting)) drawNow(target);
}, { rootMargin: "400px" });

const held = (kind) => [...document.querySelectorAll(`.chart${kind}`)]
  .filter((node) => drawers.has(node) && node.offsetParent !== null);

onTheme(() => held("[data-drawn]").forEach(drawNow));
window.addEventListener("beforeprint", () => held(":not([data-drawn])").forEach(drawNow));

export function chartNode(one) {
  const about = { id: one.id || null, role: "img", "aria-label": one.label || one.title };
  const holder = el("div.chart", about);
  holder.style.minHeight = `${one.layout.height}px`;
  drawers.set(holder, () => draw(holder, resolved(one.traces), resolved(one.layout)));
  seen.observe(holder);
  return el("figure", {}, one.title ? el("figcaption", {},
    el("strong", {}, one.title), el("span.note", {}, ` ${one.note}`)) : null, holder);
}
