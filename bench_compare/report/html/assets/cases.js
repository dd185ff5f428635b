// The cases of a page, a column for each thing that is known of them, and how they are sorted.

import { badge, known, page } from "./base.js";

export const cases = page.cases || { id: [], group: [] };
export const total = cases.id.length;
export const every = [...cases.id.keys()];
export const placeOf = new Map(cases.id.map((id, place) => [id, place]));
export const manySides = (page.sides || []).length > 2;

export const word = (column, place) => cases[column].values[cases[column].codes[place]];
export const verdictOf = (place) => page.verdicts[cases.verdict[place]];
export const badgeOf = (place) =>
  badge(verdictOf(place), Boolean(cases.provisional[place]), (cases.allowed || {})[place]);
export const manyWords = (column) => cases[column].values.length > 1;

// Words of a case as one line; what is unknown is left out.
export const aboutText = (place, columns, more = []) => [
  ...columns.map((column) => word(column, place)).filter((text) => text !== "unknown"), ...more,
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

const compared = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
const byName = (a, b) => compared(cases.name[a], cases.name[b]) || a - b;
const firstKnown = (...values) => values.find(known);
const time = (place) => firstKnown(cases.other[place], cases.base[place], -1);
const size = (place) => firstKnown(cases.ratio[place], 1);
const gained = (place) => firstKnown(differenceOf(place), -Infinity);
const byFamily = (a, b) => compared(word("family", a), word("family", b)) || byName(a, b);
const byNews = (a, b) => cases.verdict[a] - cases.verdict[b] || size(b) - size(a) || byName(a, b);

export const SORTS = {
  news: ["news first", byNews],
  ratio: ["change", (a, b) => size(b) - size(a) || byName(a, b)],
  difference: ["difference in time", (a, b) => gained(b) - gained(a) || byName(a, b)],
  name: ["name", byName],
  family: ["family", byFamily],
  time: ["time", (a, b) => time(b) - time(a) || byName(a, b)],
  document: ["document order", (a, b) => a - b],
};

const WORDS = ["family", "engine", "dtype", "label", "variant", "why", "notes"];

export const wordsOf = (place) => [
  cases.name[place], (cases.was || {})[place] || "", verdictOf(place),
  ...WORDS.filter((column) => column in cases).map((column) => word(column, place)),
];
