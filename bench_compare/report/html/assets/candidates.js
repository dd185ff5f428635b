// Variants of one graph beside each other: time, error, workspace, energy, and the Pareto front.

import { byId, el, fill, number, rowHead, table } from "./dom.js";
import { counted, known, scaleOf, UNKNOWN, valueText } from "./format.js";
import { page } from "./page.js";
import { draw } from "./plot.js";
import { color, onTheme } from "./theme.js";

const HEADS = [
  "", ["time", "number"], ["error", "number"], ["workspace", "number"], ["energy", "number"], "",
];
const errorText = (error) => (known(error) ? error.toPrecision(2) : UNKNOWN);
const textOf = (value, unit) => (known(value) ? valueText(value, unit) : UNKNOWN);

export function showCandidates() {
  byId("candidates").hidden = !page.candidates.length;
  if (!page.candidates.length) return;
  const names = page.candidates.map(({ name, label }, place) =>
    el("option", { value: place }, page.sides.length > 2 ? `${name}, ${label}` : name));
  const select = el("select", { onchange: () => show(Number(select.value)) }, names);
  fill("candidates-graph", el("label", {}, "Graph ", select));
  onTheme(() => show(Number(select.value)));
  show(0);
}

function show(place) {
  const { points } = page.candidates[place];
  chart(byId("candidates-chart"), points);
  fill("candidates-table", table("candidates", HEADS, points.map(row)));
  fill("candidates-note", `${counted(points.length)} candidates; the larger a point, the more ` +
    "workspace. Those on the line are not beaten: no other is better in one of time, error, " +
    "workspace and energy, and worse in none.");
}

function row([label, time, , , error, workspace, energy, front]) {
  return [
    rowHead(label), number(textOf(time, "ns")), number(errorText(error)),
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
