// The panel of a case: sections that travel packed, drawn when a reader opens the case.

import { badge, byId, el, known, onTheme, page, scrolling, table } from "./base.js";
import { aboutText, badgeOf, cases, manySides, siblingsOf, word } from "./cases.js";
import { chartNode } from "./charts.js";
import { addressOf, panelHead, setPanel, state } from "./list.js";

const blocks = new Map();

async function panelOf(place) {
  const number = Math.floor(place / page.chunk);
  if (!blocks.has(number)) blocks.set(number, unpacked(byId(`block-${number}`).textContent));
  return (await blocks.get(number))[place % page.chunk];
}

async function unpacked(text) {
  if (typeof DecompressionStream === "undefined") {
    throw new Error("this browser cannot unpack the details (it has no DecompressionStream)");
  }
  const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).json();
}

const cellOf = (cell, kind) => {
  const verdict = known(cell.verdict)
    ? badge(page.verdicts[cell.verdict], cell.provisional) : cell;
  return el("td", { class: kind }, verdict);
};

// The first cell of a row is its head; a row with one cell more has it in all columns.
function tableOf({ kind, heads, rows, caption }) {
  const kinds = heads.map((head) => (Array.isArray(head) ? head[1] : null));
  const made = table(kind, heads, rows.map(([first, ...cells]) => [
    el("th", { scope: "row" }, first),
    ...(cells.length === 1 && heads.length > 2
      ? [el("td", { colspan: heads.length - 1 }, cells[0])]
      : cells.map((cell, at) => cellOf(cell, kinds[at + 1]))),
  ]));
  if (kind === "facts") made.classList.add("unlike-all");
  if (caption) made.prepend(el("caption", {}, caption));
  return kind === "facts" ? made : scrolling(made);
}

const ITEMS = {
  p: (text) => el("p", {}, text),
  note: (text, id) => el("p.note", { id }, text),
  pre: (text) => el("pre", {}, text),
  tags: (tags) => el("ul.notes", {},
    tags.map(([kind, text]) => el("li", {}, el("span.tag", {}, kind), " ", text))),
  table: tableOf,
  chart: (one) => chartNode({ note: "", ...one }),
};

const itemNodes = ({ id = null, ...item }) =>
  Object.entries(item).map(([kind, value]) => ITEMS[kind](value, id));

const sectionNode = ({ title, items }) => (title
  ? el("section.part", {}, el("h3", {}, title), items.map(itemNodes)) : items.map(itemNodes));

let shown = null;
onTheme(redraw);

export function closeCase() {
  shown = null;
}

export async function openCase(place) {
  shown = null;
  if (place === undefined) return;
  setPanel(headOf(place), el("p.empty", {}, "Unpacking …"));
  try {
    const panel = await panelOf(place);
    if (state.open !== place) return;
    shown = { ...panel, place };
    redraw();
  } catch (error) {
    setPanel(headOf(place), el("p.alarm.fatal", {}, String(error.message)));
  }
  byId("panel").dataset.case = cases.id[place];
}

function headOf(place) {
  return panelHead(place, badgeOf(place), cases.name[place],
    aboutText(place, ["family", "dtype", "engine", "variant"]), sidesBar(place));
}

// The same graph in the other sides, if there are several.
function sidesBar(place) {
  if (!manySides) return null;
  const links = siblingsOf(place).map((one) => el("a.side-link", {
    href: addressOf(one), "aria-current": one === place ? "true" : null,
  }, word("label", one)));
  return el("nav.sides", { "aria-label": "Compared side" }, links);
}

function redraw() {
  if (!shown) return;
  setPanel(headOf(shown.place), el("p.reason", {}, shown.reason), shown.sections.map(sectionNode));
}
