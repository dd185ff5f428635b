// The panel of one case: drawn when asked for, from its unpacked block.

const SERIES_TITLES = {
  device_ns: "device time", e2e_ns: "end-to-end time",
  kernel_sum_ns: "kernel time, sum", kernel_span_ns: "kernel time, span",
};
const view = { place: null, detail: null, series: null, cumulative: false };

function showPanelOnDemand() {
  const panel = byId("panel");
  window.addEventListener("hashchange", openFromAddress);
  panel.addEventListener("close", () => {
    view.place = null;
    const plain = location.pathname + location.search;
    if (location.hash.length > 1) history.replaceState(null, "", plain);
  });
  panel.addEventListener("click", (event) => {
    if (event.target === panel) panel.close();
  });
  document.addEventListener("keydown", (event) => {
    if (!panel.open || event.target.matches("input, select")) return;
    if (event.key === "ArrowRight") move(1);
    if (event.key === "ArrowLeft") move(-1);
  });
}

function openFromAddress() {
  const place = placeOf.get(location.hash.slice(1));
  if (place !== undefined) openCase(place);
}

function move(step) {
  const next = state.shown[state.shown.indexOf(view.place) + step];
  if (next !== undefined && view.place !== null) location.replace(`#${cases.id[next]}`);
}

async function openCase(place) {
  const panel = byId("panel");
  Object.assign(view, { place, detail: null, series: null });
  if (!panel.open) panel.showModal();
  setPanel(panelHead(place), el("p.empty", {}, "Unpacking …"));
  panel.scrollTop = 0;
  try {
    const detail = await detailOf(place);
    if (view.place !== place) return;
    const names = Object.keys(detail.series), gate = word("metric", place);
    Object.assign(view, { detail, series: names.includes(gate) ? gate : names[0] });
    fillPanel();
  } catch (error) {
    setPanel(panelHead(place), el("p.alarm.fatal", {}, String(error.message)));
  }
  panel.dataset.case = cases.id[place];
}

// New content; whoever stood on a button with the keyboard stands on it again.
function setPanel(...content) {
  const panel = byId("panel"), before = document.activeElement;
  const held = before && before.getAttribute("aria-label");
  panel.replaceChildren(...content);
  const again = [...panel.querySelectorAll("button[aria-label]")]
    .find((button) => button.getAttribute("aria-label") === held && !button.disabled);
  (again || panel).focus();
}

function redrawPanel() {
  if (view.place !== null && view.detail) fillPanel();
}

function panelHead(place) {
  const at = state.shown.indexOf(place);
  const step = (by, sign, title) => el("button.quiet", {
    type: "button", "aria-label": title, onclick: () => move(by),
    disabled: at < 0 || state.shown[at + by] === undefined,
  }, sign);
  const close = { type: "button", "aria-label": "Close", onclick: () => byId("panel").close() };
  const about = ["family", "dtype", "engine", "variant", ...(manySides ? ["label"] : [])];
  return el("header.panel-head", {},
    el("div.panel-bar", {},
      badge(verdictOf(place), Boolean(cases.provisional[place])),
      el("span.note", {}, at >= 0 ? `${at + 1} of ${counted(state.shown.length)} shown` : ""),
      el("span.grow"),
      step(-1, "‹", "Previous case"), step(1, "›", "Next case"),
      el("button.quiet", close, "✕")),
    el("h2", { id: "panel-title" }, cases.name[place]),
    el("p.note", {}, aboutText(place, about)));
}

const SECTIONS = [
  wasCalled, noteList, outcomes, sampleSection, metricSection, closerLook, validationSection,
  initSection, rooflineSection, kernelSection, factSection,
];
const DRAWN = {
  init: (node, detail) => initChart(node, detail.sides),
  roofline: (node, detail) =>
    rooflineChart(node, detail.sides, ceilingOf(), word("dtype", view.place)),
};

function fillPanel() {
  const { place, detail } = view;
  const parts = SECTIONS.map((section) => section(detail)).filter(known);
  setPanel(panelHead(place), el("p.reason", {}, detail.reason), ...parts);
  drawSamples();
  for (const node of byId("panel").querySelectorAll("[data-chart]")) {
    DRAWN[node.dataset.chart](node, detail);
  }
}

const part = (title, ...children) => el("section.part", {}, el("h3", {}, title), ...children);
const sideWord = (place) => el("strong", {}, `${SIDE_NAMES[place]}: `);
const bothSides = (detail, read) => detail.sides.map((side) => (side ? read(side) : null));

// What both sides have to say, as one line; null where neither knows.
function sidesText(values, say) {
  const said = values.map((value, place) =>
    (known(value) ? say(SIDE_NAMES[place], value) : null));
  return said.filter(known).join(", ") || null;
}

function wasCalled() {
  const name = cases.was[view.place];
  return name ? el("p.note", {}, `Called ${name} in the base; the graph means the same.`) : null;
}

function noteList(detail) {
  const items = detail.notes.map(([kind, side, said]) =>
    el("li", {}, el("span.tag", {}, `${kind}, ${side}`), " ", said));
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

function sampleSection(detail) {
  const names = Object.keys(detail.series);
  if (!names.length) return summarySection(detail);
  const choose = (event) => {
    view.series = event.target.value;
    drawSamples();
  };
  const turn = () => {
    view.cumulative = !view.cumulative;
    drawSamples();
  };
  const options = names.map((name) =>
    el("option", { value: name, selected: name === view.series }, SERIES_TITLES[name] || name));
  return el("section.part", {},
    el("div.bar", {}, el("h3", {}, "Samples"),
      names.length > 1
        ? el("select", { "aria-label": "Series", onchange: choose }, options)
        : el("span.note", {}, SERIES_TITLES[names[0]] || names[0]),
      el("button.quiet", { type: "button", id: "cumulative", onclick: turn }, "Cumulative")),
    el("div.chart", { id: "distribution" }),
    el("div.chart", { id: "course" }),
    el("p.note", { id: "samples-note" }),
    leftOut(detail));
}

function leftOut(detail) {
  const titles = detail.leftOut.map((name) => SERIES_TITLES[name] || name);
  if (!titles.length) return null;
  const why = `Left out, to keep a page of ${counted(total)} cases small`;
  return el("p.note", { id: "left-out" }, `${why}: the samples of ${titles.join("; ")}.`);
}

const SUMMARY_HEADS = ["samples", "least", "5 %", "median", "mean", "95 %", "largest"];

// What an imported document knows in place of samples; nobody needs a column of unknown values.
function summarySection(detail) {
  const found = detail.sides.flatMap((side, place) =>
    Object.entries((side && side.summary) || {}).map(([name, values]) =>
      [`${SIDE_NAMES[place]}, ${SERIES_TITLES[name] || name}`, values]));
  if (!found.length) return el("p.empty", {}, "No samples: the case was not measured.");
  const kept = SUMMARY_HEADS.map((_, at) => at)
    .filter((at) => found.some(([, values]) => known(values[at])));
  const text = (value, at) => (at || !known(value) ? valueText(value, "ns") : counted(value));
  const rows = found.map(([name, values]) =>
    [rowHead(name), ...kept.map((at) => number(text(values[at], at)))]);
  const heads = numbered(["", ...kept.map((at) => SUMMARY_HEADS[at])]);
  const why = "The document holds no samples, so there is no distribution and no course.";
  return part("Summary", el("p.note", {}, why), scrolling(table("plain", heads, rows)));
}

function drawSamples() {
  const series = view.detail.series[view.series];
  if (!series) return;
  byId("cumulative").setAttribute("aria-pressed", String(view.cumulative));
  const notes = [
    ...[0, 1].filter((place) => series[place]).map((place) => howDrawn(series[place], place)),
    ...distributionChart(byId("distribution"), series, view.cumulative),
    ...courseChart(byId("course"), series, view.detail.sides),
    "Vertical lines in the distribution are the medians",
  ];
  byId("samples-note").textContent = `${notes.join(". ")}.`;
}

function howDrawn(series, place) {
  const start = `${SIDE_NAMES[place]}: ${plural(countOf(series), "sample")}`;
  if (series.raw) return `${start}, all drawn`;
  const buckets = `${sum(series.buckets)} buckets (least, median, largest)`;
  return `${start}, drawn as ${series.q.length} quantiles and ${buckets}`;
}

const METRIC_HEADS = [
  "metric", ["base", "number"], ["other", "number"], ["change", "number"],
  ["95 % interval", "number wide-only"], "verdict",
];

const withinText = ({ threshold }) =>
  `within the threshold of ${significant(100 * threshold, 3)} %`;

function metricSection(detail) {
  if (!detail.metrics.length) return null;
  const rows = detail.metrics.map((metric) => {
    const [title, unit] = page.metrics[metric.name];
    return [
      el("th", { scope: "row", title: metric.reason || withinText(metric) }, title),
      number(valueText(metric.base, unit)), number(valueText(metric.other, unit)),
      number(known(metric.ratio) ? changeText(metric.ratio) : ""),
      el("td.number.wide-only", {},
        known(metric.low) ? intervalText(metric.low, metric.high) : ""),
      badge(metric.verdict, metric.provisional),
    ];
  });
  return part("Metrics", scrolling(table("metrics", METRIC_HEADS, rows)), gateNote(detail));
}

function gateNote(detail) {
  const gate = detail.metrics.find((metric) => metric.name === word("metric", view.place));
  if (!gate) return null;
  const { q, threshold, needed } = gate;
  const parts = [
    known(q) ? `q ${significant(q, 2)} after false-discovery control` : null,
    known(threshold) ? `practical threshold ${significant(100 * threshold, 3)} %` : null,
    gate.unit === "summary" ? "summaries without samples: no interval"
      : `${gate.left} and ${plural(gate.right, gate.unit)} as independent units`,
    known(needed) ? `about ${needed} more would decide` : null,
  ];
  return el("p.note", {}, `${metricTitle(gate.name)}: ${parts.filter(known).join("; ")}`);
}

function closerLook(detail) {
  const closer = detail.detail;
  if (!closer) return null;
  const names = closer.quantiles.map(([percent]) => (percent === 50 ? "median" : `p${percent}`));
  const cells = closer.quantiles.map(([, ratio]) => number(changeText(ratio)));
  const interval = intervalText(closer.low, closer.high);
  return part("A closer look",
    el("p", {}, `Ratio of medians ${changeText(closer.ratio)} `,
      `(block bootstrap inside rounds ${interval}); `,
      `typical shift ${valueText(closer.shift, "ns")} (Hodges-Lehmann).`),
    table("plain", numbered(["change of", ...names]), [[rowHead("other / base"), ...cells]]));
}

function errorText(value) {
  if (!known(value)) return UNKNOWN;
  return typeof value === "string" ? value : significant(value, 3);
}

function validationSection(detail) {
  const shown = bothSides(detail, (side) => side.validation);
  const parts = shown.map((one, place) => (one ? sideValidation(one, place) : null));
  return shown.some(known) ? part("Validation", ...parts.filter(known)) : null;
}

const BYTES = new Map([
  [null, ""], [true, ", the same bytes each time"], [false, ", not the same bytes each time"],
]);
const OUTPUT_HEADS = [
  "output", "elements", "wrong", "max abs", "max rel", "rel. L2", "rtol", "atol",
];

function sideValidation(one, place) {
  const checked = `; ${plural(one.checked, "timed iteration")} checked, ${one.wrong} wrong`;
  const timed = one.checked ? checked + BYTES.get(one.deterministic) : "";
  const against = one.reference === "unknown" ? "" : ` against ${one.reference}`;
  const rows = one.outputs.map(([name, dtype, elements, wrong, ...rest]) => [
    rowHead(name, el("span.note", {}, dtype === "unknown" ? "" : ` ${dtype}, ${rest[5]}`)),
    number(counted(elements)), number(counted(wrong)),
    ...rest.slice(0, 5).map((value) => number(errorText(value))),
  ]);
  return el("div", {},
    el("p", {}, sideWord(place), `${one.status}${against}${timed}`,
      one.reason ? ` (${one.reason})` : ""),
    rows.length ? scrolling(table("plain", numbered(OUTPUT_HEADS), rows)) : null,
    ...one.outputs.filter((output) => output[10].length).map(worstTable));
}

function worstTable(output) {
  const rows = output[10].map(([index, expected, actual]) =>
    [`[${index.join(", ")}]`, errorText(expected), errorText(actual)].map(number));
  const heads = ["index", "expected", "actual"].map((head) => [head, "number"]);
  const made = table("plain", heads, rows);
  made.prepend(el("caption", {}, `Worst mismatches of ${output[0]}`));
  return made;
}

function initSection(detail) {
  const totals = bothSides(detail, (side) => (side.init ? sum(Object.values(side.init)) : null));
  const text = sidesText(totals, (name, value) => `${name} ${valueText(value, "ns")}`);
  return text ? part("Initialisation", el("div.chart", { "data-chart": "init" }),
    el("p.note", {}, `Median of each phase over the rounds; in all ${text}.`)) : null;
}

// Of the base, else of the side that the case is of.
function ceilingOf() {
  const label = word("label", view.place);
  const other = page.sides.findIndex((side, place) => place && side.label === label);
  const both = [page.ceilings[0], page.ceilings[other]];
  return both.find((ceiling) => ceiling && known(ceiling.gbps)) || null;
}

function rooflineSection(detail) {
  const ceiling = ceilingOf();
  if (!rooflinePoints(detail.sides).length || !ceiling) return null;
  const peak = peakOf(ceiling, word("dtype", view.place));
  const rates = [
    valueText(ceiling.gbps, "GB/s"),
    known(peak) ? valueText(peak, "TFLOP/s") : "an unknown matrix rate",
  ];
  const shares = bothSides(detail, (side) => (side.achieved ? side.achieved[3] : null));
  const reached = sidesText(shares, (name, share) => `${name} ${significant(100 * share, 3)} %`);
  const text = `Ceilings measured on the device: ${rates.join(" and ")}.`;
  return part("Roofline", el("div.chart", { "data-chart": "roofline" }),
    el("p.note", {}, text, reached ? ` Share of the ceiling: ${reached}.` : ""));
}

function kernelSection(detail) {
  const rows = detail.sides.flatMap((side, place) =>
    ((side && side.kernels) || []).map(([name, count, median]) => [
      SIDE_NAMES[place], el("td.break", {}, name), number(`${count} ×`),
      number(valueText(median, "ns")),
    ]));
  const heads = ["", "kernel", ["launches", "number"], ["median", "number"]];
  return rows.length ? part("Kernels", scrolling(table("plain", heads, rows))) : null;
}

const upTo = (values, say) => (values.length ? `up to ${say(Math.max(...values))}` : null);
const maybe = (value, say) => (known(value) ? say(value) : null);

function factsOf(side) {
  const [flops, moved] = side.work || [];
  const [peak, workspace, buffers] = side.memory || [];
  const rounds = side.rounds || [];
  const column = (at) => rounds.map((round) => round[at]).filter(known);
  const rates = [[1, "TFLOP/s"], [2, "GB/s"]]
    .filter(([at]) => side.achieved && known(side.achieved[at]));
  const bytes = (value) => valueText(value, "bytes");
  const facts = [
    ["graph", side.name],
    ["file", side.path],
    ["engine", side.engine],
    ...Object.entries(side.plan || {}),
    ["work", maybe(flops, (value) => valueText(value / 1e9, "GFLOP"))],
    ["bytes moved", maybe(moved, bytes)],
    ["rate", rates.map(([at, unit]) => valueText(side.achieved[at], unit)).join(", ")],
    ["peak memory", maybe(peak, bytes)],
    ["workspace", maybe(workspace, bytes)],
    ["buffers", maybe(buffers, bytes)],
    ["rounds", rounds.length ? counted(rounds.length) : null],
    ["ended by", side.stopped],
    ["power", upTo(column(3), (value) => valueText(value, "W", 3))],
    ["temperature", upTo(column(4), (value) => valueText(value, "°C", 3))],
    ["throttled", (side.throttled || []).join(", ")],
    ["notes", (side.notes || []).join("; ")],
  ];
  return new Map(facts.filter(([, value]) => known(value) && value !== ""));
}

function factSection(detail) {
  const sides = bothSides(detail, factsOf).map((facts) => facts || new Map());
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
