// The section of the panel on outputs held against a reference.

import { el, number, numbered, rowHead, scrolling, table } from "./dom.js";
import { counted, known, plural, significant, UNKNOWN } from "./format.js";
import { bothSides, part, sideWord } from "./parts.js";

const BYTES = new Map([
  [null, ""], [true, ", the same bytes each time"], [false, ", not the same bytes each time"],
]);
const HEADS = ["output", "elements", "wrong", "max abs", "max rel", "rel. L2", "rtol", "atol"];

function errorText(value) {
  if (!known(value)) return UNKNOWN;
  return typeof value === "string" ? value : significant(value, 3);
}

// What both sides found alike is said once.
export function validationSection(detail) {
  const shown = bothSides(detail, (side) => side.validation);
  if (!shown.some(known)) return null;
  if (JSON.stringify(shown[0]) === JSON.stringify(shown[1])) {
    return part("Validation", sideValidation(shown[0], el("strong", {}, "base and other: ")));
  }
  const parts = shown.map((one, place) => (one ? sideValidation(one, sideWord(place)) : null));
  return part("Validation", ...parts.filter(known));
}

function sideValidation(one, who) {
  const checked = `; ${plural(one.checked, "timed iteration")} checked, ${one.wrong} wrong`;
  const timed = one.checked ? checked + BYTES.get(one.deterministic) : "";
  const against = ["unknown", "none"].includes(one.reference) ? "" : ` against ${one.reference}`;
  const why = one.reason ? ` (${one.reason})` : "";
  const rows = one.outputs.map(outputRow);
  return el("div", {},
    el("p", {}, who, `${one.status}${against}${timed}`, why),
    rows.length ? scrolling(table("plain", numbered(HEADS), rows)) : null,
    ...one.outputs.filter((output) => output[10].length).map(worstTable));
}

function outputRow([name, dtype, elements, wrong, ...rest]) {
  return [
    rowHead(name, el("span.note", {}, dtype === "unknown" ? "" : ` ${dtype}, ${rest[5]}`)),
    number(counted(elements)), number(counted(wrong)),
    ...rest.slice(0, 5).map((value) => number(errorText(value))),
  ];
}

function worstTable(output) {
  const rows = output[10].map(([index, expected, actual]) =>
    [`[${index.join(", ")}]`, errorText(expected), errorText(actual)].map(number));
  const heads = ["index", "expected", "actual"].map((head) => [head, "number"]);
  const made = table("plain", heads, rows);
  made.prepend(el("caption", {}, `Worst mismatches of ${output[0]}`));
  return made;
}
