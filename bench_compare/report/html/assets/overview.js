// All measured cases in one chart, their change with its interval on a logarithmic axis; and
// variants of one graph beside each other: time, error, workspace, energy, and the Pareto front.

import {
  byId, changeWithin, color, counted, el, fill, intervalText, known, label, lookOf, number,
  onTheme, page, percentText, plural, rowHead, scaleOf, shortened, table, toneColor, UNKNOWN,
  valueText,
} from "./base.js";
import {
  aboutText, badgeOf, cases, every, manyWords, total, unitOf, verdictOf, word,
} from "./cases.js";
import { draw, extent, ratioTicks } from "./charts.js";
import { addressOf, onSelection, select, state } from "./list.js";

const tip = el("div.tip", { role: "status", hidden: true });

export const addTip = () => document.body.append(tip);

function showTip(place, pointer) {
  const unit = unitOf(place), low = cases.low[place], high = cases.high[place];
  const values = [cases.base[place], cases.other[place]].map((value) => valueText(value, unit));
  const verdict = badgeOf(place);
  tip.replaceChildren(
    el("strong", {}, cases.name[place]),
    el("div", {}, verdict, ` ${changeWithin({ low, ratio: cases.ratio[place], high })}`),
    known(low) ? el("div", {}, `95 % ${intervalText(low, high)}`) : "",
    el("div", {}, values.join(" → ")),
    el("div.note", {}, aboutText(place, ["family", "engine", "variant", "why"])));
  tip.hidden = false;
  const room = document.documentElement.clientWidth;
  tip.style.left = `${Math.max(8, Math.min(pointer.clientX + 14, room - tip.offsetWidth - 8))}px`;
  tip.style.top = `${Math.max(8, pointer.clientY - tip.offsetHeight - 12)}px`;
}

function hideTip() {
  tip.hidden = true;
}

// How the cases are laid out: the group of a case; "base" is a scatter over the time of the base.
const ARRANGEMENTS = {
  ratio: () => "", base: () => "",
  family: (place) => word("family", place),
  engine: (place) => word("engine", place),
  label: (place) => word("label", place),
};
export const ARRANGED = Object.keys(ARRANGEMENTS);
const SMALL = 600;
const MANY = 1000;
const isNarrow = () => window.innerWidth < SMALL;
const isScatter = () => state.arrange === "base";
const hasRatio = (place) => known(cases.ratio[place]) && cases.ratio[place] > 0;
const hasPoint = (place) => hasRatio(place) && (!isScatter() || cases.base[place] > 0);

// Points as [group, ratio, place, x], from left to right.
function pointsOf(places) {
  const group = ARRANGEMENTS[state.arrange];
  const points = places.filter(hasPoint).map((place) => [group(place), cases.ratio[place], place])
    .sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : a[1] - b[1]));
  const [factor] = scale(places);
  return points.map((point, x) => [...point, isScatter() ? cases.base[point[2]] / factor : x]);
}

// Factor and name of the unit of the scatter's axis.
function scale(places) {
  const first = places.find(hasPoint);
  if (first === undefined) return [1, ""];
  const unit = unitOf(first), middle = Math.max(...places.slice(0, 1000).filter(hasPoint)
    .map((place) => cases.base[place]));
  return unit === "ns" || unit === "bytes" ? scaleOf(Math.sqrt(middle), unit) : [1, unit];
}

function tracesOf(points) {
  const byVerdict = new Map();
  for (const [, ratio, place, x] of points) {
    const verdict = verdictOf(place);
    const empty = { x: [], y: [], up: [], down: [], low: [], high: [], places: [] };
    if (!byVerdict.has(verdict)) byVerdict.set(verdict, empty);
    const trace = byVerdict.get(verdict);
    trace.x.push(x);
    trace.y.push(ratio);
    const [low, high] = [cases.low[place], cases.high[place]];
    trace.high.push(known(high) ? Math.max(high, ratio) : ratio);
    trace.low.push(known(low) ? Math.min(low, ratio) : ratio);
    trace.up.push(trace.high.at(-1) - ratio);
    trace.down.push(ratio - trace.low.at(-1));
    trace.places.push(place);
  }
  const order = [...page.verdicts].reverse().filter((verdict) => byVerdict.has(verdict));
  if (points.length <= MANY) {
    return order.map((verdict) => traceOf(verdict, byVerdict.get(verdict), points.length));
  }
  return order.flatMap((verdict) => manyTraces(verdict, byVerdict.get(verdict), points.length));
}

// Of thousands of cases the intervals are plain lines, and where the verdict is no news there is
// nothing else: half of the elements that markers with error bars take.
function manyTraces(verdict, trace, count) {
  const lines = {
    type: "scatter", mode: "lines", name: verdict, legendgroup: verdict, hoverinfo: "none",
    x: trace.x.flatMap((x) => [x, x, null]),
    y: trace.low.flatMap((low, at) => [low, trace.high[at], null]),
    customdata: trace.places.flatMap((place) => [place, place, null]),
    line: { width: 0.8, color: toneColor(verdict), simplify: false },
  };
  if (page.quiet.includes(verdict)) return [lines];
  const markers = traceOf(verdict, trace, count);
  delete markers.error_y;
  return [{ ...lines, hoverinfo: "skip", showlegend: false }, { ...markers, legendgroup: verdict }];
}

function traceOf(verdict, trace, count) {
  const [, symbol] = lookOf(verdict), tone = toneColor(verdict);
  return {
    type: "scatter", mode: "markers", name: verdict, x: trace.x, y: trace.y,
    customdata: trace.places, hoverinfo: "none",
    marker: {
      symbol, size: count > 2000 ? 4 : count > 200 ? 6 : 9, color: tone,
      line: { width: /open/.test(symbol) ? 1.4 : 0 },
    },
    error_y: {
      type: "data", symmetric: false, array: trace.up, arrayminus: trace.down, width: 0,
      thickness: count > 500 ? 0.8 : 1.4, color: tone,
    },
  };
}

// Lines between groups and a name over each, where there is room for all names.
function groupMarks(points) {
  const shapes = [], annotations = [];
  if (!points[0][0]) return { shapes, annotations };
  const look = { type: "line", y0: 0, y1: 1, yref: "paper", line: { color: color("line") } };
  let start = 0;
  for (let x = 1; x <= points.length; x += 1) {
    const ends = x === points.length;
    if (!ends && points[x][0] === points[start][0]) continue;
    if (!ends) shapes.push({ ...look, x0: x - 0.5, x1: x - 0.5 });
    annotations.push(groupName(points[start][0], (start + x - 1) / 2));
    start = x;
  }
  const room = Math.max(Math.floor(byId("overview").clientWidth / 26), 3);
  return { shapes, annotations: annotations.length <= room ? annotations : [] };
}

function groupName(name, x) {
  return {
    x, y: 1, yref: "paper", yanchor: "bottom", xanchor: "left", showarrow: false, textangle: -30,
    text: label(shortened(name, 24)), font: { size: 11, color: color("soft") },
  };
}

function acrossAxis(points) {
  if (!isScatter()) {
    const side = 0.6 + points.length * 0.01;
    return {
      range: [-side, points.length - 1 + side], showgrid: false, showticklabels: false,
      zeroline: false,
    };
  }
  const [, unit] = scale(state.shown);
  return { type: "log", title: { text: `base, ${unit}` }, nticks: isNarrow() ? 4 : 10 };
}

function overviewLayout(points) {
  const ends = points.flatMap(([, ratio, place]) => [ratio, cases.low[place], cases.high[place]]);
  const [least, most] = extent([...ends.filter((end) => end > 0), 0.985, 1.015]);
  const edge = (most / least) ** 0.06, low = least / edge, high = most * edge;
  const { shapes, annotations } = groupMarks(points), grouped = annotations.length > 0;
  const middle = across(1, 1, { line: { color: color("soft"), width: 1 } });
  return {
    height: isNarrow() ? 300 : 380, showlegend: !isNarrow(),
    margin: { l: 8, r: 12, t: grouped ? 96 : 28, b: 8 },
    xaxis: acrossAxis(points),
    yaxis: { type: "log", range: [Math.log10(low), Math.log10(high)], ...ratioTicks(low, high) },
    shapes: [...thresholdBand(), middle, ...shapes],
    annotations,
    legend: {
      orientation: "h", x: 0, y: grouped ? -0.02 : 1.02, yanchor: grouped ? "top" : "bottom",
      font: { color: color("soft") }, traceorder: "reversed",
    },
  };
}

// A line or band over the whole width.
function across(y0, y1, look) {
  return { type: y0 === y1 ? "line" : "rect", xref: "paper", x0: 0, x1: 1, y0, y1, ...look };
}

function thresholdBand() {
  if (!page.threshold) return [];
  const look = { fillcolor: color("band"), line: { width: 0 }, layer: "below" };
  return [across(1 / (1 + page.threshold), 1 + page.threshold, look)];
}

function noteOf(points) {
  if (!points.length) return ["None of the cases below has a ratio."];
  const intervals = points.some(([, , place]) => known(cases.low[place]))
    ? ", each with its 95 % interval" : "";
  const order = isScatter() ? "over the time of the base" : "sorted by change";
  const measured = plural(points.length, "measured case");
  const said = `${measured} of those below, ${order}${intervals}. Press a point to open its case. `;
  const limit = percentText(page.threshold || 0);
  const band = page.threshold
    ? [el("span.swatch.band"), `Grey band: changes within the threshold of ${limit}.`] : [];
  return [said, ...band];
}

function redraw() {
  const section = byId("overview-section");
  section.hidden = every.filter(hasRatio).length < 2;
  if (section.hidden) return;
  byId("arrange").value = state.arrange;
  const points = pointsOf(state.shown);
  byId("overview").hidden = !points.length;
  byId("overview-note").replaceChildren(...noteOf(points));
  if (!points.length) return;
  const drawn = draw(byId("overview"), tracesOf(points), overviewLayout(points));
  if (drawn) drawn.then(watch);
}

function watch(node) {
  if (node.dataset.watched) return;
  node.dataset.watched = "yes";
  const open = (event) => { location.hash = addressOf(event.points[0].customdata); };
  node.on("plotly_click", open);
  node.on("plotly_hover", (event) => showTip(event.points[0].customdata, event.event));
  node.on("plotly_unhover", hideTip);
}

export function showOverview() {
  for (const option of byId("arrange").options) {
    option.hidden = !["ratio", "base"].includes(option.value) && !manyWords(option.value);
  }
  byId("arrange").addEventListener("change", (event) => select({ arrange: event.target.value }));
  let narrow = isNarrow();
  window.addEventListener("resize", () => {
    if (narrow === isNarrow()) return;
    narrow = !narrow;
    redraw();
  });
  const start = () => {
    onTheme(redraw);
    onSelection(redraw);
    redraw();
  };
  if (total > MANY) whenSeen(byId("overview-section"), start);
  else start();
}

// Drawing thousands of cases takes a second: not before a reader comes near, or prints.
function whenSeen(node, start) {
  const seen = new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting)) begin();
  }, { rootMargin: "100px" });
  const begin = () => {
    seen.disconnect();
    window.removeEventListener("beforeprint", begin);
    start();
  };
  window.addEventListener("beforeprint", begin);
  seen.observe(node);
}

const CANDIDATE_HEADS = [
  "", ["time", "number"], ["error", "number"], ["workspace", "number"], ["energy", "number"], "",
];
const errorText = (error) => (known(error) ? error.toPrecision(2) : UNKNOWN);
const textOf = (value, unit) => (known(value) ? valueText(value, unit) : UNKNOWN);

export function showCandidates() {
  byId("candidates").hidden = !page.candidates.length;
  if (!page.candidates.length) return;
  const names = page.candidates.map((one, place) => el("option", { value: place },
    page.sides.length > 2 ? `${one.name}, ${one.label}` : one.name));
  const chooser = el("select", { onchange: () => showGraph(Number(chooser.value)) }, names);
  fill("candidates-graph", el("label", {}, "Graph ", chooser));
  onTheme(() => showGraph(Number(chooser.value)));
  showGraph(0);
}

function showGraph(place) {
  const { points } = page.candidates[place];
  chart(byId("candidates-chart"), points);
  fill("candidates-table", table("candidates", CANDIDATE_HEADS, points.map(row)));
  fill("candidates-note", `${counted(points.length)} candidates; the larger a point, the more ` +
    "workspace. Those on the line are not beaten: no other is better in one of time, error, " +
    "workspace and energy, and worse in none.");
}

function row([title, time, , , error, workspace, energy, front]) {
  return [
    rowHead(title), number(textOf(time, "ns")), number(errorText(error)),
    number(textOf(workspace, "bytes")), number(textOf(energy, "J")), front ? "not beaten" : "",
  ];
}

function chart(node, points) {
  const [factor, unit] = scaleOf(Math.max(...points.map((point) => point[1])), "ns");
  const most = Math.max(1, ...points.map((point) => point[5] || 0));
  const sized = (point) => 9 + 18 * Math.sqrt((point[5] || 0) / most);
  const front = points.filter((point) => point[7]);
  const line = {
    type: "scatter", mode: "lines", x: front.map((point) => point[1] / factor),
    y: front.map((point) => point[4] || 0), line: { color: color("soft"), width: 1.5 },
    hoverinfo: "skip",
  };
  const dots = {
    type: "scatter", mode: "markers", x: points.map((point) => point[1] / factor),
    y: points.map((point) => point[4] || 0), text: points.map((point) => point[0]),
    error_x: {
      type: "data", symmetric: false, thickness: 1, color: color("soft"),
      array: points.map((point) => (point[3] - point[1]) / factor),
      arrayminus: points.map((point) => (point[1] - point[2]) / factor),
    },
    marker: {
      size: points.map(sized), opacity: 0.85,
      color: points.map((point) => color(point[7] ? "side-other" : "soft")),
    },
    hovertemplate: `%{text}<br>%{x:.4~g} ${unit}, error %{y:.2~g}<extra></extra>`,
  };
  draw(node, [line, dots], {
    height: 300, margin: { l: 8, r: 8, t: 8, b: 8 },
    xaxis: { title: { text: unit } },
    yaxis: { title: { text: "largest relative L2 error" }, rangemode: "tozero" },
  });
}
