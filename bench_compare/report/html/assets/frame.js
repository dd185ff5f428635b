// The stretch of time that a chart of samples shows, and how its traces look.

import { quantile } from "./distributions.js";
import { scaleOf } from "./format.js";
import { sideColor } from "./theme.js";

export const SIDE_NAMES = ["base", "other"];

// All of it, unless a few spikes would press the rest flat. Where it spans more than a decade or
// so, its axis is logarithmic.
export function frameOf(distributions, room) {
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

export function edgesOf({ low, high, log }, bins) {
  const top = high > low ? high : low + Math.max(low * 0.01, 1);
  const at = (part) => (log ? low * (top / low) ** part : low + part * (top - low));
  return Array.from({ length: bins + 1 }, (_, i) => at(i / bins));
}

export function traceOf(place, extra) {
  const line = { color: sideColor(place), width: 1.8, dash: place ? "solid" : "dot" };
  return { type: "scatter", mode: "lines", name: SIDE_NAMES[place], line, ...extra };
}
