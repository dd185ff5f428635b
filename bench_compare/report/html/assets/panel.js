// The panel of a case, drawn when asked for, from its unpacked block: what became of it, what
// differs, its samples, metrics, outputs, initialisation, the ceilings of its device, and facts.

import {
  badge, byId, changeText, changeWithin, color, counted, differenceText, el, intervalText, known,
  number,
  numbered, onTheme, page, percentText, plural, rowHead, scaleOf, scrolling, sideColor,
  significant, sum, table, UNKNOWN, valueText,
} from "./base.js";
import {
  aboutText, badgeOf, cases, manySides, metricTitle, siblingsOf, word,
} from "./cases.js";
import { draw, SIDE_NAMES } from "./charts.js";
import { addressOf, panelHead, setPanel, state } from "./list.js";
import { drawSamples, sampleSection } from "./sample_charts.js";
import {
  bothSides, detailOf, metricOf, part, sidesText, sideWord, valuesOf,
} from "./samples.js";

const PHASES = [
  ["load_ns", "load graph"], ["import_ns", "import engine"], ["build_ns", "build"],
  ["plan_ns", "plan"], ["search_ns", "search"], ["first_run_ns", "first run"],
];
const LOG_TICKS = { type: "log", dtick: "D2" };

function initChart(node, sides) {
  const places = [1, 0].filter((place) => sides[place] && sides[place].init);
  const most = Math.max(...places.map((place) => sum(Object.values(sides[place].init))));
  const [factor, unit] = scaleOf(most, "ns");
  const traces = PHASES.map(([phase, title], i) => ({
    type: "bar", orientation: "h", name: title, y: places.map((place) => SIDE_NAMES[place]),
    x: places.map((place) => (sides[place].init[phase] || 0) / factor),
    marker: { color: color(`phase-${i}`) },
    hovertemplate: `${title}: %{x:.4~g} ${unit}<extra></extra>`,
  })).filter((trace) => trace.x.some((value) => value > 0));
  draw(node, traces, {
    height: 90 + 42 * places.length, barmode: "stack", showlegend: true,
    margin: { l: 8, r: 8, t: 34, b: 8 }, bargap: 0.35,
    xaxis: { title: { text: unit } }, yaxis: { showgrid: false },
    legend: {
      orientation: "h", x: 0, y: 1.02, yanchor: "bottom", traceorder: "normal",
      font: { color: color("soft") },
    },
  });
}

function peakOf(ceiling, dtype) {
  const wanted = dtype.toLowerCase();
  const found = Object.entries(ceiling.tflops).find(([name]) => name.toLowerCase() === wanted);
  return found ? found[1] : null;
}

// Points of both sides under the measured ceilings; empty where work or rate is unknown.
function rooflinePoints(sides) {
  const read = (side, place) => {
    const [, tflops] = (side && side.achieved) || [], [, , intensity] = (side && side.work) || [];
    return { place, intensity, tflops };
  };
  return sides.map(read).filter(({ intensity, tflops }) => intensity > 0 && tflops > 0);
}

function roofTrace(points, peak, slope) {
  const at = points.map((point) => point.intensity);
  const ridge = known(peak) ? peak / slope : Math.max(...at);
  const left = Math.min(...at, ridge) / 8, right = Math.max(...at, ridge) * 8;
  const x = [left, ...(known(peak) ? [ridge] : []), right];
  const y = x.map((one) => (known(peak) ? Math.min(peak, slope * one) : slope * one));
  const line = { color: color("soft"), width: 1.5 }, name = "measured ceiling";
  return { type: "scatter", mode: "lines", name, x, y, line, hoverinfo: "skip" };
}

function rooflineChart(node, sides, ceiling, dtype) {
  const points = rooflinePoints(sides), peak = peakOf(ceiling, dtype);
  const traces = points.map(({ place, intensity, tflops }) => ({
    type: "scatter", mode: "markers", name: SIDE_NAMES[place], x: [intensity], y: [tflops],
    marker: {
      size: 12, color: sideColor(place), symbol: place ? "diamond" : "circle-open",
      line: { width: 2 },
    },
    hovertemplate: `${SIDE_NAMES[place]}: %{y:.4~g} TFLOP/s<extra></extra>`,
  }));
  draw(node, [roofTrace(points, peak, ceiling.gbps / 1000), ...traces], {
    height: 260, showlegend: true, margin: { l: 8, r: 8, t: 30, b: 8 },
    xaxis: { ...LOG_TICKS, title: { text: "FLOP per byte" } },
    yaxis: { ...LOG_TICKS, title: { text: "TFLOP/s" } },
  });
}

function wasCalled(detail) {
  const name = (cases.was || {})[detail.place];
  return name ? el("p.note", {}, `Called ${name} in the base; the graph means the same.`) : null;
}

// A line for each kind of note; what both sides say is said once.
function noteList(detail) {
  const kinds = new Map();
  for (const [kind, side, said] of detail.notes) {
    const found = kinds.get(kind) || new Map();
    found.set(said, [...(found.get(said) || []), side]);
    kinds.set(kind, found);
  }
  const items = [...kinds].map(([kind, found]) => {
    const texts = [...found].map(([said, sides]) => (new Set(sides).size > 1
      ? `${SIDE_NAMES.join(" and ")}: ${said}` : `${sides[0]}: ${said}`));
    return el("li", {}, el("span.tag", {}, kind), " ", texts.join("; "));
  });
  return items.length ? el("ul.notes", {}, items) : null;
}

function outcomes(detail) {
  const lines = detail.sides.map(outcome).filter(known);
  return lines.length ? part("What became of it", ...lines) : null;
}

function outcome(side, place) {
  if (!side) return el("p", {}, sideWord(place), "does not hold this case");
  const [status, reason, phase, last] = side.outcome;
  if (status === "completed") return null;
  const where = phase ? ` in ${phase.replace("_", " ")}` : "";
  const said = el("p", {}, sideWord(place), `${status}${where}${reason ? `: ${reason}` : ""}`);
  return el("div", {}, said, last ? el("pre", {}, last) : null);
}

const WHY_HEADS = ["", ...SIDE_NAMES];

// Plan, kernels, clocks, libraries: what may explain a change comes before the numbers.
function whySection(detail) {
  if (!detail.why.length) {
    const measured = detail.sides.every((side) => side && side.outcome[0] === "completed");
    const same = "No plan, kernel, clock or library differs between the sides.";
    return measured ? el("p.note", {}, same) : null;
  }
  const rows = detail.why.map(([name, base, other]) => [rowHead(name), base, other]);
  return part("What differs", table("facts.unlike-all", WHY_HEADS, rows));
}

function kernelSection(detail) {
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

function factSection(detail) {
  const hasMetric = (name) => metricOf(detail, name) !== null;
  const sides = bothSides(detail, (side) => factsOf(side, hasMetric))
    .map((facts) => facts || new Map());
  const names = [...new Set(sides.flatMap((facts) => [...facts.keys()]))];
  const rows = names.map((name) => {
    const values = sides.map((facts) => facts.get(name));
    if (new Set(values).size === 1) {
      return [rowHead(name), el("td", { colspan: values.length }, values[0])];
    }
    const cells = values.map((value) => el("td.unlike", {}, known(value) ? value : UNKNOWN));
    return [rowHead(name), ...cells];
  });
  rows.push([rowHead("fingerprint"), el("td", { colspan: sides.length }, detail.fingerprint)]);
  return part("Facts", table("facts", ["", ...SIDE_NAMES], rows));
}

const BYTES = new Map([
  [null, ""], [true, ", the same bytes each time"], [false, ", not the same bytes each time"],
]);
const OUTPUT_HEADS = [
  "output", "elements", "wrong", "max abs", "max rel", "rel. L2", "rtol", "atol",
];

function errorText(value) {
  if (!known(value)) return UNKNOWN;
  return typeof value === "string" ? value : significant(value, 3);
}

// What both sides found alike is said once.
function validationSection(detail) {
  const shown = bothSides(detail, (side) => side.validation);
  if (!shown.some(known)) return null;
  if (JSON.stringify(shown[0]) === JSON.stringify(shown[1])) {
    return part("Validation", sideValidation(shown[0], el("strong", {}, "base and other: ")));
  }
  const parts = shown.map((one, place) => (one ? sideValidation(one, sideWord(place)) : null));
  return part("Validation", ...parts.filter(known));
}

function sideValidation(one, who) {
  const checked = `; ${plural(one.checked, "timed iteration")} checked, ${one.wrong} wrong`;
  const timed = one.checked ? checked + BYTES.get(one.deterministic) : "";
  const against = ["unknown", "none"].includes(one.reference) ? "" : ` against ${one.reference}`;
  const why = one.reason ? ` (${one.reason})` : "";
  const rows = one.outputs.map(outputRow);
  return el("div", {},
    el("p", {}, who, `${one.status}${against}${timed}`, why),
    rows.length ? scrolling(table("plain", numbered(OUTPUT_HEADS), rows)) : null,
    ...one.outputs.filter((output) => output[10].length).map(worstTable));
}

function outputRow([name, dtype, elements, wrong, ...rest]) {
  return [
    rowHead(name, el("span.note", {}, dtype === "unknown" ? "" : ` ${dtype}, ${rest[5]}`)),
    number(counted(elements)), number(counted(wrong)),
    ...rest.slice(0, 5).map((value) => number(errorText(value))),
  ];
}

function worstTable(output) {
  const rows = output[10].map(([index, expected, actual]) =>
    [`[${index.join(", ")}]`, errorText(expected), errorText(actual)].map(number));
  const heads = ["index", "expected", "actual"].map((head) => [head, "number"]);
  const made = table("plain", heads, rows);
  made.prepend(el("caption", {}, `Worst mismatches of ${output[0]}`));
  return made;
}

// A node that draws its chart once it stands on the page.
function chart(drawChart) {
  const node = el("div.chart");
  node.drawChart = () => drawChart(node);
  return node;
}

// The phases as the metrics above have them, so that both tell the same numbers.
function withPhases(detail) {
  return detail.sides.map((side, place) => {
    if (!side || !side.init) return side;
    const phases = Object.entries(side.init).map(([phase, value]) => {
      const shown = valuesOf(detail, phase)[place];
      return [phase, known(shown) ? shown : value];
    });
    return { ...side, init: Object.fromEntries(phases) };
  });
}

function initSection(detail) {
  const sides = withPhases(detail), metric = valuesOf(detail, "init_ns");
  const sums = sides.map((side) => (side && side.init ? sum(Object.values(side.init)) : null));
  if (!sums.some(known)) return null;
  const totals = sums.map((value, place) => (known(metric[place]) ? metric[place] : value));
  const text = sidesText(totals, (name, value) => `${name} ${valueText(value, "ns")}`);
  return part("Initialisation", chart((node) => initChart(node, sides)),
    el("p.note", {}, "Typical time of each phase over the rounds, as in the table above. The " +
      `initialisation as a whole is typically ${text}; phases need not add up to it.`));
}

// Of the base, else of the side that the case is of.
function ceilingOf(place) {
  const label = word("label", place);
  const other = page.sides.findIndex((side, at) => at && side.label === label);
  const both = [page.ceilings[0], page.ceilings[other]];
  return both.find((ceiling) => ceiling && known(ceiling.gbps)) || null;
}

// The sides with the compute rate of the table above, where the case has that metric.
function withRates(detail) {
  const metric = valuesOf(detail, "tflops");
  return detail.sides.map((side, place) => {
    if (!side || !side.achieved || !known(metric[place])) return side;
    const [series, before, gbps, share] = side.achieved;
    const scaled = known(share) && before ? (share * metric[place]) / before : share;
    return { ...side, achieved: [series, metric[place], gbps, scaled] };
  });
}

function rooflineSection(detail) {
  const ceiling = ceilingOf(detail.place), sides = withRates(detail);
  if (!rooflinePoints(sides).length || !ceiling) return null;
  const dtype = word("dtype", detail.place), peak = peakOf(ceiling, dtype);
  const rates = [
    valueText(ceiling.gbps, "GB/s"),
    known(peak) ? valueText(peak, "TFLOP/s") : "an unknown matrix rate",
  ];
  const shares = sides.map((side) => (side && side.achieved ? side.achieved[3] : null));
  const reached = sidesText(shares, (name, share) => `${name} ${significant(100 * share, 3)} %`);
  return part("Roofline", chart((node) => rooflineChart(node, sides, ceiling, dtype)),
    el("p.note", {}, `Ceilings measured on the device: ${rates.join(" and ")}.`,
      reached ? ` Share of the ceiling: ${reached}.` : ""));
}

const METRIC_HEADS = [
  "metric", ["base", "number"], ["other", "number"], ["difference", "number wide-only"],
  ["change", "number"], ["95 % interval", "number wide-only"], "verdict",
];

const withinText = ({ threshold }) => `within the threshold of ${percentText(threshold)}`;

function metricSection(detail) {
  if (!detail.metrics.length) return null;
  const table_ = table("metrics", METRIC_HEADS, detail.metrics.map(metricRow));
  return part("Metrics", scrolling(table_), gateNote(detail));
}

function metricRow(metric) {
  const [title, unit] = page.metrics[metric.name];
  const both = known(metric.base) && known(metric.other);
  const moved = both ? differenceText(metric.other - metric.base, unit) : "";
  const interval = known(metric.low) ? intervalText(metric.low, metric.high) : "";
  return [
    el("th", { scope: "row", title: metric.reason || withinText(metric) }, title),
    number(valueText(metric.base, unit)), number(valueText(metric.other, unit)),
    el("td.number.wide-only", {}, moved),
    number(changeWithin(metric)),
    el("td.number.wide-only", {}, interval),
    badge(metric.verdict, metric.provisional),
  ];
}

function unitsText({ unit, left, right }) {
  if (unit === "summary") return "summaries without samples: no interval";
  return `${left} and ${plural(right, unit)} as independent units`;
}

function gateNote(detail) {
  const gate = metricOf(detail, word("metric", detail.place));
  if (!gate) return null;
  const { q, threshold, needed } = gate;
  const parts = [
    known(q) ? `q ${significant(q, 2)} after false-discovery control` : null,
    known(threshold) ? `practical threshold ${percentText(threshold)}` : null,
    unitsText(gate),
    known(needed) ? `about ${needed} more would decide` : null,
  ];
  return el("p.note", {}, `${metricTitle(gate.name)}: ${parts.filter(known).join("; ")}`);
}

// All iterations together, which do not decide; said beside the number, as it may differ a little.
function closerLook(detail) {
  const closer = detail.detail;
  if (!closer) return null;
  const names = closer.quantiles.map(([percent]) => (percent === 50 ? "median" : `p${percent}`));
  const cells = closer.quantiles.map(([, ratio]) => number(changeText(ratio)));
  const heads = numbered(["change of", ...names]);
  const shift = differenceText(closer.shift, "ns");
  return part("All iterations together",
    el("p.note", {},
      `${metricTitle(closer.metric)}; iterations of all rounds in one heap, so these numbers may `,
      "differ a little from those of the metric above, which decide."),
    table("plain", heads, [[rowHead("other / base"), ...cells]]),
    el("p.note", {},
      `The median's interval within rounds is ${intervalText(closer.low, closer.high)} `,
      `(block bootstrap), the typical shift ${shift} (Hodges-Lehmann).`));
}

const SECTIONS = [
  wasCalled, outcomes, whySection, noteList, sampleSection, metricSection, closerLook,
  validationSection, initSection, rooflineSection, kernelSection, factSection,
];
let shown = null;
onTheme(redraw);

export function closeCase() {
  shown = null;
}

export async function openCase(place) {
  shown = null;
  if (place === undefined) return;
  setPanel(headOf(place), el("p.empty", {}, "Unpacking …"));
  try {
    const detail = await detailOf(place);
    if (state.open !== place) return;
    shown = { ...detail, place };
    redraw();
  } catch (error) {
    setPanel(headOf(place), el("p.alarm.fatal", {}, String(error.message)));
  }
  byId("panel").dataset.case = cases.id[place];
}

function headOf(place) {
  return panelHead(place, badgeOf(place), cases.name[place],
    aboutText(place, ["family", "dtype", "engine", "variant"]), sidesBar(place));
}

// The same graph in the other sides, where there are several.
function sidesBar(place) {
  if (!manySides) return null;
  const links = siblingsOf(place).map((one) => el("a.side-link", {
    href: addressOf(one), "aria-current": one === place ? "true" : null,
  }, word("label", one)));
  return el("nav.sides", { "aria-label": "Compared side" }, links);
}

function redraw() {
  if (!shown) return;
  const parts = SECTIONS.map((section) => section(shown)).filter(known);
  setPanel(headOf(shown.place), el("p.reason", {}, shown.reason), parts);
  drawSamples(shown);
  for (const node of byId("panel").querySelectorAll(".chart")) {
    if (node.drawChart) node.drawChart();
  }
}
