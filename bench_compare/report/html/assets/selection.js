// Which cases are shown, and in which order; kept in the address, so that a link shows the same.

import { known } from "./format.js";
import { cases, differenceOf, every, page, placeOf, verdictOf, word } from "./page.js";

const text = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
const byName = (a, b) => text(cases.name[a], cases.name[b]) || a - b;
const firstKnown = (...values) => values.find(known);
const time = (place) => firstKnown(cases.other[place], cases.base[place], -1);
const size = (place) => firstKnown(cases.ratio[place], 1);
const gained = (place) => firstKnown(differenceOf(place), -Infinity);
const byFamily = (a, b) => text(word("family", a), word("family", b)) || byName(a, b);
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

const ARRANGED = ["ratio", "base", "family", "engine", "label"];

export const state = {
  search: page.start.filter, verdict: "", sort: page.start.sort, backwards: false,
  arrange: "ratio", shown: [], open: null,
};
const START = { ...state };
const listeners = [];

export const onSelection = (redraw) => listeners.push(redraw);

const haystacks = new Map();
const WORDS = ["family", "engine", "dtype", "label", "variant", "why", "notes"];

function haystack(place) {
  if (!haystacks.has(place)) {
    const parts = [cases.name[place], cases.was[place] || "", verdictOf(place)];
    const more = WORDS.map((column) => word(column, place));
    haystacks.set(place, [...parts, ...more].map((part) => part.toLowerCase()));
  }
  return haystacks.get(place);
}

// A part of a word, or with * ? a glob of the whole word, as in the command's --filter.
function fitsWord(wanted) {
  if (!/[*?]/.test(wanted)) return (part) => part.includes(wanted);
  const escaped = wanted.replace(/[.+^${}()|[\]\\]/g, "\\$&");
  const glob = new RegExp(`^${escaped.replace(/\*/g, ".*").replace(/\?/g, ".")}$`, "s");
  return (part) => glob.test(part);
}

// Every word of the search has to fit somewhere.
function matcher(search) {
  const tests = search.trim().toLowerCase().split(/\s+/).filter(Boolean).map(fitsWord);
  return (place) => tests.every((test) => haystack(place).some(test));
}

function refresh() {
  const fits = matcher(state.search);
  const wanted = (place) => !state.verdict || verdictOf(place) === state.verdict;
  state.shown = every.filter((place) => wanted(place) && fits(place)).sort(SORTS[state.sort][1]);
  if (state.backwards) state.shown.reverse();
  for (const redraw of listeners) redraw();
}

export function select(changes) {
  Object.assign(state, changes);
  remember();
  refresh();
}

export const toggleVerdict = (verdict) =>
  select({ verdict: state.verdict === verdict ? "" : verdict });

export function sortBy(name) {
  select({ sort: name, backwards: state.sort === name && !state.backwards });
}

// What differs from a page as it was made: #find=conv&sort=ratio&case=c0004, or #c0004 alone.
function address() {
  const said = new URLSearchParams();
  if (state.search !== START.search) said.set("find", state.search);
  if (state.verdict) said.set("verdict", state.verdict);
  if (state.sort !== START.sort) said.set("sort", state.sort);
  if (state.backwards) said.set("order", "reversed");
  if (state.arrange !== START.arrange) said.set("arrange", state.arrange);
  const id = state.open === null ? "" : cases.id[state.open];
  if (![...said].length) return id;
  if (id) said.set("case", id);
  return said.toString();
}

export function remember() {
  const hash = address(), plain = location.pathname + location.search;
  history.replaceState(null, "", hash ? `#${hash}` : plain);
}

export function addressOf(place) {
  const before = state.open;
  state.open = place;
  const hash = address();
  state.open = before;
  return `#${hash}`;
}

function fromAddress(said) {
  const sort = said.get("sort"), verdict = said.get("verdict");
  const arrange = said.get("arrange");
  return {
    search: said.get("find") ?? START.search,
    verdict: page.verdicts.includes(verdict) ? verdict : "",
    sort: sort in SORTS ? sort : START.sort,
    backwards: said.get("order") === "reversed",
    arrange: ARRANGED.includes(arrange) ? arrange : START.arrange,
  };
}

// The case that the address names; a bare #c0004 leaves the selection as it is.
function readAddress() {
  const hash = location.hash.slice(1);
  if (!hash.includes("=")) return placeOf.get(hash);
  const said = new URLSearchParams(hash);
  Object.assign(state, fromAddress(said));
  return placeOf.get(said.get("case"));
}

// What the address selects is shown at once, before any chart.
export function startSelection() {
  readAddress();
  refresh();
}

export function followAddress(openCase) {
  const named = readAddress();
  if (named !== undefined) openCase(named);
  window.addEventListener("hashchange", () => {
    const place = readAddress();
    refresh();
    if (place !== undefined) openCase(place);
  });
}
