// The sections of the panel on what differs between the sides, kernels and other facts.

import { el, number, rowHead, scrolling, table } from "./dom.js";
import { counted, known, UNKNOWN, valueText } from "./format.js";
import { SIDE_NAMES } from "./frame.js";
import { bothSides, metricOf, part } from "./parts.js";

const WHY_HEADS = ["", ...SIDE_NAMES];

// Plan, kernels, clocks, libraries: what may explain a change comes before the numbers.
export function whySection(detail) {
  if (!detail.why.length) {
    const measured = detail.sides.every((side) => side && side.outcome[0] === "completed");
    const same = "No plan, kernel, clock or library differs between the sides.";
    return measured ? el("p.note", {}, same) : null;
  }
  const rows = detail.why.map(([name, base, other]) => [rowHead(name), base, other]);
  return part("What differs", table("facts.unlike-all", WHY_HEADS, rows));
}

export function kernelSection(detail) {
  const rows = detail.sides.flatMap((side, place) =>
    ((side && side.kernels) || []).map(([name, count, median]) => [
      SIDE_NAMES[place], el("td.break", {}, name), number(`${count} ×`),
      number(valueText(median, "ns")),
    ]));
  const heads = ["", "kernel", ["launches", "number"], ["median", "number"]];
  if (!rows.length) return null;
  const note = "As traced in a pass of its own, of the last document.";
  return part("Kernels", scrolling(table("plain", heads, rows)), el("p.note", {}, note));
}

const upTo = (values, say) => (values.length ? `up to ${say(Math.max(...values))}` : null);
const maybe = (value, say) => (known(value) ? say(value) : null);
const bytes = (value) => valueText(value, "bytes");

// Rates and memory that a metric of the table tells are not told twice.
function factsOf(side, hasMetric) {
  const [flops, moved] = side.work || [];
  const [, , buffers] = side.memory || [];
  const rounds = side.rounds || [];
  const column = (at) => rounds.map((round) => round[at]).filter(known);
  const rates = [[1, "TFLOP/s", "tflops"], [2, "GB/s", "gbps"]]
    .filter(([at, , name]) => side.achieved && known(side.achieved[at]) && !hasMetric(name));
  const facts = [
    ["graph", side.name],
    ["file", side.path],
    ["engine", side.engine],
    ...Object.entries(side.plan || {}),
    ["work", maybe(flops, (value) => valueText(value / 1e9, "GFLOP"))],
    ["bytes moved", maybe(moved, bytes)],
    ["rate", rates.map(([at, unit]) => valueText(side.achieved[at], unit)).join(", ")],
    ["buffers", maybe(buffers, bytes)],
    ["rounds", rounds.length ? counted(rounds.length) : null],
    ["ended by", side.stopped],
    ["power", upTo(column(3), (value) => valueText(value, "W", 3))],
    ["temperature", upTo(column(4), (value) => valueText(value, "°C", 3))],
    ["notes", (side.notes || []).join("; ")],
  ];
  return new Map(facts.filter(([, value]) => known(value) && value !== ""));
}

export function factSection(detail) {
  const hasMetric = (name) => metricOf(detail, name) !== null;
  const sides = bothSides(detail, (side) => factsOf(side, hasMetric))
    .map((facts) => facts || new Map());
  const names = [...new Set(sides.flatMap((facts) => [...facts.keys()]))];
  const rows = names.map((name) => {
    const values = sides.map((facts) => facts.get(name));
    if (values[0] === values[1]) return [rowHead(name), el("td", { colspan: 2 }, values[0])];
    const cells = values.map((value) => el("td.unlike", {}, known(value) ? value : UNKNOWN));
    return [rowHead(name), ...cells];
  });
  rows.push([rowHead("fingerprint"), el("td", { colspan: 2 }, detail.fingerprint)]);
  return part("Facts", table("facts", ["", ...SIDE_NAMES], rows));
}
