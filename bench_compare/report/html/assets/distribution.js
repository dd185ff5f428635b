// The distribution of a case's samples, with a dot for each round and document under it.

import {
  countOf, distributionOf, documentsOf, histogram, quantile, roundsOf, shareBeyond,
} from "./distributions.js";
import { known, significant, valueText } from "./format.js";
import { edgesOf, frameOf, SIDE_NAMES, traceOf } from "./frame.js";
import { draw } from "./plot.js";
import { sideColor } from "./theme.js";

const BINS = 48;
const DOTS = 0.17;

// `middles` are the values that are compared (ns), drawn as lines. Returns notes on what it shows.
export function distributionChart(node, series, { cumulative, middles }) {
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
      domain: [0, DOTS], range: [-0.6, 1.6], showgrid: false, zeroline: false,
      tickvals: [1, 0], ticktext: SIDE_NAMES,
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
