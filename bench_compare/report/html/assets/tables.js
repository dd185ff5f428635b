// The page of a report that is tables and charts, such as a history or a composition.

import {
  byId, commandLine, counted, el, fill, known, number, page, plural, rowHead, scrolling, table,
} from "./base.js";
import { chartNode } from "./charts.js";

const SEARCHED = 12, SHOWN = 200;
const textOf = (cell) => (Array.isArray(cell) ? cell[0] : known(cell.word) ? cell.word : cell);
const valueOf = (cell) => (Array.isArray(cell) ? cell[1] : textOf(cell));

function stateNode({ word, tone, mark }) {
  const sign = mark ? el("span.sign", { "aria-hidden": "true" }, mark) : "";
  return el(`span.verdict.${tone}`, {}, sign, word);
}

function cellNode(cell, align, link) {
  if (known(cell.word)) return el("td", {}, stateNode(cell));
  const text = textOf(cell), node = link ? el("a", { href: `#${link}` }, text) : text;
  return align === "right" ? number(node) : el("td", {}, node);
}

function rowNode(row, heads) {
  const linked = row.cells.findIndex((cell) => typeof cell === "string");
  const cells = row.cells.map((cell, at) =>
    cellNode(cell, heads[at][1], at === linked ? row.link : ""));
  const made = el("tr", { id: row.id || null }, cells);
  return row.details.length
    ? [made, el("tr.more", {}, el("td", { colspan: heads.length }, folded(row.details)))] : [made];
}

const folded = (lines) => (lines.length
  ? el("details", {}, el("summary", {}, plural(lines.length, "line")),
    el("ul.note", {}, lines.map((line) => el("li", {}, line)))) : null);

const compared = (a, b) => {
  const [one, two] = [valueOf(a), valueOf(b)];
  if (typeof one === "number" && typeof two === "number") return two - one;
  if (!known(one) || !known(two)) return known(two) - known(one);
  return one < two ? -1 : one > two ? 1 : 0;
};

// A table whose heads sort and, if it is long, with a search; all words must fit.
function tableNode({ title, heads, rows, foot }) {
  const state = { by: null, back: false, words: [], most: SHOWN };
  const body = el("tbody"), note = el("p.note", { "aria-live": "polite" });
  const more = el("button", { type: "button", onclick: () => { state.most *= 5; redraw(); } });
  const texts = rows.map((row) => row.cells.map(textOf).join(" ").toLowerCase());

  function redraw() {
    const wanted = rows.map((_, at) => at)
      .filter((at) => state.words.every((word) => texts[at].includes(word)));
    if (state.by !== null) {
      wanted.sort((a, b) => compared(rows[a].cells[state.by], rows[b].cells[state.by]) || a - b);
      if (state.back) wanted.reverse();
    }
    body.replaceChildren(...wanted.slice(0, state.most).flatMap((at) => rowNode(rows[at], heads)));
    note.textContent = wanted.length === rows.length ? plural(rows.length, "row")
      : `${counted(wanted.length)} of ${plural(rows.length, "row")}`;
    more.hidden = wanted.length <= state.most;
    more.textContent = `Show more of ${counted(wanted.length)}`;
  }

  const headNodes = heads.map(([text, align], at) => {
    const sort = () => {
      state.back = state.by === at && !state.back;
      state.by = at;
      headNodes.forEach((node) => node.removeAttribute("aria-sort"));
      headNodes[at].setAttribute("aria-sort", state.back ? "descending" : "ascending");
      redraw();
    };
    const kind = align === "right" ? "th.number" : "th";
    return el(kind, { scope: "col" },
      text ? el("button.head", { type: "button", onclick: sort }, text) : "");
  });
  const search = el("input", {
    type: "search", placeholder: "Search", "aria-label": `Search ${title || "the table"}`,
    oninput: () => {
      state.words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      redraw();
    },
  });
  redraw();
  return el("section", {},
    el("div.bar", {}, title ? el("h2", {}, title) : null,
      rows.length > SEARCHED ? [el("label.grow", {}, search), note] : null),
    scrolling(el("table.plain.sorted", {}, el("thead", {}, el("tr", {}, headNodes)), body)), more,
    foot ? el("p.note", {}, foot) : null);
}

function entryNode({ id, state, entry: [title, ...lines], details, commands }) {
  return el("div.event", { id: id || null },
    el("h3", {}, state ? stateNode({ ...state, word: "" }) : "", title),
    lines.map((line) => el("p", {}, line.trim())),
    folded(details),
    commands.length ? el("details", {}, el("summary", {}, "Command lines"),
      commands.map(commandLine)) : null);
}

const entriesNode = ({ title, rows }) =>
  el("section", {}, el("h2", {}, title), rows.map(entryNode));

// The first charts are open; those of an archive's hundreds of series open on demand.
function chartNodes(charts) {
  const [first, rest] = [charts.filter((one) => one.open), charts.filter((one) => !one.open)];
  return el("section", {}, charts.length ? el("h2", {}, "Charts") : null,
    el("div.charts", {}, first.map(chartNode)),
    rest.length ? el("details", { id: "more-charts" },
      el("summary", {}, `${plural(rest.length, "more chart")}`),
      el("div.charts", {}, rest.map(chartNode))) : null);
}

function followAddress() {
  const node = location.hash.length > 1 ? byId(decodeURIComponent(location.hash.slice(1))) : null;
  if (!node) return;
  const box = node.closest("details");
  if (box) box.open = true;
  node.scrollIntoView({ block: "center" });
}

export function showTables() {
  fill("alarms", page.problems.map((text) => el("p.alarm.fatal", {}, text)),
    page.statements.map((text) => el("p", {}, text)));
  const { title, lines } = page.commands;
  const wide = page.charts.filter((one) => one.first);
  fill("report", wide.map(chartNode),
    page.tables.map((one) => (one.entries ? entriesNode(one) : tableNode(one))),
    lines.length ? el("section", {}, el("h2", {}, title), lines.map(commandLine)) : null,
    chartNodes(page.charts.filter((one) => !one.first)),
    page.facts.length ? el("section", {}, el("h2", {}, "What it rests on"),
      table("facts", [], page.facts.map(([name, text]) => [rowHead(name), text]))) : null,
    page.remarks.length ? el("section", {}, el("h2", {}, "Notes"),
      el("ul.note", {}, page.remarks.map((text) => el("li", {}, text)))) : null);
  window.addEventListener("hashchange", followAddress);
  window.addEventListener("load", () => {
    followAddress();
    document.documentElement.dataset.ready = String(Math.round(performance.now()));
  });
}
