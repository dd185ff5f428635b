// Configurations that trade time for energy, and predictions beside measurements.

import { energyText, estimate, page, timeText } from "./compose_data.js";
import { byId, el, fill, number, rowHead, table } from "./dom.js";
import { changeText, plural, scaleOf, significant } from "./format.js";
import { svg } from "./svg.js";

const SIZE = { width: 560, height: 260 };
const EDGE = { left: 62, right: 16, top: 14, bottom: 36 };
const NO_ANSWER = "Without an answer there is nothing to trade.";
const NO_FRONT = "No energy in these documents: measure with --energy to see what trades for time.";

export function showFront() {
  const points = page.front;
  fill("front-chart", points.length > 1 ? chart(points) : "");
  fill("front-table", points.length ? table("plain",
    ["", ["time", "number"], ["energy", "number"], "unlike the chosen one"],
    points.map(row)) : "");
  byId("front-note").textContent = points.length
    ? "Corners of the convex hull: no other choice takes less of any weighted sum of both."
    : page.chosen ? NO_FRONT : NO_ANSWER;
}

function row(point, place) {
  return [
    rowHead(point.is_chosen ? "chosen" : `${place + 1}`), number(timeText(point.time_ns)),
    number(energyText(point.energy_j)), el("td.break", {}, differences(point)),
  ];
}

function differences({ choices }) {
  const own = page.chosen ? page.chosen.choices : {};
  const unlike = Object.entries(choices).filter(([name, value]) => own[name] !== value);
  if (!unlike.length) return "";
  const texts = unlike.slice(0, 3).map(([name, value]) => `${name}: ${value}`);
  const more = unlike.length > 3 ? `; ${plural(unlike.length - 3, "more layer")}` : "";
  return `${texts.join("; ")}${more}`;
}

function scale(values, from, to) {
  const low = Math.min(...values), high = Math.max(...values);
  const room = 0.12 * (high - low) || Math.abs(high) * 0.05 || 1;
  return (value) => from + ((value - low + room) / (high - low + 2 * room)) * (to - from);
}

function chart(points) {
  const x = scale(points.map((one) => one.time_ns), EDGE.left, SIZE.width - EDGE.right);
  const y = scale(points.map((one) => one.energy_j), SIZE.height - EDGE.bottom, EDGE.top);
  const at = (one) => `${x(one.time_ns).toFixed(1)} ${y(one.energy_j).toFixed(1)}`;
  const label = `${points.length} configurations by time and energy`;
  const made = svg("svg", {
    viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, class: "front", role: "img", "aria-label": label,
  });
  made.append(...axes(points, x, y),
    svg("path", { d: `M${points.map(at).join("L")}`, class: "front-line" }),
    ...points.map((one) => dot(one, x(one.time_ns), y(one.energy_j))));
  return made;
}

function dot(one, x, y) {
  const made = svg("circle", {
    cx: x, cy: y, r: one.is_chosen ? 7 : 5, class: one.is_chosen ? "front-chosen" : "front-dot",
  });
  made.append(svg("title", {}, `${timeText(one.time_ns)}, ${energyText(one.energy_j)}`));
  return made;
}

function axes(points, x, y) {
  const times = ends(points.map((one) => one.time_ns));
  const energies = ends(points.map((one) => one.energy_j));
  const bottom = SIZE.height - EDGE.bottom;
  const [factor, unit] = scaleOf(Math.max(...times), "ns");
  return [
    ...times.map((value) => svg("text",
      { x: x(value), y: bottom + 14, "text-anchor": "middle", class: "label" },
      significant(value / factor, 4))),
    ...energies.flatMap((value) => [
      svg("line", { x1: EDGE.left, x2: SIZE.width - EDGE.right, y1: y(value), y2: y(value),
        class: "grid" }),
      svg("text", { x: EDGE.left - 6, y: y(value) + 4, "text-anchor": "end", class: "label" },
        energyText(value)),
    ]),
    svg("text", { x: SIZE.width - EDGE.right, y: SIZE.height - 4, "text-anchor": "end",
      class: "label" }, `time, ${unit}`),
  ];
}

const ends = (values) => [...new Set([Math.min(...values), Math.max(...values)])];

export function showChecks() {
  byId("checks-section").hidden = !page.checks.length;
  fill("checks", table("plain",
    ["", ["predicted", "number"], ["measured", "number"], ["measured over predicted", "number"],
      "interval"], page.checks.map(check)));
  byId("model").textContent = page.modelText;
}

function check(one) {
  const held = { true: "holds", false: "does not hold" }[String(one.holds)] || "none";
  const tone = one.holds === false ? "bad" : "none";
  return [
    rowHead(`${one.engine}, ${one.cache}`, el("span.note.block", {}, one.source)),
    number(estimate(one.predicted, timeText)), number(estimate(one.measured, timeText)),
    number(changeText(Math.exp(one.log_error))),
    el(`td.${tone}`, {}, held),
  ];
}
