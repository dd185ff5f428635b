// The page of a composition: the answer, one pass as a waterfall, what each layer could be, time
// against energy; everything is drawn by our own code.

import {
  byId, changeText, commandLine, counted, el, fill, intervalText, known, MINUS, number, page,
  plural, rowHead, scaleOf, scrolling, significant, spanText, sum, svg, table, valueText,
} from "./base.js";

const sides = [page.chosen, page.baseline].filter(Boolean);

const timeText = (value) => valueText(value, "ns").replace("-", MINUS);

function shareText(share) {
  const text = (100 * share).toFixed(1);
  return `${text === "-0.0" ? "0.0" : text.replace("-", MINUS)}\u00a0%`;
}

// An energy keeps a unit in which people can read it.
function energyText(joules) {
  if (joules === null || joules === undefined) return valueText(null);
  const steps = [[1, "J"], [1e-3, "mJ"], [1e-6, "µJ"], [0, "nJ"]];
  const [factor, unit] = steps.find(([least]) => Math.abs(joules) >= least);
  return `${significant(joules / (factor || 1e-9))}\u00a0${unit}`;
}

const errorText = (error) =>
  (error === null || error === undefined ? valueText(null) : significant(error, 2));

// The value, and its interval as a line of its own.
function estimate(one, text) {
  if (!one) return valueText(null);
  const { value, low, high } = one;
  const range = low === null ? text(value) : spanText(low, high, text);
  return [text(value), range === text(value) ? null : el("span.note.block", {}, range)];
}

const KINDS = {
  layer: "layer", conversion: "conversion", seam: "seam", energy: "energy", cache: "cache state",
};

const SERIES = { device_ns: "device time", e2e_ns: "end-to-end time" };

function showHead() {
  byId("title").textContent = page.headline;
  byId("about").textContent = [page.about, page.path].filter(Boolean).join(" · ");
  fill("alarms", page.problems.map((text) => el("p.alarm.fatal", {}, text)),
    page.remarks.map((text) => el("p.alarm", {}, text)));
  fill("answer", answer());
  byId("method").textContent = page.method;
  fill("sides", sideTable());
  byId("missing-section").hidden = !page.missing.length;
  fill("missing", page.missing.map(missingRow));
  fill("foot", foot());
}

function answer() {
  if (!page.chosen) return el("p.big.no-answer", {}, "No answer");
  const { time } = page.chosen;
  const range = known(time.low)
    ? `${page.intervalWord}: ${spanText(time.low, time.high, timeText)}`
    : "nothing is known of its spread";
  return [
    el("p.big", {}, timeText(time.value),
      el("span.big-word", {}, `predicted, one pass, ${SERIES[page.series] || page.series}`)),
    el("p.note", {}, range),
    page.ratios ? ratioText() : null,
  ];
}

function ratioText() {
  const { time, energy } = page.ratios;
  if (isSame(time) && (!energy || isSame(energy))) {
    const what = energy ? "the same time and energy" : "the same time";
    return el("p", {}, `${what} as ${page.baselineName}`);
  }
  const against = `${page.baselineName} over ${page.chosen.name}`;
  const interval = known(time.low) ? intervalText(time.low, time.high) : "";
  const change = changeText(time.value);
  const more = interval && interval !== change ? `, ${interval}` : "";
  const parts = [isSame(time) ? "the same time" : `time ${change}${more}`];
  if (energy) parts.push(isSame(energy) ? "the same energy" : `energy ${changeText(energy.value)}`);
  return el("p", {}, el("strong", {}, against), `: ${parts.join("; ")}`);
}

const isSame = ({ value, low }) =>
  [value, known(low) ? low : value].every((one) => Math.abs(one - 1) < 1e-9);

function sideTable() {
  const named = new Set(sides.map((one) => one.name));
  const held = [...sides, ...page.others.filter((one) => !named.has(one.name))];
  const columns = COLUMNS.filter(([, field]) => held.some((one) => known(one[field])));
  const heads = ["", ...columns.map(([text]) => [text, "number"])];
  return table("plain", heads, held.map((one) => [
    rowHead(one.name, one.ends.length > 1 ? el("span.note.block", {}, endsText(one)) : null),
    ...columns.map(([, field, text]) =>
      number(known(one[field]) ? text(one[field]) : valueText(null))),
  ]));
}

const errorRange = (error) => spanText(error.root_of_squares, error.worst, errorText);

// Name, field and text; what no configuration has is no column.
const COLUMNS = [
  ["time", "time", (one) => estimate(one, timeText)],
  ["energy", "energy", (one) => estimate(one, energyText)],
  ["energy × delay", "edp", (value) => `${significant(value, 3)} J·s`],
  ["error", "error", errorRange],
  ["workspace", "workspace_bytes", (value) => valueText(value, "bytes")],
];
const endsText = (one) =>
  one.ends.map((end) => `${end.cache} ${timeText(end.estimate.value)}`).join(", ");

function missingRow({ kind, what, command, blocks }) {
  const need = blocks ? "needed for an answer" : "the answer is poorer without it";
  return commandLine([`${KINDS[kind]}: ${what} (${need})`, command]);
}

function foot() {
  const { surroundings: here } = page;
  const rows = [
    ["device", [here.device_kind, here.device, here.host].filter(Boolean).join(", ")],
    ["driver", here.driver], ["cache", here.cache],
    ["settings", pairs(here.settings)], ["libraries", pairs(here.libraries)],
    ["limits", pairs(page.limits)], ["asked for", pairs(page.fixed)],
    ["documents", page.documents.join(", ")],
  ];
  const held = rows.filter(([, text]) => text).map(([name, text]) => [rowHead(name), text]);
  return table("facts", [], held);
}

const pairs = (record) =>
  Object.entries(record).map(([name, value]) => `${name} ${value}`).join(", ");

const SIZE = { width: 560, height: 260 };
const EDGE = { left: 62, right: 16, top: 14, bottom: 36 };
const NO_ANSWER = "Without an answer there is nothing to trade.";
const NO_FRONT = "No energy in these documents: measure with --energy to see what trades for time.";

function showFront() {
  const points = page.front;
  fill("front-chart", points.length > 1 ? chart(points) : "");
  fill("front-table", points.length ? table("plain",
    ["", ["time", "number"], ["energy", "number"], "unlike the chosen one"],
    points.map(pointRow)) : "");
  byId("front-note").textContent = points.length
    ? "Corners of the convex hull: no other choice takes less of any weighted sum of both."
    : page.chosen ? NO_FRONT : NO_ANSWER;
}

function pointRow(point, place) {
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

function showChecks() {
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

const WORDS = {
  layer: "a layer", seam: "a seam: what two neighbours take together, less both alone",
  conversion: "a conversion of an activation",
};

function showSteps() {
  byId("steps").hidden = !sides.length;
  if (!sides.length) return;
  byId("steps-of").append(...sides.map((one, place) => el("option", { value: place }, one.name)));
  for (const id of ["steps-of", "steps-order"]) byId(id).addEventListener("change", redrawSteps);
  fill("steps-legend", Object.entries(WORDS).map(([kind, text]) =>
    el("span", {}, el(`span.swatch.step-${kind}`), text)),
  el("span", {}, el("span.swatch.step-gain"), "a seam that saves time"));
  fill("strips", strips());
  redrawSteps();
}

function redrawSteps() {
  const side = sides[Number(byId("steps-of").value)];
  const rows = placed(side.parts);
  if (byId("steps-order").value === "time") rows.sort((a, b) => b.part.time_ns - a.part.time_ns);
  fill("waterfall", el("ol.waterfall", {}, rows.map((row) => step(row, rows.span))));
  byId("once-box").hidden = !side.once.length;
  byId("once-title").textContent =
    `${plural(side.once.length, "conversion")} of weights, once, not in the time`;
  fill("once",
    el("ol.waterfall", {}, side.once.map((part) => step({ part, from: 0, to: 0 }, 1))));
}

// Where each part begins and ends on the way from 0 to the whole.
function placed(parts) {
  let at = 0, most = 0;
  const rows = parts.map((part) => {
    const from = at;
    at += part.time_ns;
    most = Math.max(most, at);
    return { part, from, to: at };
  });
  rows.span = most || 1;
  return rows;
}

const kindOf = (part) => (part.kind === "seam" && part.time_ns < 0 ? "gain" : part.kind);

function step({ part, from, to }, span) {
  const left = Math.min(from, to) / span, width = Math.abs(to - from) / span;
  const bar = el(`span.step-bar.step-${kindOf(part)}`);
  bar.style.left = `${100 * left}%`;
  bar.style.width = `max(2px, ${100 * width}%)`;
  const times = part.count > 1 ? ` × ${part.count}` : "";
  const facts = [
    part.energy_j === null ? null : energyText(part.energy_j),
    part.error === null ? null : `error ${errorText(part.error)}`,
    part.source === null ? "not measured" : null, part.note,
  ].filter(known);
  return el(`li.step.is-${part.kind}`, { title: sourceText(part) },
    el("span.step-name", {}, nameOf(part), times,
      el("span.note.block", {}, [part.configuration, ...facts].filter(Boolean).join(" · "))),
    el("span.step-track", {}, bar),
    el("span.step-time.number", {}, timeText(part.time_ns)),
    el("span.step-share.number.note", {}, shareText(part.share)));
}

function nameOf(part) {
  if (part.kind === "seam") return `${part.writer} → ${part.layer}`;
  if (part.kind === "conversion") return `${part.name}, ${part.writer || "input"} → ${part.layer}`;
  return part.layer === part.name ? part.name : [part.layer, el("span.note", {}, ` ${part.name}`)];
}

const sourceText = (part) =>
  (part.source === null ? "not measured" : `${part.case} in ${part.source}`);

// Both configurations on one scale, in the order of their parts; what saves time is left out.
function strips() {
  const positive = (one) => one.parts.filter((part) => part.time_ns > 0);
  const whole = (one) => sum(positive(one).map((part) => part.time_ns));
  const longest = Math.max(...sides.map(whole)) || 1;
  return sides.map((one) => {
    const strip = el("span.strip", { role: "img", "aria-label": stripLabel(one) },
      positive(one).map((part) => {
        const box = el(`span.step-${part.kind}`, { title: `${part.layer} ${part.name}` });
        box.style.width = `${(100 * part.time_ns) / longest}%`;
        return box;
      }));
    return el("p.strip-row", {}, el("span.strip-name", {}, one.name), strip,
      el("span.number", {}, timeText(one.time.value)));
  });
}

function stripLabel(one) {
  const [factor, unit] = scaleOf(one.time.value, "ns");
  const timeOf = (kind) => sum(one.parts.filter((part) => part.kind === kind)
    .map((part) => part.time_ns)) / factor;
  return `${one.name}: ${["layer", "seam", "conversion"].map((kind) =>
    `${kind}s ${significant(timeOf(kind), 3)} ${unit}`).join(", ")}; ${page.series}`;
}

const ROW_HEADS = [
  "", ...["time", "energy", "error", "workspace"].map((text) => [text, "number"]), "",
];

function showLayers() {
  byId("layers-shown").addEventListener("change", redrawLayers);
  redrawLayers();
}

const moves = (one) => one.baseline !== null && one.chosen !== one.baseline;

function redrawLayers() {
  const wanted = byId("layers-shown").value === "moved" ? page.layers.filter(moves) : page.layers;
  byId("layers-count").textContent = wanted.length === page.layers.length
    ? plural(wanted.length, "layer")
    : `${counted(wanted.length)} of ${plural(page.layers.length, "layer")}`;
  fill("layers", wanted.length ? wanted.map(layer) : el("p.empty", {}, "None."));
}

function layer(one) {
  const box = el("details.choice", { id: `layer-${page.layers.indexOf(one)}` },
    el("summary", {}, summary(one)));
  box.addEventListener("toggle", () => {
    if (box.open && box.childElementCount === 1) box.append(scrolling(options(one)));
  });
  return box;
}

function summary(one) {
  const timeOf = (name) => one.options.find((row) => row[name])?.time.value;
  const was = timeOf("is_baseline"), is = timeOf("is_chosen");
  const gain = moves(one) && was && is ? changeText(is / was) : "";
  const times = one.repeat > 1 ? ` × ${one.repeat}` : "";
  return [
    el("strong.choice-name", {}, `${one.layer}${times}`),
    el("span.choice-chosen", {}, one.chosen || "no choice",
      el("span.note.block", {}, [one.name, one.reason, plural(one.options.length, "row")]
        .filter(Boolean).join(" · "))),
    el("span.number.choice-gain", {}, gain),
    el("span.number.choice-time", {}, is === undefined ? valueText(null) : timeText(is)),
  ];
}

function options(one) {
  return table("plain", ROW_HEADS, one.options.map((row) => [
    rowHead(row.configuration, el("span.note.block", {}, `${row.case} in ${row.source}`)),
    number(estimate(row.time, timeText)), number(energyText(row.energy_j)),
    number(errorText(row.error)), number(valueText(row.workspace_bytes, "bytes")),
    el("td.break", {}, stateOf(row)),
  ]));
}

function stateOf(row) {
  const words = [row.is_chosen ? "chosen" : null, row.is_baseline ? "baseline" : null];
  if (row.excluded) words.push(`not chosen: ${row.excluded}`);
  return words.filter(Boolean).join(", ");
}

export function showComposition() {
  showHead();
  showChecks();
  showSteps();
  showLayers();
  showFront();
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}
