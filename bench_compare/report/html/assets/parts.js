// Pieces that several sections of the panel are made of.

import { el } from "./dom.js";
import { known } from "./format.js";
import { SIDE_NAMES } from "./frame.js";

export const part = (title, ...children) =>
  el("section.part", {}, el("h3", {}, title), ...children);
export const sideWord = (place) => el("strong", {}, `${SIDE_NAMES[place]}: `);
export const bothSides = (detail, read) => detail.sides.map((side) => (side ? read(side) : null));

// What both sides have to say, as one line; null where neither knows.
export function sidesText(values, say) {
  const said = values.map((value, place) =>
    (known(value) ? say(SIDE_NAMES[place], value) : null));
  return said.filter(known).join(", ") || null;
}

export const metricOf = (detail, name) =>
  detail.metrics.find((metric) => metric.name === name) || null;

// Base and other of a metric; nulls where the case does not have it.
export function valuesOf(detail, name) {
  const metric = metricOf(detail, name);
  return metric ? [metric.base, metric.other] : [null, null];
}
