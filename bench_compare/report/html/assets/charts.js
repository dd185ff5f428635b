// Charts of a case besides those of its samples: initialisation and the roofline.

import { sum } from "./distributions.js";
import { known, scaleOf } from "./format.js";
import { SIDE_NAMES } from "./frame.js";
import { draw } from "./plot.js";
import { color, sideColor } from "./theme.js";

const PHASES = [
  ["load_ns", "load graph"], ["import_ns", "import engine"], ["build_ns", "build"],
  ["plan_ns", "plan"], ["search_ns", "search"], ["first_run_ns", "first run"],
];
const LOG_TICKS = { type: "log", dtick: "D2" };

export function initChart(node, sides) {
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

export function peakOf(ceiling, dtype) {
  const wanted = dtype.toLowerCase();
  const found = Object.entries(ceiling.tflops).find(([name]) => name.toLowerCase() === wanted);
  return found ? found[1] : null;
}

// Points of both sides under the measured ceilings; empty where work or rate is unknown.
export function rooflinePoints(sides) {
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

export function rooflineChart(node, sides, ceiling, dtype) {
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
