// The table of cases, drawn a hundred rows at a time. Several sides are columns of one row.

import { badge, byId, el, sign } from "./dom.js";
import {
  changeText, counted, differenceText, intervalText, known, plural, valueText,
} from "./format.js";
import { lookOf } from "./looks.js";
import {
  aboutText, cases, differenceOf, every, manySides, manyWords, page, siblingsOf, total,
  unitOf, verdictOf, word,
} from "./page.js";
import { intervalStrip, spanOf, stripAxis } from "./ratios.js";
import { addressOf, onSelection, select, sortBy, SORTS, state } from "./selection.js";

const STEP = 100;
const ONE_SIDE = [
  ["verdict", "news", ""], ["case", "name", ""], ["base", null, "number"],
  ["other", "time", "number"], ["difference", "difference", "number"],
  ["change", "ratio", "number"], ["", null, "interval"],
];
const SHARED = [["verdict", "news", ""], ["case", "name", ""], ["base", "time", "number"]];
const labels = page.sides.slice(1).map((side) => side.label);
let rows = [], drawn = 0, span = 1;

// Where no interval is news, the ends of all of them set the span of the small drawings.
function newsSpan() {
  const news = every.filter((place) => !page.quiet.includes(verdictOf(place)));
  if (news.length) return spanOf(news.map((place) => cases.ratio[place]), 0.8);
  return spanOf(every.flatMap((place) => [cases.low[place], cases.high[place]]), 0.8);
}

// The first case of each row in the order of the selection.
function leaders() {
  if (!manySides) return state.shown;
  const seen = new Set();
  return state.shown.filter((place) => {
    const first = !seen.has(cases.group[place]);
    seen.add(cases.group[place]);
    return first;
  });
}

function redraw() {
  rows = leaders();
  drawn = 0;
  byId("rows").tBodies[0].replaceChildren();
  byId("none").hidden = rows.length > 0 || total === 0;
  byId("rows").hidden = !rows.length;
  const all = plural(total, "case"), part = counted(state.shown.length);
  const found = state.shown.length === total ? all : `${part} of ${all}`;
  byId("shown").textContent = manySides ? `${found} in ${plural(rows.length, "row")}` : found;
  byId("sort").value = state.sort;
  if (document.activeElement !== byId("search")) byId("search").value = state.search;
  markHeads();
  drawMore();
}

function markHeads() {
  for (const button of document.querySelectorAll(".count")) {
    button.setAttribute("aria-pressed", String(button.dataset.verdict === state.verdict));
  }
  for (const head of byId("rows").querySelectorAll("th[data-sort]")) {
    const here = head.dataset.sort === state.sort;
    head.setAttribute("aria-sort", here ? (state.backwards ? "descending" : "ascending") : "none");
  }
}

function drawMore() {
  const next = rows.slice(drawn, drawn + STEP);
  byId("rows").tBodies[0].append(...next.map(manySides ? wideRow : row));
  drawn += next.length;
  const left = rows.length - drawn;
  byId("more").hidden = left === 0;
  byId("more").textContent = `Show ${Math.min(left, STEP)} more of ${counted(left)}`;
}

const valueOf = (place, column) => {
  const value = cases[column][place];
  return known(value) ? valueText(value, unitOf(place)) : "";
};

function verdictCell(place) {
  return el("td.cell-verdict", {}, badge(verdictOf(place), Boolean(cases.provisional[place])));
}

function caseCell(place) {
  const about = ["family", "dtype", ...(manyWords("engine") ? ["engine"] : []), "variant"];
  const was = cases.was[place] ? `was ${cases.was[place]}` : null;
  const why = word("why", place);
  const more = [was, why ? `different ${why}` : null, word("notes", place)];
  return el("td.cell-case", {},
    el("a", { href: addressOf(place) }, cases.name[place]),
    el("span.note", {}, aboutText(place, about, more)));
}

const changeOf = (place) => (known(cases.ratio[place]) ? changeText(cases.ratio[place]) : "");

function strip(place) {
  const [low, ratio, high] = ["low", "ratio", "high"].map((column) => cases[column][place]);
  return intervalStrip(low, ratio, high, span, lookOf(verdictOf(place))[2]);
}

const intervalOf = (place) =>
  (known(cases.low[place]) ? intervalText(cases.low[place], cases.high[place]) : null);

function row(place) {
  const moved = differenceText(differenceOf(place), unitOf(place));
  return el("tr", { "data-id": cases.id[place] },
    verdictCell(place), caseCell(place),
    el("td.number.cell-base", {}, valueOf(place, "base")),
    el("td.number.cell-other", {}, valueOf(place, "other")),
    el("td.number.cell-difference", {}, moved),
    el("td.number.cell-change", {}, changeOf(place)),
    el("td.cell-interval", { title: intervalOf(place) }, strip(place)));
}

// One graph of the base, and what every other side made of it.
function wideRow(place) {
  const places = new Map(siblingsOf(place).map((one) => [word("label", one), one]));
  return el("tr", { "data-id": cases.id[place] },
    verdictCell(place), caseCell(place),
    el("td.number.cell-base", {}, valueOf(place, "base")),
    labels.map((label) => sideCell(places.get(label), label)));
}

function sideCell(place, label) {
  if (place === undefined) return el("td.cell-side", { "data-label": label }, "not compared");
  const verdict = verdictOf(place), value = valueOf(place, "other");
  const title = [verdict, value, intervalOf(place)].filter(Boolean).join(", ");
  const link = { href: addressOf(place), title, class: lookOf(verdict)[2] };
  return el("td.cell-side", { "data-label": label },
    el("a", link, sign(verdict), changeOf(place) || verdict), strip(place));
}

function headOf([title, sort, kind]) {
  const sortable = { "data-sort": sort, "aria-sort": sort ? "none" : null };
  const press = { type: "button", onclick: () => sortBy(sort) };
  const content = sort ? el("button.head", press, title) : title;
  return el("th", { scope: "col", class: kind || null, ...sortable },
    kind === "interval" ? stripAxis(span) : content);
}

function sideHead(label) {
  return el("th.cell-side", { scope: "col" }, el("span.side-name", {}, label), stripAxis(span));
}

function showHeads() {
  const heads = manySides
    ? [...SHARED.map(headOf), ...labels.map(sideHead)] : ONE_SIDE.map(headOf);
  byId("rows").tHead.replaceChildren(el("tr", {}, heads));
  byId("rows").classList.toggle("many", manySides);
  const options = Object.entries(SORTS).map(([name, [title]]) =>
    el("option", { value: name }, title));
  byId("sort").append(...options);
}

function listen() {
  let pause;
  byId("search").addEventListener("input", (event) => {
    clearTimeout(pause);
    const search = event.target.value;
    pause = setTimeout(() => select({ search }), total > 1000 ? 150 : 30);
  });
  byId("sort").addEventListener("change", (event) =>
    select({ sort: event.target.value, backwards: false }));
  byId("more").addEventListener("click", drawMore);
  byId("reset").addEventListener("click", () => {
    byId("search").value = "";
    select({ search: "", verdict: "" });
  });
  byId("rows").addEventListener("click", (event) => {
    const line = event.target.closest("tr[data-id]");
    if (!line || event.target.closest("a") || String(window.getSelection())) return;
    location.hash = line.querySelector("a").hash;
  });
}

// Notes that nearly all cases have are not repeated in each row.
function commonNotes() {
  const shown = new Set(every.flatMap((place) => word("notes", place).split(", ")));
  const common = Object.entries(page.noteKinds).filter(([kind]) => !shown.has(kind));
  const texts = common.map(([kind, count]) =>
    `${kind} in ${count === total ? "all" : `${counted(count)} of ${counted(total)}`} cases`);
  return texts.length ? `Notes on the samples: ${texts.join(", ")}.` : "";
}

export function showTable() {
  span = newsSpan();
  byId("common-notes").textContent = commonNotes();
  showHeads();
  listen();
  onSelection(redraw);
}
