// What became of a case on each side, and what to know about its samples.

import { el } from "./dom.js";
import { known } from "./format.js";
import { SIDE_NAMES } from "./frame.js";
import { cases } from "./page.js";
import { part, sideWord } from "./parts.js";

export function wasCalled(detail) {
  const name = cases.was[detail.place];
  return name ? el("p.note", {}, `Called ${name} in the base; the graph means the same.`) : null;
}

// A line for each kind of note; what both sides say is said once.
export function noteList(detail) {
  const kinds = new Map();
  for (const [kind, side, said] of detail.notes) {
    const found = kinds.get(kind) || new Map();
    found.set(said, [...(found.get(said) || []), side]);
    kinds.set(kind, found);
  }
  const items = [...kinds].map(([kind, found]) => {
    const texts = [...found].map(([said, sides]) => (new Set(sides).size > 1
      ? `${SIDE_NAMES.join(" and ")}: ${said}` : `${sides[0]}: ${said}`));
    return el("li", {}, el("span.tag", {}, kind), " ", texts.join("; "));
  });
  return items.length ? el("ul.notes", {}, items) : null;
}

export function outcomes(detail) {
  const lines = detail.sides.map(outcome).filter(known);
  return lines.length ? part("What became of it", ...lines) : null;
}

function outcome(side, place) {
  if (!side) return el("p", {}, sideWord(place), "does not hold this case");
  const [status, reason, phase, last] = side.outcome;
  if (status === "completed") return null;
  const where = phase ? ` in ${phase.replace("_", " ")}` : "";
  const said = el("p", {}, sideWord(place), `${status}${where}${reason ? `: ${reason}` : ""}`);
  return el("div", {}, said, last ? el("pre", {}, last) : null);
}
