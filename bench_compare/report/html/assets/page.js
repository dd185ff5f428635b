// The data of the page, and how its columns are read.

import { known } from "./format.js";

export const page = JSON.parse(document.getElementById("data").textContent);
export const cases = page.cases;
export const total = cases.id.length;
export const every = [...cases.id.keys()];
export const placeOf = new Map(cases.id.map((id, place) => [id, place]));
export const manySides = page.sides.length > 2;

export const word = (column, place) => cases[column].values[cases[column].codes[place]];
export const verdictOf = (place) => page.verdicts[cases.verdict[place]];
export const manyWords = (column) => cases[column].values.length > 1;

// Words of a case as one line; what is unknown is left out.
export const aboutText = (place, columns, more = []) => [
  ...columns.map((column) => word(column, place)).filter((said) => said !== "unknown"), ...more,
].filter(Boolean).join(" · ");

export function metricTitle(name) {
  return page.metrics[name] ? page.metrics[name][0] : name;
}

export function unitOf(place) {
  const metric = page.metrics[word("metric", place)];
  return metric ? metric[1] : "";
}

export function differenceOf(place) {
  const base = cases.base[place], other = cases.other[place];
  return known(base) && known(other) ? other - base : null;
}

// Cases that hold one graph of the base against different sides: together they are a row.
const rowsByGroup = new Map();
for (const place of every) {
  const group = cases.group[place];
  rowsByGroup.set(group, [...(rowsByGroup.get(group) || []), place]);
}
export const siblingsOf = (place) => rowsByGroup.get(cases.group[place]);
