// A list of cases or of series: what is searched, sorted and shown, kept in the address so that a
// link shows the same; its table, drawn a hundred rows at a time; and the panel of one of them.

import { byId, counted, el, fill, known, lookOf, plural, sign } from "./base.js";

const STEP = 100;

// What the list is of; a page fills it before it starts. `rows` gives the places that are drawn as
// rows, `draw` makes one, `content` what the panel shows of one.
export const list = {
  ids: [], noun: ["case", "cases"], words: () => [], stateOf: () => "", sorts: {}, start: {},
  stateKey: "verdict", openKey: "case", arranged: [], heads: [], rows: (places) => places,
  draw: () => null, said: (text) => text, open: () => {}, closed: () => {},
};
export const state = {
  search: "", state: "", sort: "", backwards: false, arrange: "", shown: [], open: null,
};
const listeners = [];
let placeOf = new Map(), rows = [], drawn = 0;

export const onSelection = (listener) => listeners.push(listener);

// A part of a word, or with * ? a glob of the whole word, as in the command's --filter.
function fitsWord(wanted) {
  if (!/[*?]/.test(wanted)) return (part) => part.includes(wanted);
  const escaped = wanted.replace(/[.+^${}()|[\]\\]/g, "\\$&");
  const glob = new RegExp(`^${escaped.replace(/\*/g, ".*").replace(/\?/g, ".")}$`, "s");
  return (part) => glob.test(part);
}

const haystacks = new Map();

function haystack(place) {
  if (!haystacks.has(place)) {
    haystacks.set(place, list.words(place).map((part) => part.toLowerCase()));
  }
  return haystacks.get(place);
}

// Every word of the search has to fit somewhere.
function refresh() {
  const tests = state.search.trim().toLowerCase().split(/\s+/).filter(Boolean).map(fitsWord);
  const fits = (place) => tests.every((test) => haystack(place).some(test));
  const wanted = (place) => !state.state || list.stateOf(place) === state.state;
  const [, compared] = list.sorts[state.sort];
  state.shown = [...list.ids.keys()].filter((place) => wanted(place) && fits(place)).sort(compared);
  if (state.backwards) state.shown.reverse();
  for (const listener of listeners) listener();
}

export function select(changes) {
  Object.assign(state, changes);
  remember();
  refresh();
}

const toggleState = (name) => select({ state: state.state === name ? "" : name });

function sortBy(name) {
  select({ sort: name, backwards: state.sort === name && !state.backwards });
}

// What differs from a page as it was made: #find=conv&sort=ratio&case=c0004, or #c0004 alone.
export function addressOf(place) {
  const words = new URLSearchParams();
  if (state.search !== list.start.search) words.set("find", state.search);
  if (state.state) words.set(list.stateKey, state.state);
  if (state.sort !== list.start.sort) words.set("sort", state.sort);
  if (state.backwards) words.set("order", "reversed");
  if (state.arrange !== list.arranged[0]) words.set("arrange", state.arrange);
  const id = place === null ? "" : list.ids[place];
  if (![...words].length) return `#${id}`;
  if (id) words.set(list.openKey, id);
  return `#${words}`;
}

function remember() {
  const hash = addressOf(state.open), plain = location.pathname + location.search;
  history.replaceState(null, "", hash === "#" ? plain : hash);
}

// The id that the address names; a bare #c0004 leaves the selection as it is.
function readAddress() {
  const hash = location.hash.slice(1);
  if (!hash.includes("=")) return hash;
  const words = new URLSearchParams(hash), sort = words.get("sort");
  const arrange = words.get("arrange"), wanted = words.get(list.stateKey);
  Object.assign(state, {
    search: words.get("find") ?? list.start.search,
    state: list.ids.some((_, place) => list.stateOf(place) === wanted) ? wanted : "",
    sort: sort in list.sorts ? sort : list.start.sort,
    backwards: words.get("order") === "reversed",
    arrange: list.arranged.includes(arrange) ? arrange : list.arranged[0],
  });
  return words.get(list.openKey) ?? "";
}

function redraw() {
  rows = list.rows(state.shown);
  drawn = 0;
  const total = list.ids.length, all = plural(total, ...list.noun);
  byId("rows").tBodies[0].replaceChildren();
  byId("none").hidden = rows.length > 0 || total === 0;
  byId("rows").hidden = !rows.length;
  const some = state.shown.length === total ? all : `${counted(state.shown.length)} of ${all}`;
  byId("shown").textContent = list.said(some, rows.length);
  byId("sort").value = state.sort;
  if (document.activeElement !== byId("search")) byId("search").value = state.search;
  for (const button of document.querySelectorAll(".count")) {
    button.setAttribute("aria-pressed", String(button.dataset[list.stateKey] === state.state));
  }
  for (const head of byId("rows").querySelectorAll("th[data-sort]")) {
    const here = head.dataset.sort === state.sort;
    head.setAttribute("aria-sort", here ? (state.backwards ? "descending" : "ascending") : "none");
  }
  drawMore();
}

function drawMore() {
  const next = rows.slice(drawn, drawn + STEP);
  byId("rows").tBodies[0].append(...next.map(list.draw));
  drawn += next.length;
  const left = rows.length - drawn;
  byId("more").hidden = left === 0;
  byId("more").textContent = `Show ${Math.min(left, STEP)} more of ${counted(left)}`;
}

// A head is [title, sort, class]; the title may be a drawing.
function headOf([title, sort, kind]) {
  const press = { type: "button", onclick: () => sortBy(sort) };
  const sortable = { "data-sort": sort, "aria-sort": sort ? "none" : null };
  return el("th", { scope: "col", class: kind || null, ...sortable },
    sort ? el("button.head", press, title) : title);
}

// A button for each state that a row has, as [state, count].
export function showCounts(counts) {
  fill("counts", counts.filter(([, count]) => count > 0).map(([name, count]) => {
    const press = {
      type: "button", [`data-${list.stateKey}`]: name, "aria-pressed": "false",
      onclick: () => toggleState(name),
    };
    return el(`button.count.${lookOf(name)[2]}`, press,
      sign(name), el("strong", {}, counted(count)), ` ${name}`);
  }));
}

function listen() {
  let pause;
  byId("search").addEventListener("input", (event) => {
    clearTimeout(pause);
    const search = event.target.value;
    pause = setTimeout(() => select({ search }), list.ids.length > 1000 ? 150 : 30);
  });
  byId("sort").addEventListener("change", (event) =>
    select({ sort: event.target.value, backwards: false }));
  byId("more").addEventListener("click", drawMore);
  byId("reset").addEventListener("click", () => {
    byId("search").value = "";
    select({ search: "", state: "" });
  });
  byId("rows").addEventListener("click", (event) => {
    const line = event.target.closest("tr[data-id]");
    if (!line || event.target.closest("a") || String(window.getSelection())) return;
    location.hash = line.querySelector("a").hash;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    if (byId("panel").open) return;
    event.preventDefault();
    byId("search").focus();
  });
}

// The table with what the address selects, before any chart.
export function showList() {
  placeOf = new Map(list.ids.map((id, place) => [id, place]));
  Object.assign(state, { ...list.start, arrange: list.arranged[0] });
  byId("rows").tHead.replaceChildren(el("tr", {}, list.heads.map(headOf)));
  byId("sort").append(...Object.entries(list.sorts).map(([name, [title]]) =>
    el("option", { value: name }, title)));
  listen();
  listenToPanel();
  onSelection(redraw);
  readAddress();
  refresh();
}

// What the address names is opened, now and whenever it changes.
export function followAddress() {
  const named = readAddress();
  if (named) openNamed(named);
  window.addEventListener("hashchange", () => {
    const next = readAddress();
    refresh();
    openNamed(next);
  });
}

function openNamed(id) {
  const place = placeOf.get(id), panel = byId("panel");
  if (place === undefined) {
    if (panel.open) panel.close();
  } else {
    state.open = place;
    remember();
    if (!panel.open) panel.showModal();
    panel.scrollTop = 0;
  }
  list.open(place, id);
}

function listenToPanel() {
  const panel = byId("panel");
  panel.addEventListener("close", () => {
    state.open = null;
    list.closed();
    remember();
  });
  panel.addEventListener("click", (event) => {
    if (event.target === panel) panel.close();
  });
  document.addEventListener("keydown", (event) => {
    if (!panel.open || event.target.matches("input, select")) return;
    if (event.key === "ArrowRight") move(1);
    if (event.key === "ArrowLeft") move(-1);
  });
}

const neighbour = (step) => state.shown[state.shown.indexOf(state.open) + step];

function move(step) {
  const next = neighbour(step);
  if (next !== undefined && state.open !== null) location.replace(addressOf(next));
}

// New content; a button that had the keyboard's focus gets it again.
export function setPanel(...content) {
  const panel = byId("panel"), before = document.activeElement;
  const held = before && before.getAttribute("aria-label");
  panel.replaceChildren(...content.flat(Infinity).filter(known));
  const again = [...panel.querySelectorAll("button[aria-label]")]
    .find((button) => button.getAttribute("aria-label") === held && !button.disabled);
  (again || panel).focus();
}

// The head of a panel: where it stands among those that are shown, and what it is.
export function panelHead(place, badged, name, about, ...more) {
  const at = state.shown.indexOf(place), [noun] = list.noun;
  const step = (by, mark, title) => el("button.quiet", {
    type: "button", "aria-label": title, onclick: () => move(by),
    disabled: at < 0 || state.shown[at + by] === undefined,
  }, mark);
  const close = { type: "button", "aria-label": "Close", onclick: () => byId("panel").close() };
  return el("header.panel-head", {},
    el("div.panel-bar", {}, badged,
      el("span.note", {}, at >= 0 ? `${at + 1} of ${counted(state.shown.length)} shown` : ""),
      el("span.grow"),
      step(-1, "‹", `Previous ${noun}`), step(1, "›", `Next ${noun}`),
      el("button.quiet", close, "✕")),
    el("h2", { id: "panel-title" }, name), el("p.note", {}, about), more);
}

// A list that shows its first items and a button for the rest; on paper there is no button.
const folded = [];
window.addEventListener("beforeprint", () => folded.splice(0).forEach((unfold) => unfold()));

export function unfolding(items, make, few) {
  const made = el("ul.news", {}, items.slice(0, few).map(make));
  if (items.length <= few) return [made];
  const button = el("button.quiet", { type: "button" }, `Show all ${plural(items.length, "item")}`);
  const unfold = () => {
    if (!button.isConnected) return;
    made.append(...items.slice(few).map(make));
    button.remove();
  };
  button.addEventListener("click", unfold);
  folded.push(unfold);
  return [made, button];
}
