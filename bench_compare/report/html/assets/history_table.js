// The table of series with sparklines, and the small charts by family beneath it.

import { byId, el, fill } from "./dom.js";
import { changeText, counted, known, percentText, plural, valueText } from "./format.js";
import { chart, sparkline } from "./history_chart.js";
import { page, series } from "./history_data.js";
import { markCounts } from "./history_head.js";
import { stateBadge } from "./history_parts.js";
import { addressOf, onSelection, select, sortBy, SORTS, state } from "./history_selection.js";

const HEADS = [
  ["state", "state", ""], ["series", "name", ""], ["last level", null, "number"],
  ["change", "change", "number"], ["spread", "spread", "number"], ["over the builds", null, ""],
];
const drawers = new Map();
const seen = typeof IntersectionObserver === "undefined" ? null
  : new IntersectionObserver((entries) => {
    for (const entry of entries.filter((one) => one.isIntersecting)) {
      seen.unobserve(entry.target);
      drawers.get(entry.target)();
    }
  }, { rootMargin: "300px" });

// Drawn when it comes into view: an archive may have thousands of series.
function lazily(holder, make) {
  const fillIn = () => holder.replaceChildren(make());
  if (!seen) fillIn();
  else {
    drawers.set(holder, fillIn);
    seen.observe(holder);
  }
  return holder;
}

const changeOf = (one) =>
  (/slower|faster/.test(one.shown) && known(one.accepted) ? changeText(one.accepted) : "");

function row(one) {
  const about = [one.family, one.engine, one.variant, one.settings].filter(Boolean).join(" · ");
  const reference = one.steps.length ? valueText(one.reference, page.unit) : "";
  const moved = changeOf(one);
  return el("tr", { "data-id": one.id },
    el("td.cell-verdict", {}, stateBadge(one.shown)),
    el("td.cell-case", {}, el("a", { href: addressOf(one.id) }, one.name),
      el("span.note", {}, about)),
    el("td.number.cell-number", {}, reference),
    el("td.number.cell-change", {}, moved),
    el("td.number.cell-number", {}, known(one.spread) ? `±${percentText(one.spread)}` : ""),
    lazily(el("td.cell-spark"), () => (one.steps.length ? sparkline(one) : "")));
}

function small(one) {
  const holder = lazily(el("div.holder"), () => chart(one));
  const moved = changeOf(one);
  return el("figure.small", {},
    el("figcaption", {}, el("a", { href: addressOf(one.id) }, one.name),
      el("span.note", {}, ` ${one.engine} ${one.variant}`), el("strong", {}, ` ${moved}`)), holder);
}

function charts() {
  const drawable = state.shown.filter((one) => one.steps.length);
  const families = [...new Set(drawable.map((one) => one.family))];
  fill("charts", families.map((family) => [
    el("h3.family", {}, family),
    el("div.charts", {}, drawable.filter((one) => one.family === family).map(small)),
  ]));
}

function redraw() {
  byId("rows").tBodies[0].replaceChildren(...state.shown.map(row));
  byId("none").hidden = state.shown.length > 0 || !series.length;
  byId("rows").hidden = !state.shown.length;
  const all = plural(series.length, "series", "series");
  byId("shown").textContent = state.shown.length === series.length ? all
    : `${counted(state.shown.length)} of ${all}`;
  byId("sort").value = state.sort;
  if (document.activeElement !== byId("search")) byId("search").value = state.search;
  for (const head of byId("rows").querySelectorAll("th[data-sort]")) {
    const here = head.dataset.sort === state.sort;
    head.setAttribute("aria-sort", here ? (state.backwards ? "descending" : "ascending") : "none");
  }
  markCounts();
  charts();
}

function headOf([title, sort, kind]) {
  const press = { type: "button", onclick: () => sortBy(sort) };
  return el("th", { scope: "col", class: kind || null, "data-sort": sort },
    sort ? el("button.head", press, title) : title);
}

function listen() {
  let pause;
  byId("search").addEventListener("input", (event) => {
    clearTimeout(pause);
    pause = setTimeout(() => select({ search: event.target.value }), 60);
  });
  byId("sort").addEventListener("change", (event) =>
    select({ sort: event.target.value, backwards: false }));
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
    event.preventDefault();
    byId("search").focus();
  });
}

const LEGEND = "Change against the last level. Points: documents with the 95 % interval of their " +
  "rounds. Lines: levels with theirs. Dashed: events. Grey: accepted. " +
  "Small marks below: a changed environment.";

export function showTable() {
  byId("rows").tHead.replaceChildren(el("tr", {}, HEADS.map(headOf)));
  byId("sort").append(...Object.entries(SORTS).map(([name, [title]]) =>
    el("option", { value: name }, title)));
  byId("legend").textContent = LEGEND;
  listen();
  onSelection(redraw);
}
