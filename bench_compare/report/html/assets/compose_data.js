// The data of a composition's page.

import { el } from "./dom.js";
import { significant, spanText, valueText } from "./format.js";

export const page = JSON.parse(document.getElementById("data").textContent);
export const sides = [page.chosen, page.baseline].filter((one) => one !== null);

const MINUS = "\u2212";
export const timeText = (value) => valueText(value, "ns").replace("-", MINUS);

export function shareText(share) {
  const text = (100 * share).toFixed(1);
  return `${text === "-0.0" ? "0.0" : text.replace("-", MINUS)}\u00a0%`;
}

// An energy keeps a unit in which people can read it.
export function energyText(joules) {
  if (joules === null || joules === undefined) return valueText(null);
  const steps = [[1, "J"], [1e-3, "mJ"], [1e-6, "µJ"], [0, "nJ"]];
  const [factor, unit] = steps.find(([least]) => Math.abs(joules) >= least);
  return `${significant(joules / (factor || 1e-9))}\u00a0${unit}`;
}

export const errorText = (error) =>
  (error === null || error === undefined ? valueText(null) : significant(error, 2));

// The value, and its interval as a line of its own.
export function estimate(one, text) {
  if (!one) return valueText(null);
  const { value, low, high } = one;
  const range = low === null ? text(value) : spanText(low, high, text);
  return [text(value), range === text(value) ? null : el("span.note.block", {}, range)];
}
