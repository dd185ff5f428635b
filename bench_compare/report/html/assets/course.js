// Every iteration of a case in order, with its rounds and documents, and the clock beneath.

import { distributionOf, nanoseconds } from "./distributions.js";
import { known, valueText } from "./format.js";
import { frameOf, SIDE_NAMES, traceOf } from "./frame.js";
import { draw } from "./plot.js";
import { color, sideColor } from "./theme.js";

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
export function courseChart(node, series, sides) {
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
export function courseLegend(series, sides) {
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
