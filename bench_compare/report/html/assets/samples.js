// The section of the panel that shows samples, or the summary that is there in place of them.

import { courseChart, courseLegend } from "./course.js";
import { byId, el, number, numbered, rowHead, scrolling, table } from "./dom.js";
import { distributionChart } from "./distribution.js";
import { countOf, documentsOf, sum } from "./distributions.js";
import { counted, known, plural, valueText } from "./format.js";
import { SIDE_NAMES } from "./frame.js";
import { metricTitle, total, word } from "./page.js";
import { metricOf, part, valuesOf } from "./parts.js";

const TITLES = {
  device_ns: "device time", e2e_ns: "end-to-end time",
  kernel_sum_ns: "kernel time, sum", kernel_span_ns: "kernel time, span",
};
const titleOf = (name) => TITLES[name] || name;
const look = { series: null, cumulative: false };

export function sampleSection(detail) {
  const names = Object.keys(detail.series);
  if (!names.length) return summarySection(detail);
  const gate = word("metric", detail.place);
  look.series = names.includes(gate) ? gate : names[0];
  const choose = (event) => {
    look.series = event.target.value;
    drawSamples(detail);
  };
  const turn = () => {
    look.cumulative = !look.cumulative;
    drawSamples(detail);
  };
  const options = names.map((name) =>
    el("option", { value: name, selected: name === look.series }, titleOf(name)));
  return el("section.part", {},
    el("div.bar", {}, el("h3", {}, "Samples"),
      names.length > 1
        ? el("select", { "aria-label": "Series", onchange: choose }, options)
        : el("span.note", {}, titleOf(names[0])),
      el("button.quiet", { type: "button", id: "cumulative", onclick: turn }, "Cumulative")),
    el("div.chart", { id: "distribution" }),
    el("p.note", { id: "distribution-note" }),
    el("div.chart", { id: "course" }),
    el("p.note.marks", { id: "course-marks" }),
    el("p.note", { id: "samples-note" }),
    leftOut(detail));
}

function leftOut(detail) {
  const titles = detail.leftOut.map(titleOf);
  if (!titles.length) return null;
  const why = `Left out, to keep a page of ${counted(total)} cases small`;
  return el("p.note", { id: "left-out" }, `${why}: the samples of ${titles.join("; ")}.`);
}

const SUMMARY_HEADS = ["samples", "least", "5 %", "median", "mean", "95 %", "largest"];

// What an imported document knows in place of samples; nobody needs a column of unknown values.
function summarySection(detail) {
  const found = detail.sides.flatMap((side, place) =>
    Object.entries((side && side.summary) || {}).map(([name, values]) =>
      [`${SIDE_NAMES[place]}, ${titleOf(name)}`, values]));
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

export function drawSamples(detail) {
  const series = detail.series[look.series];
  if (!series) return;
  byId("cumulative").setAttribute("aria-pressed", String(look.cumulative));
  const middles = valuesOf(detail, look.series);
  const places = [0, 1].filter((place) => series[place]);
  const { cumulative } = look;
  const beyond = distributionChart(byId("distribution"), series, { cumulative, middles });
  byId("distribution-note").textContent = dotsText(detail, series, middles);
  const clipped = courseChart(byId("course"), series, detail.sides);
  const marks = courseLegend(series, detail.sides)
    .map(([kind, text]) => el("span.mark", {}, el(`span.swatch.${kind}`), text));
  byId("course-marks").replaceChildren(...marks);
  const notes = [...places.map((place) => howDrawn(series[place], place)), ...beyond, ...clipped];
  byId("samples-note").textContent = `${notes.join(". ")}.`;
}

// What the dots and lines under a distribution are: the values that decide.
function dotsText(detail, series, middles) {
  const several = Object.values(series).some((side) => documentsOf(side).length > 1);
  const dots = several
    ? "Small dots: median of each round. Diamonds: each document, the mean of its rounds."
    : "Dots: median of each round.";
  const metric = metricOf(detail, look.series);
  const decides = metric && metric.unit !== "summary"
    ? ` The ${metric.unit}s decide, not the iterations.` : "";
  const lines = middles.some(known) ? ` Vertical lines: the ${metricTitle(look.series)} of the ` +
    "table below, the mean of the medians." : "";
  return dots + decides + lines;
}

function howDrawn(series, place) {
  const start = `${SIDE_NAMES[place]}: ${plural(countOf(series), "sample")}`;
  if (series.raw) return `${start}, all drawn`;
  const buckets = `${sum(series.buckets)} buckets (least, median, largest)`;
  return `${start}, drawn as ${series.q.length} quantiles and ${buckets}`;
}
