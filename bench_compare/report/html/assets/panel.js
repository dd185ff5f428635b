// The panel of one case: drawn when asked for, from its unpacked block.

const SERIES_TITLES = { device_ns: "device time", e2e_ns: "end-to-end time", kernel_sum_ns: "kernel time, sum", kernel_span_ns: "kernel time, span" };
const view = { place: null, detail: null, series: null, cumulative: false };

function showPanelOnDemand() {
  const panel = byId("panel");
  window.addEventListener("hashchange", openFromAddress);
  panel.addEventListener("close", () => {
    view.place = null;
    if (location.hash.length > 1) history.replaceState(null, "", location.pathname + location.search);
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
    view.detail = detail;
    view.series = Object.keys(detail.series).includes(word("metric", place)) ? word("metric", place) : Object.keys(detail.series)[0];
    fillPanel();
  } catch (error) {
    setPanel(panelHead(place), el("p.alarm.fatal", {}, String(error.message)));
  }
  panel.dataset.case = cases.id[place];
}

// New content; whoever stood on a button with the keyboard stands on it again.
function setPanel(...content) {
  const panel = byId("panel");
  const held = document.activeElement && document.activeElement.getAttribute("aria-label");
  panel.replaceChildren(...content);
  const again = [...panel.querySelectorAll("button[aria-label]")].find((button) => button.getAttribute("aria-label") === held && !button.disabled);
  (again || panel).focus();
}

function redrawPanel() {
  if (view.place !== null && view.detail) fillPanel();
}

function panelHead(place) {
  const at = state.shown.indexOf(place);
  const step = (by, sign, title) => el("button.quiet", {
    type: "button", "aria-label": title, disabled: at < 0 || state.shown[at + by] === undefined, onclick: () => move(by),
  }, sign);
  const about = ["family", "dtype", "engine", "variant"].map((column) => word(column, place));
  if (page.sides.length > 2) about.push(word("label", place));
  return el("header.panel-head", {},
    el("div.panel-bar", {}, badge(verdictOf(place), Boolean(cases.provisional[place])),
      el("span.note", {}, at >= 0 ? `${at + 1} of ${state.shown.length.toLocaleString("en")} shown` : ""),
      el("span.grow"), step(-1, "‹", "Previous case"), step(1, "›", "Next case"),
      el("button.quiet", { type: "button", "aria-label": "Close", onclick: () => byId("panel").close() }, "✕")),
    el("h2", { id: "panel-title" }, cases.name[place]),
    el("p.note", {}, about.filter(Boolean).join(" · ")));
}

function fillPanel() {
  const { place, detail } = view;
  const parts = [
    el("p.reason", {}, detail.reason),
    cases.was[place] ? el("p.note", {}, `Called ${cases.was[place]} in the base; the graph means the same.`) : null,
    detail.notes.length ? el("ul.notes", {}, detail.notes.map(([kind, side, text]) => el("li", {}, el("span.tag", {}, `${kind}, ${side}`), " ", text))) : null,
    outcomes(detail), sampleSection(detail), metricSection(detail), closerLook(detail), validationSection(detail),
    initSection(detail), rooflineSection(detail), kernelSection(detail), factSection(detail),
  ];
  setPanel(panelHead(place), ...parts.filter(known));
  drawSamples();
  for (const chart of byId("panel").querySelectorAll("[data-chart]")) DRAWN[chart.dataset.chart](chart);
}

const DRAWN = {
  init: (node) => initChart(node, view.detail.sides),
  roofline: (node) => rooflineChart(node, view.detail.sides, ceilingOf(view.detail), word("dtype", view.place)),
};

const part = (title, ...children) => el("section.part", {}, el("h3", {}, title), ...children);
const bothSides = (detail, read) => detail.sides.map((side) => (side ? read(side) : null));

function outcomes(detail) {
  const lines = [0, 1].filter((place) => !detail.sides[place] || detail.sides[place].outcome[0] !== "completed").map((place) => {
    const side = detail.sides[place];
    if (!side) return el("p", {}, el("strong", {}, `${SIDE_NAMES[place]}: `), "does not hold this case");
    const [status, reason, phase, words] = side.outcome;
    return el("div", {}, el("p", {}, el("strong", {}, `${SIDE_NAMES[place]}: `), `${status}${phase ? ` in ${phase.replace("_", " ")}` : ""}${reason ? `: ${reason}` : ""}`),
      words ? el("pre", {}, words) : null);
  });
  return lines.length ? part("What became of it", ...lines) : null;
}

function sampleSection(detail) {
  const names = Object.keys(detail.series);
  if (!names.length) return summarySection(detail);
  const choose = el("select", { "aria-label": "Series", onchange: (event) => { view.series = event.target.value; drawSamples(); } },
    names.map((name) => el("option", { value: name, selected: name === view.series }, SERIES_TITLES[name] || name)));
  const cumulative = el("button.quiet", { type: "button", id: "cumulative", "aria-pressed": String(view.cumulative), onclick: () => {
    view.cumulative = !view.cumulative;
    drawSamples();
  } }, "Cumulative");
  return el("section.part", {}, el("div.bar", {}, el("h3", {}, "Samples"), names.length > 1 ? choose : el("span.note", {}, SERIES_TITLES[names[0]] || names[0]), cumulative),
    el("div.chart", { id: "distribution" }), el("div.chart", { id: "course" }), el("p.note", { id: "samples-note" }));
}

// What an imported document knows in place of samples.
function summarySection(detail) {
  const rows = detail.sides.flatMap((side, place) => Object.entries((side && side.summary) || {}).map(([name, [count, ...times]]) => el("tr", {},
    el("th", { scope: "row" }, `${SIDE_NAMES[place]}, ${SERIES_TITLES[name] || name}`), el("td.number", {}, known(count) ? count.toLocaleString("en") : UNKNOWN),
    times.map((time) => el("td.number", {}, valueText(time, "ns"))))));
  if (!rows.length) return el("p.empty", {}, "No samples: the case was not measured.");
  const heads = ["", "samples", "least", "5 %", "median", "mean", "95 %", "largest"];
  return part("Summary", el("p.note", {}, "The document holds no samples, so there is no distribution and no course."),
    el("div.scroll", {}, el("table.plain", {}, el("thead", {}, el("tr", {}, heads.map((head, i) => el(i ? "th.number" : "th", { scope: "col" }, head)))), el("tbody", {}, rows))));
}

function drawSamples() {
  const series = view.detail.series[view.series];
  if (!series) return;
  byId("cumulative").setAttribute("aria-pressed", String(view.cumulative));
  const notes = [...distributionChart(byId("distribution"), series, view.cumulative), ...courseChart(byId("course"), series, view.detail.sides)];
  const reduced = [0, 1].filter((place) => series[place] && !series[place].raw).map((place) =>
    `${SIDE_NAMES[place]}: ${plural(countOf(series[place]), "sample")}, drawn as ${series[place].q.length} quantiles and ${sum(series[place].buckets)} buckets (least, median, largest)`);
  const whole = [0, 1].filter((place) => series[place] && series[place].raw).map((place) => `${SIDE_NAMES[place]}: ${plural(countOf(series[place]), "sample")}, all drawn`);
  byId("samples-note").textContent = `${[...whole, ...reduced, ...notes].join(". ")}. Vertical lines in the distribution are the medians.`;
}

function metricSection(detail) {
  if (!detail.metrics.length) return null;
  const rows = detail.metrics.map((m) => {
    const [title, unit] = page.metrics[m.name];
    const more = known(m.needed) ? `, about ${m.needed} more ${m.unit}s would decide` : "";
    return el("tr", { title: `${m.reason}${more}` }, el("th", { scope: "row" }, title),
      el("td.number", {}, valueText(m.base, unit)), el("td.number", {}, valueText(m.other, unit)),
      el("td.number", {}, known(m.ratio) ? changeText(m.ratio) : ""), el("td.number.wide-only", {}, known(m.low) ? intervalText(m.low, m.high) : ""),
      el("td", {}, badge(m.verdict, m.provisional)));
  });
  const heads = [["metric", ""], ["base", "number"], ["other", "number"], ["change", "number"], ["95 % interval", "number.wide-only"], ["verdict", ""]];
  return part("Metrics", el("div.scroll", {}, el("table.metrics", {}, el("thead", {}, el("tr", {}, heads.map(([head, kind]) => el(kind ? `th.${kind}` : "th", { scope: "col" }, head)))), el("tbody", {}, rows))), gateNote(detail));
}

function gateNote(detail) {
  const gate = detail.metrics.find((metric) => metric.name === word("metric", view.place));
  if (!gate) return null;
  const parts = [
    known(gate.q) ? `q ${significant(gate.q, 2)} after false-discovery control` : null,
    known(gate.threshold) ? `practical threshold ${significant(100 * gate.threshold, 3)} %` : null,
    `${gate.left} and ${plural(gate.right, gate.unit)} as independent units`, known(gate.needed) ? `about ${gate.needed} more would decide` : null,
  ];
  return el("p.note", {}, `${metricTitle(gate.name)}: ${parts.filter(known).join("; ")}`);
}

function closerLook(detail) {
  const closer = detail.detail;
  if (!closer) return null;
  const cells = closer.quantiles.map(([percent, ratio]) => [el("th.number", { scope: "col" }, percent === 50 ? "median" : `p${percent}`), el("td.number", {}, changeText(ratio))]);
  return part("A closer look",
    el("p", {}, `Ratio of medians ${changeText(closer.ratio)} (block bootstrap inside rounds ${intervalText(closer.low, closer.high)}); ` +
      `typical shift ${valueText(closer.shift, "ns")} (Hodges-Lehmann).`),
    el("table.plain", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "change of"), cells.map((cell) => cell[0]))),
      el("tbody", {}, el("tr", {}, el("td", {}, "other / base"), cells.map((cell) => cell[1])))));
}

const errorText = (value) => (known(value) ? (typeof value === "string" ? value : significant(value, 3)) : UNKNOWN);

function validationSection(detail) {
  const shown = bothSides(detail, (side) => side.validation);
  if (!shown.some(known)) return null;
  return part("Validation", ...shown.map((validation, place) => (validation ? sideValidation(validation, place) : null)).filter(known));
}

function sideValidation(validation, place) {
  const same = validation.deterministic === null ? "" : validation.deterministic ? ", the same bytes each time" : ", not the same bytes each time";
  const timed = validation.checked ? `; ${plural(validation.checked, "timed iteration")} checked, ${validation.wrong} wrong${same}` : "";
  const heads = ["output", "elements", "wrong", "max abs", "max rel", "rel. L2", "rtol", "atol"];
  const rows = validation.outputs.map(([name, dtype, elements, wrong, ...rest]) => el("tr", {},
    el("th", { scope: "row" }, name, el("span.note", {}, ` ${dtype}, ${rest[5]}`)),
    [elements, wrong].map((count) => el("td.number", {}, count.toLocaleString("en"))),
    rest.slice(0, 5).map((value) => el("td.number", {}, errorText(value)))));
  return el("div", {}, el("p", {}, el("strong", {}, `${SIDE_NAMES[place]}: `), `${validation.status} against ${validation.reference}${timed}`, validation.reason ? ` (${validation.reason})` : ""),
    rows.length ? el("div.scroll", {}, el("table.plain", {}, el("thead", {}, el("tr", {}, heads.map((head, i) => el(i ? "th.number" : "th", { scope: "col" }, head)))), el("tbody", {}, rows))) : null,
    ...validation.outputs.filter((output) => output[10].length).map(worstTable));
}

function worstTable(output) {
  return el("table.plain", {}, el("caption", {}, `Worst mismatches of ${output[0]}`),
    el("thead", {}, el("tr", {}, ["index", "expected", "actual"].map((head) => el("th.number", { scope: "col" }, head)))),
    el("tbody", {}, output[10].map(([index, expected, actual]) => el("tr", {}, el("td.number", {}, `[${index.join(", ")}]`), el("td.number", {}, errorText(expected)), el("td.number", {}, errorText(actual))))));
}

function initSection(detail) {
  const totals = bothSides(detail, (side) => (side.init ? sum(Object.values(side.init)) : null));
  if (!totals.some(known)) return null;
  const text = totals.map((value, place) => (known(value) ? `${SIDE_NAMES[place]} ${valueText(value, "ns")}` : null)).filter(known).join(", ");
  return part("Initialisation", el("div.chart", { "data-chart": "init" }), el("p.note", {}, `Median of each phase over the rounds; in all ${text}.`));
}

function ceilingOf(detail) {
  const other = page.sides.findIndex((side, place) => place && side.label === word("label", view.place));
  return [page.ceilings[0], page.ceilings[other]].find((ceiling) => ceiling && known(ceiling.gbps)) || null;
}

function rooflineSection(detail) {
  const ceiling = ceilingOf(detail);
  if (!rooflinePoints(detail.sides).length || !ceiling) return null;
  const peak = peakOf(ceiling, word("dtype", view.place));
  const shares = bothSides(detail, (side) => (side.achieved && known(side.achieved[3]) ? side.achieved[3] : null))
    .map((share, place) => (known(share) ? `${SIDE_NAMES[place]} reaches ${significant(100 * share, 3)} % of the ceiling` : null)).filter(known);
  const text = [`Ceilings measured on the device: ${valueText(ceiling.gbps, "GB/s")}${known(peak) ? ` and ${valueText(peak, "TFLOP/s")}` : ", matrix rate unknown"}`, ...shares].join("; ");
  return part("Roofline", el("div.chart", { "data-chart": "roofline" }), el("p.note", {}, `${text}.`));
}

function kernelSection(detail) {
  const shown = bothSides(detail, (side) => side.kernels);
  if (!shown.some(known)) return null;
  const rows = shown.flatMap((kernels, place) => (kernels || []).map(([name, count, median]) => el("tr", {},
    el("td", {}, SIDE_NAMES[place]), el("td.break", {}, name), el("td.number", {}, `${count} ×`), el("td.number", {}, valueText(median, "ns")))));
  return part("Kernels", el("div.scroll", {}, el("table.plain", {}, el("tbody", {}, rows))));
}

function factsOf(side) {
  const [flops, moved] = side.work || [];
  const [peak, workspace, buffers] = side.memory || [];
  const powers = (side.rounds || []).map((round) => round[3]).filter(known);
  const heats = (side.rounds || []).map((round) => round[4]).filter(known);
  const facts = [
    ["graph", side.name], ["file", side.path], ["engine", side.engine], ...Object.entries(side.plan || {}),
    ["work", known(flops) ? `${significant(flops / 1e9)} GFLOP` : null], ["bytes moved", known(moved) ? valueText(moved, "bytes") : null],
    ["rate", side.achieved ? [[1, "TFLOP/s"], [2, "GB/s"]].filter(([i]) => known(side.achieved[i])).map(([i, unit]) => valueText(side.achieved[i], unit)).join(", ") : null],
    ["peak memory", known(peak) ? valueText(peak, "bytes") : null], ["workspace", known(workspace) ? valueText(workspace, "bytes") : null],
    ["buffers", known(buffers) ? valueText(buffers, "bytes") : null], ["rounds", side.rounds ? String(side.rounds.length) : null],
    ["ended by", side.stopped], ["power", powers.length ? `up to ${valueText(Math.max(...powers), "W", 3)}` : null],
    ["temperature", heats.length ? `up to ${significant(Math.max(...heats), 3)} °C` : null], ["throttled", (side.throttled || []).join(", ") || null],
    ["notes", (side.notes || []).join("; ") || null],
  ];
  return new Map(facts.filter(([, value]) => known(value) && value !== ""));
}

function factSection(detail) {
  const sides = bothSides(detail, factsOf).map((facts) => facts || new Map());
  const names = [...new Set(sides.flatMap((facts) => [...facts.keys()]))];
  const rows = names.map((name) => {
    const values = sides.map((facts) => facts.get(name));
    return values[0] === values[1]
      ? el("tr", {}, el("th", { scope: "row" }, name), el("td", { colspan: 2 }, values[0]))
      : el("tr", {}, el("th", { scope: "row" }, name), values.map((value) => el("td.unlike", {}, known(value) ? value : UNKNOWN)));
  });
  rows.push(el("tr", {}, el("th", { scope: "row" }, "fingerprint"), el("td", { colspan: 2 }, detail.fingerprint)));
  return part("Facts", el("table.facts", {}, el("thead", {}, el("tr", {}, el("td"), SIDE_NAMES.map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, rows)));
}
