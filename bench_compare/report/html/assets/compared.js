// What was compared: what differs first, then facts of the sides, then how it was judged.

import { el, fill, rowHead, table } from "./dom.js";
import { counted, plural, UNKNOWN } from "./format.js";
import { every, manySides, page, verdictOf, word } from "./page.js";

// Facts that differ between any two runs.
const USUAL = new Set(["documents", "started", "tags"]);

export function showCompared() {
  fill("differences", whyCases(), differences());
  fill("compared", compared());
}

// How many of the cases that moved have another plan, other kernels or another clock.
function whyCases() {
  const moved = every.filter((place) => !page.quiet.includes(verdictOf(place)));
  const counts = new Map();
  for (const place of moved) {
    for (const why of word("why", place).split(", ").filter(Boolean)) {
      counts.set(why, (counts.get(why) || 0) + 1);
    }
  }
  if (!counts.size) return null;
  const parts = [...counts].map(([why, count]) => `${why} in ${counted(count)}`);
  const changed = plural(moved.length, "changed case");
  return el("p", {}, `Of ${changed}, the other side has a different ${parts.join(", ")}.`);
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
