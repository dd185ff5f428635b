// Facts of a case: unpacked from its block when the first case of that block is opened.

import { byId } from "./dom.js";
import { known } from "./format.js";
import { page } from "./page.js";
import { seriesOf } from "./series.js";

const blocks = new Map();

export async function detailOf(place) {
  const number = Math.floor(place / page.chunk);
  if (!blocks.has(number)) blocks.set(number, unpacked(byId(`block-${number}`).textContent));
  const [block, bytes] = await blocks.get(number), at = place % page.chunk;
  return {
    ...entriesOf(block.cases, at),
    series: seriesOf(block.series, bytes, at),
    sides: [2 * at, 2 * at + 1].map((row) => sideOf(block.sides, row)),
    metrics: metricsOf(block.metrics, at),
  };
}

// An entry of each column.
const entriesOf = (columns, row) =>
  Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, column[row]]));

const isEmpty = (value) =>
  !known(value) || value === "" || (typeof value === "object" && !Object.keys(value).length);

// What a side has to tell; null where the case is not on it.
function sideOf(columns, row) {
  if (!known(columns.name[row])) return null;
  const told = Object.entries(entriesOf(columns, row)).filter(([, value]) => !isEmpty(value));
  return Object.fromEntries(told);
}

// The metrics that the case has, in the order of tables.
function metricsOf(columns, at) {
  return Object.entries(columns).filter(([, column]) => column.units[at]).map(([name, column]) => {
    const [base, other, ratio, low, high, q, threshold] = column.numbers[at];
    const [left, right, unit, provisional, needed] = column.units[at];
    const verdict = page.verdicts[column.verdicts[at]];
    const reason = column.reasons[at];
    return {
      name, base, other, ratio, low, high, q, threshold, verdict, reason, left, right, unit,
      provisional, needed,
    };
  }).filter((metric) => known(metric.base) || known(metric.other));
}

// The JSON of a block, and the bytes of its integers.
async function unpacked(text) {
  if (typeof DecompressionStream === "undefined") {
    throw new Error("this browser cannot unpack the details (it has no DecompressionStream)");
  }
  const [json, integers] = await Promise.all(text.split(" ").map(inflated));
  return [JSON.parse(await json.text()), new Uint8Array(await integers.arrayBuffer())];
}

function inflated(text) {
  const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate")));
}
