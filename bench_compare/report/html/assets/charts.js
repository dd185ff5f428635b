// What charts share: plotly and its looks, axes of ratios, small drawings of intervals.

import { byId, changeText, color, el, known, page, svg } from "./base.js";

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

export function spanOf(ratios, share = 0.95) {
  const sizes = ratios.filter((ratio) => known(ratio) && ratio > 0)
    .map((ratio) => Math.abs(Math.log(ratio))).sort((a, b) => a - b);
  const most = sizes.length ? sizes[Math.floor(share * (sizes.length - 1))] : 0;
  return Math.max(most * 1.15, Math.log(1.02));
}

const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹";

// Without zeros that say nothing: +5 %, ×2, ×10⁴.
function short(ratio) {
  if (Math.abs(ratio - 1) < 1e-9) return "same";
  const power = Math.round(Math.log10(ratio));
  if (Math.abs(power) > 2) return `${power < 0 ? "÷" : "×"}10${RAISED[Math.abs(power)]}`;
  const text = changeText(ratio).replace(".0\u00a0%", "\u00a0%");
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

// Ticks of a ratio axis: round percentages near 1, factors further out.
export function ratioTicks(low, high) {
  const values = high / low < 1.9 ? percentTicks(low, high) : factorTicks(low, high);
  return { tickvals: values, ticktext: values.map(short) };
}

const PERCENT_STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2];

function percentTicks(low, high) {
  const step = PERCENT_STEPS.find((size) => (high - low) / size <= 8) || 0.2;
  const first = Math.ceil((low - 1) / step), count = Math.floor((high - 1) / step) - first + 1;
  return Array.from({ length: count }, (_, i) => 1 + (first + i) * step);
}

// Up to which factor between the ends of the axis which ticks are used.
const FACTOR_TICKS = [
  [5, [0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.5, 2, 3]],
  [40, [0.2, 0.5, 0.8, 1, 1.2, 2, 5, 10]],
  [1e4, [0.01, 0.1, 0.5, 1, 2, 10, 100]],
  [Infinity, [1e-9, 1e-6, 1e-4, 0.01, 1, 100, 1e4, 1e6, 1e9]],
];

function factorTicks(low, high) {
  const [, ticks] = FACTOR_TICKS.find(([most]) => high / low <= most);
  return ticks.filter((value) => value >= low && value <= high);
}

// The outer ticks of a strip: the first pair that fits, as [below, above].
const STRIP_TICKS = [
  ...[1000, 100, 10, 5, 2].map((factor) => [1 / factor, factor]),
  ...[0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01].map((step) => [1 - step, 1 + step]),
];
const HALF = 54, MIDDLE = 60;

function stripTicks(span) {
  return STRIP_TICKS.find(([below]) => -Math.log(below) <= 0.9 * span) || [0.99, 1.01];
}

const across = (ratio, span) =>
  MIDDLE + HALF * Math.max(-1, Math.min(1, Math.log(ratio) / span));

const upright = (x, kind) => svg("line", { x1: x, x2: x, y1: 1, y2: 15, class: kind });

// The axis above the strips of a column.
export function stripAxis(span) {
  const drawing = svg("svg", { viewBox: "0 0 120 16", class: "bar-svg axis", role: "img" });
  const [below, above] = stripTicks(span), texts = [below, 1, above].map(short);
  drawing.setAttribute("aria-label", `95 % interval, from ${texts[0]} to ${texts[2]}`);
  [below, 1, above].forEach((ratio, at) => {
    const x = across(ratio, span);
    const where = { x, y: 10, "text-anchor": "middle", class: "tick" };
    drawing.append(svg("text", where, at === 1 ? "0" : texts[at]));
    drawing.append(svg("line", { x1: x, x2: x, y1: 12, y2: 16, class: "middle" }));
  });
  return drawing;
}

// A small drawing of an interval around no change; beyond the span it ends in an arrow.
export function intervalStrip(low, ratio, high, span, tone) {
  if (!known(ratio) || !(ratio > 0)) return el("span");
  const classes = `bar-svg ${tone}`;
  const drawing = svg("svg", { viewBox: "0 0 120 16", class: classes, "aria-hidden": "true" });
  for (const tick of stripTicks(span)) drawing.append(upright(across(tick, span), "side"));
  drawing.append(upright(MIDDLE, "middle"));
  if (known(low) && low > 0) {
    const ends = { x1: across(low, span), x2: across(high, span), y1: 8, y2: 8, class: "range" };
    drawing.append(svg("line", ends));
  }
  const way = ratio > 1 ? 1 : -1, tip = MIDDLE + HALF * way;
  const arrow = { d: `M${tip} 4 l${5 * way} 4 l${-5 * way} 4 z`, class: "point" };
  const beyond = Math.abs(Math.log(ratio)) > span;
  const dot = { cx: across(ratio, span), cy: 8, r: 3.2, class: "point" };
  drawing.append(beyond ? svg("path", arrow) : svg("circle", dot));
  return drawing;
}

export const SIDE_NAMES = page.sideNames || ["base", "other"];
