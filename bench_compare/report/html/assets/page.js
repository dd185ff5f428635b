// The data of the page, and how its columns are read.

import { known } from "./format.js";

export const page = JSON.parse(document.getElementById("data").textContent);
export const cases = page.cases;
export const total = cases.id.length;
export const every = [...cases.id.keys()];
export const placeOf = new Map(cases.id.map((id, place) => [id, place]));
export const manySides = page.sides.length > 2;

// Sign in texts, symbol in charts, and the tone that gives the colour: never colour alone.
const VERDICTS = new Map(Object.entries({
  broken: ["✕", "x", "fatal"],
  "newly wrong": ["≠", "cross", "fatal"],
  wrong: ["≠", "cross", "fatal"],
  removed: ["∅", "circle-x-open", "fatal"],
  "newly unsupported": ["⊘", "circle-x-open", "fatal"],
  lost: ["−", "circle-x-open", "fatal"],
  incomparable: ["?", "diamond-x-open", "odd"],
  slower: ["▲", "triangle-up", "bad"],
  worse: ["▲", "triangle-up", "bad"],
  clock: ["◆", "diamond", "odd"],
  fixed: ["✓", "star", "good"],
  faster: ["▼", "triangle-down", "good"],
  better: ["▼", "triangle-down", "good"],
  added: ["+", "cross-open", "none"],
  unclear: ["○", "circle-open", "open"],
  "not measured": ["·", "circle-open-dot", "none"],
  same: ["●", "circle", "none"],
}));
const PLAIN = ["·", "circle", "none"];

export const lookOf = (verdict) => VERDICTS.get(verdict) || PLAIN;
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
