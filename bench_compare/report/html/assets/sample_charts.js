// The samples of a case: their distribution with a dot for each round and document, and every
// iteration in order, with the clock beneath.

import {
  byId, color, counted, el, known, number, numbered, plural, rowHead, scaleOf, scrolling,
  sideColor, significant, sum, table, valueText,
} from "./base.js";
import { metricTitle, total, word } from "./cases.js";
import { draw, SIDE_NAMES } from "./charts.js";
import {
  countOf, distributionOf, documentsOf, histogram, metricOf, nanoseconds, part, quantile,
  roundsOf, shareBeyond, valuesOf,
} from "./samples.js";

// All of it, unless a few spikes would press the rest flat. Where it spans more than a decade or
// so, its axis is logarithmic.
function frameOf(distributions, room) {
  const low = Math.min(...distributions.map((one) => quantile(one, 0)));
  const tail = Math.max(...distributions.map((one) => quantile(one, 0.985)));
  const largest = Math.max(...distributions.map((one) => quantile(one, 1)));
  const clipped = largest > tail + room * (tail - low);
  const high = clipped ? tail + 0.3 * room * (tail - low) : largest;
  const [factor, unit] = scaleOf(high, "ns");
  const log = low > 0 && high > 8 * low;
  const ends = [low / factor, high / factor].map((end) => (log ? Math.log10(end) : end));
  const edge = 0.03 * (ends[1] - ends[0] || Math.abs(ends[0]) * 0.01 || 1);
  const range = [ends[0] - edge, ends[1] + edge];
  const axis = { range, ...(log ? { type: "log", nticks: 6 } : {}) };
  return { low, high, largest, clipped, factor, unit, log, axis };
}

function edgesOf({ low, high, log }, bins) {
  const top = high > low ? high : low + Math.max(low * 0.01, 1);
  const at = (share) => (log ? low * (top / low) ** share : low + share * (top - low));
  return Array.from({ length: bins + 1 }, (_, i) => at(i / bins));
}

function traceOf(place, extra) {
  const line = { color: sideColor(place), width: 1.8, dash: place ? "solid" : "dot" };
  return { type: "scatter", mode: "lines", name: SIDE_NAMES[place], line, ...extra };
}

const BINS = 48;
const DOTS = 0.17;

// `middles` are the values that are compared (ns), drawn as lines. Returns notes on what it shows.
function distributionChart(node, series, { cumulative, middles }) {
  const sides = [0, 1].filter((place) => series[place]);
  const found = new Map(sides.map((place) => [place, distributionOf(series[place])]));
  const frame = frameOf([...found.values()], 0.5);
  const curve = cumulative ? cumulativeTrace : shareTrace;
  const traces = sides.flatMap((place) => [
    curve(series[place], found.get(place), place, frame), ...dotTraces(series[place], place, frame),
  ]);
  const title = cumulative ? "% of samples at or below" : "% of samples";
  draw(node, traces, {
    height: 290, showlegend: true, margin: { l: 8, r: 8, t: 30, b: 8 },
    shapes: sides.filter((place) => known(middles[place]))
      .map((place) => middleLine(middles[place] / frame.factor, place)),
    xaxis: { title: { text: frame.unit }, ...frame.axis, anchor: "y2" },
    yaxis: { title: { text: title }, rangemode: "tozero", domain: [DOTS + 0.04, 1] },
    yaxis2: {
      domain: [0, DOTS], range: [1.4 - SIDE_NAMES.length, 1.6], showgrid: false, zeroline: false,
      tickvals: SIDE_NAMES.map((_, place) => 1 - place), ticktext: SIDE_NAMES,
    },
  });
  return sides.map((place) => beyondText(found.get(place), place, frame)).filter(known);
}

function middleLine(x, place) {
  const line = { color: sideColor(place), width: 1.5, dash: place ? "solid" : "dot" };
  return { type: "line", x0: x, x1: x, y0: 0, y1: 1, yref: "paper", line };
}

function beyondText(distribution, place, { high }) {
  const share = shareBeyond(distribution, high);
  if (!(share > 0)) return null;
  const about = `about ${significant(100 * share, 2)} % of the samples lie beyond the right edge`;
  return `${SIDE_NAMES[place]}: ${about}, up to ${valueText(quantile(distribution, 1), "ns")}`;
}

// Small dots are rounds; larger ones are documents, where there are several.
function dotTraces(series, place, { factor }) {
  const rounds = roundsOf(series), documents = documentsOf(series);
  const many = documents.length > 1;
  const title = ({ document, round }) => (many
    ? `document ${document + 1}, round ${round + 1}` : `round ${round + 1}`);
  const small = dots(place, rounds.map((one) => one.value / factor), rounds.map(title), {
    size: many ? 5 : 8, symbol: "circle", opacity: many ? 0.55 : 0.8,
  });
  if (!many) return [small];
  const names = documents.map(({ document }) => `document ${document + 1}`);
  const large = dots(place, documents.map((one) => one.value / factor), names, {
    size: 12, symbol: "diamond-open", line: { width: 2 },
  });
  return [small, large];
}

function dots(place, x, text, marker) {
  return {
    type: "scatter", mode: "markers", x, y: x.map(() => 1 - place), yaxis: "y2", text,
    showlegend: false, name: SIDE_NAMES[place],
    marker: { color: sideColor(place), ...marker },
    hovertemplate: "%{text}: %{x:.5~g}<extra></extra>",
  };
}

function cumulativeTrace(series, { values, shares }, place, { factor }) {
  return traceOf(place, {
    x: values.map((value) => value / factor), y: shares.map((share) => 100 * share),
    hovertemplate: "%{y:.1f} % at or below %{x:.5~g}<extra></extra>",
  });
}

function shareTrace(series, distribution, place, frame) {
  const bins = Math.max(6, Math.min(BINS, Math.round(2 * Math.sqrt(countOf(series)))));
  const edges = edgesOf(frame, bins);
  const y = histogram(series, distribution, edges).map((share) => 100 * share);
  return traceOf(place, {
    x: edges.map((edge) => edge / frame.factor), y: [...y, 0],
    line: { color: sideColor(place), width: 1.6, shape: "hv" },
    fill: "tozeroy", fillcolor: `${sideColor(place)}26`,
    hovertemplate: "%{y:.1f} % near %{x:.5~g}<extra></extra>",
  });
}

const GAP = 0.09, CLOCK_SHARE = 0.55;
const MANY_ROUNDS = 12;

// The iterations of each round, as [round, first, count].
function spansOf(series) {
  let first = 0;
  return series.n.map((count, round) => {
    first += count;
    return [round, first - count, count];
  });
}

function gapped(points) {
  const line = { x: [], y: [] };
  for (const [x, y] of points) {
    line.x.push(x);
    line.y.push(y);
  }
  return line;
}

function rawPoints(series, factor) {
  return spansOf(series).flatMap(([, first, count]) => [
    ...Array.from({ length: count }, (_, i) =>
      [first + i + 1, nanoseconds(series, series.raw[first + i]) / factor]),
    [null, null],
  ]);
}

// The iterations of each bucket, as [bucket, begin, end]; null after the last one of a round.
function bucketsOf(series) {
  let bucket = 0;
  return spansOf(series).flatMap(([round, first, count]) => {
    const inRound = series.buckets[round];
    const found = Array.from({ length: inRound }, (_, k) => [
      bucket + k, first + Math.floor((k * count) / inRound),
      first + Math.floor(((k + 1) * count) / inRound),
    ]);
    bucket += inRound;
    return [...found, null];
  });
}

function bucketPoints(series, factor) {
  return bucketsOf(series).map((one) => {
    if (!one) return [null, null];
    const [bucket, begin, end] = one;
    return [(begin + end + 1) / 2, nanoseconds(series, series.mid[bucket]) / factor];
  });
}

// From the least to the largest sample of each bucket, round by round.
function bandPoints(series, factor) {
  const points = [];
  let upper = [], lower = [];
  for (const one of bucketsOf(series)) {
    if (!one) {
      points.push(...upper, ...lower.reverse(), [null, null]);
      [upper, lower] = [[], []];
      continue;
    }
    const [bucket, begin, end] = one, middle = series.mid[bucket];
    for (const edge of [begin + 0.5, end + 0.5]) {
      upper.push([edge, nanoseconds(series, middle + series.up[bucket]) / factor]);
      lower.push([edge, nanoseconds(series, middle - series.down[bucket]) / factor]);
    }
  }
  return points;
}

function courseTraces(series, place, factor, axis) {
  const line = gapped(series.raw ? rawPoints(series, factor) : bucketPoints(series, factor));
  const middle = traceOf(place, {
    ...axis, ...line, mode: series.raw ? "markers" : "lines",
    hovertemplate: "iteration %{x}: %{y:.5~g}<extra></extra>",
    marker: { size: line.x.length > 600 ? 2.5 : 4, color: sideColor(place) },
    line: { color: sideColor(place), width: 1.4 },
  });
  if (series.raw) return [middle];
  const band = traceOf(place, {
    ...axis, ...gapped(bandPoints(series, factor)), fill: "toself",
    fillcolor: `${sideColor(place)}33`, line: { width: 0 }, hoverinfo: "skip", showlegend: false,
  });
  return [band, middle];
}

function clockTrace(series, side, place, axis) {
  const points = spansOf(series).flatMap(([round, first, count]) => {
    const [, before, after] = (side.rounds || [])[round] || [];
    const ends = [[first + 1, before], [first + count, after]];
    return [...ends.filter(([, clock]) => known(clock)), [null, null]];
  });
  return traceOf(place, {
    ...axis, ...gapped(points), mode: "lines+markers",
    marker: { size: 4, color: sideColor(place) }, showlegend: false,
    hovertemplate: "%{y:.0f} MHz<extra></extra>",
  });
}

// The first round of each document.
function startsOf(series) {
  let first = 0;
  return (series.docs || []).map((count) => (first += count) - count);
}

const cutOf = (side, round) => ((side.rounds || [])[round] || [])[0];

function roundMarks(series, side, yref) {
  const shapes = [], spans = spansOf(series), starts = new Set(startsOf(series));
  const whole = { y0: 0, y1: 1, yref: `${yref} domain` };
  for (const [round, first] of spans) {
    const x = first + 0.5, cut = cutOf(side, round);
    const line = starts.has(round)
      ? { color: color("ink"), width: 1.6 } : { color: color("soft"), width: 1, dash: "dot" };
    if (round) shapes.push({ type: "line", x0: x, x1: x, ...whole, line });
    if (!cut) continue;
    const look = { fillcolor: color("band"), line: { width: 0 }, layer: "below" };
    shapes.push({ type: "rect", x0: x, x1: x + cut, ...whole, ...look });
  }
  return { shapes, annotations: marksNames(series, spans, starts, yref) };
}

// Names of the documents where there are several, else of the rounds while they are few.
function marksNames(series, spans, starts, yref) {
  const made = (text, x) => ({
    x, y: 1, yref: `${yref} domain`, yanchor: "bottom", showarrow: false, text,
    font: { size: 10, color: color("soft") },
  });
  if (starts.size > 1) {
    const firsts = [...starts].map((round) => spans[round][1]);
    const ends = [...firsts.slice(1), spans[spans.length - 1][1] + series.n[series.n.length - 1]];
    return firsts.map((first, at) => made(`document ${at + 1}`, (first + ends[at]) / 2));
  }
  if (spans.length > MANY_ROUNDS) return [];
  return spans.map(([round, first, count]) => made(`round ${round + 1}`, first + count / 2));
}

// Draws it and returns notes on what it shows.
function courseChart(node, series, sides) {
  const places = [0, 1].filter((place) => series[place]);
  const frame = frameOf(places.map((place) => distributionOf(series[place])), 3);
  const clocks = places.some((place) =>
    (sides[place].rounds || []).some((round) => known(round[1])));
  const panels = places.length + (clocks ? 1 : 0);
  const share = (1 - GAP * (panels - 1)) / (places.length + (clocks ? CLOCK_SHARE : 0));
  const axes = {}, traces = [], shapes = [], annotations = [];
  places.forEach((place, at) => {
    const name = at ? `y${at + 1}` : "y", top = 1 - at * (share + GAP);
    axes[name.replace("y", "yaxis")] = {
      domain: [Math.max(top - share, 0), top], ...frame.axis,
      title: { text: `${SIDE_NAMES[place]}, ${frame.unit}` }, ...(at ? { matches: "y" } : {}),
    };
    traces.push(...courseTraces(series[place], place, frame.factor, { yaxis: name }));
    const marks = roundMarks(series[place], sides[place], name);
    shapes.push(...marks.shapes);
    annotations.push(...marks.annotations);
  });
  if (clocks) {
    const domain = [0, share * CLOCK_SHARE], yaxis = `y${panels}`;
    axes[`yaxis${panels}`] = { domain, title: { text: "clock, MHz" }, nticks: 3 };
    const clock = (place) => clockTrace(series[place], sides[place], place, { yaxis });
    traces.push(...places.map(clock));
  }
  draw(node, traces, {
    height: 150 * places.length + (clocks ? 110 : 0) + 40, shapes, annotations,
    margin: { l: 8, r: 8, t: 20, b: 8 },
    xaxis: {
      title: { text: "iteration" }, anchor: `y${panels > 1 ? panels : ""}`, showgrid: false,
      zeroline: false,
    },
    ...axes,
  });
  const most = valueText(frame.largest, "ns");
  const hint = `Spikes up to ${most} lie above the chart; double-click it to see them`;
  return frame.clipped ? [hint] : [];
}

// What the marks of the course mean, as [kind, text]; only those that it has.
function courseLegend(series, sides) {
  const places = [0, 1].filter((place) => series[place]);
  const cut = places.some((place) =>
    series[place].n.some((_, round) => cutOf(sides[place], round)));
  const rounds = places.some((place) => series[place].n.length > 1);
  const documents = places.some((place) => startsOf(series[place]).length > 1);
  return [
    cut ? ["band", "grey band: warm-up, cut off and not counted"] : null,
    rounds ? ["dotted", "dotted line: the next round"] : null,
    documents ? ["solid", "solid line: the next document"] : null,
  ].filter(known);
}

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
  const marks = several
    ? "Small dots: median of each round. Diamonds: each document, the mean of its rounds."
    : "Dots: median of each round.";
  const metric = metricOf(detail, look.series);
  const decides = metric && metric.unit !== "summary"
    ? ` The ${metric.unit}s decide, not the iterations.` : "";
  const lines = middles.some(known) ? ` Vertical lines: the ${metricTitle(look.series)} of the ` +
    "table below, the mean of the medians." : "";
  return marks + decides + lines;
}

function howDrawn(series, place) {
  const start = `${SIDE_NAMES[place]}: ${plural(countOf(series), "sample")}`;
  if (series.raw) return `${start}, all drawn`;
  const buckets = `${sum(series.buckets)} buckets (least, median, largest)`;
  return `${start}, drawn as ${series.q.length} quantiles and ${buckets}`;
}
