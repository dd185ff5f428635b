// Which series are shown, in which order; kept in the address, so that a link shows the same.

import { events, series } from "./history_data.js";

const text = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
const byName = (a, b) => text(a.name, b.name) || a.place - b.place;
const RANK = ["slower", "unclear", "faster", "same", "absent"];
const rank = (one) => RANK.indexOf(one.shown);
const moved = (one) => Math.abs(Math.log(one.accepted || 1));
const newest = new Map();
for (const event of events) {
  for (const [place] of event.changes) {
    newest.set(place, Math.max(newest.get(place) ?? -1, event.build));
  }
}
const lastEvent = (one) => newest.get(one.place) ?? -1;

export const SORTS = {
  state: ["state", (a, b) => rank(a) - rank(b) || moved(b) - moved(a) || byName(a, b)],
  change: ["change", (a, b) => (b.accepted || 1) - (a.accepted || 1) || byName(a, b)],
  event: ["newest event", (a, b) => lastEvent(b) - lastEvent(a) || byName(a, b)],
  spread: ["spread", (a, b) => (b.spread || 0) - (a.spread || 0) || byName(a, b)],
  name: ["name", byName],
  family: ["family", (a, b) => text(a.family, b.family) || byName(a, b)],
};

export const state = {
  search: "", state: "", sort: "state", backwards: false, shown: [], open: null,
};
const listeners = [];
export const onSelection = (redraw) => listeners.push(redraw);

const haystack = (one) =>
  [one.name, one.family, one.engine, one.variant, one.dtype, one.shown].join(" ").toLowerCase();

function refresh() {
  const words = state.search.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (one) => words.every((word) => haystack(one).includes(word));
  const wanted = (one) => !state.state || one.shown === state.state;
  state.shown = series.filter((one) => wanted(one) && fits(one)).sort(SORTS[state.sort][1]);
  if (state.backwards) state.shown.reverse();
  for (const redraw of listeners) redraw();
}

export function select(changes) {
  Object.assign(state, changes);
  remember();
  refresh();
}

export const toggleState = (name) => select({ state: state.state === name ? "" : name });

export const sortBy = (name) =>
  select({ sort: name, backwards: state.sort === name && !state.backwards });

function address(open) {
  const said = new URLSearchParams();
  if (state.search) said.set("find", state.search);
  if (state.state) said.set("state", state.state);
  if (state.sort !== "state") said.set("sort", state.sort);
  if (state.backwards) said.set("order", "reversed");
  if (![...said].length) return open || "";
  if (open) said.set("show", open);
  return said.toString();
}

export function remember() {
  const hash = address(state.open), plain = location.pathname + location.search;
  history.replaceState(null, "", hash ? `#${hash}` : plain);
}

export const addressOf = (id) => `#${address(id)}`;

// What the address names besides the selection: a series or an event.
function readAddress() {
  const hash = location.hash.slice(1);
  if (!hash.includes("=")) return hash;
  const said = new URLSearchParams(hash), sort = said.get("sort");
  Object.assign(state, {
    search: said.get("find") ?? "", state: said.get("state") ?? "",
    sort: sort in SORTS ? sort : "state", backwards: said.get("order") === "reversed",
  });
  return said.get("show") ?? "";
}

export function startSelection(show) {
  const named = readAddress();
  refresh();
  show(named);
  window.addEventListener("hashchange", () => {
    const next = readAddress();
    refresh();
    show(next);
  });
}
