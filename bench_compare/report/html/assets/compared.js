// What was compared: what differs first, then facts of the sides, then how it was judged.

import { el, fill, rowHead, table } from "./dom.js";
import { UNKNOWN } from "./format.js";
import { manySides, page } from "./page.js";

// Facts that differ between any two runs.
const USUAL = new Set(["documents", "started", "tags"]);

export function showCompared() {
  fill("differences", page.why ? el("p", {}, page.why) : null, differences());
  fill("compared", compared());
}

function differences() {
  const none = "No setting, device or library that is checked differs.";
  if (!page.differences.length) return el("p.note", {}, none);
  const rows = page.differences.map(([name, base, other, of, must]) => [
    rowHead(name, must ? el("span.tag.fatal", {}, "must agree") : null), base, other,
    ...(manySides ? [of] : []),
  ]);
  const heads = ["differs", "base", "other", ...(manySides ? ["of"] : [])];
  return table("facts.unlike-all", heads, rows);
}

function compared() {
  const names = [...new Set(page.sides.flatMap((side) => Object.keys(side.facts)))];
  const heads = page.sides.map((side) => [[el("span.eyebrow", {}, side.role), side.label]]);
  const asked = Object.entries(page.policy).map(([name, value]) => [
    rowHead(name), el("td", { colspan: page.sides.length }, value),
  ]);
  const judged = el("details", {},
    el("summary", {}, "How it was judged"), table("facts", [], asked));
  return [
    table("facts", ["", ...heads], names.map(factRow)), ...notes(), asked.length ? judged : null,
  ];
}

// What the documents say of themselves; a note of several documents comes once.
function notes() {
  const owners = new Map();
  for (const side of page.sides) {
    for (const note of side.notes) {
      owners.set(note, (owners.get(note) || new Set()).add(side.label));
    }
  }
  const items = [...owners].map(([note, labels]) =>
    el("li", {}, `${[...labels].join(", ")}: ${note}`));
  return items.length ? [el("ul.note", {}, items)] : [];
}

// One cell where all sides agree.
function factRow(name) {
  const values = page.sides.map((side) => side.facts[name] || UNKNOWN);
  const kind = USUAL.has(name) ? "td" : "td.unlike";
  const cells = new Set(values).size === 1
    ? [el("td", { colspan: values.length }, values[0])]
    : values.map((value) => el(kind, {}, value));
  return [rowHead(name), ...cells];
}
