// Facts of a case: unpacked from its block when the first case of that block is opened.

import { sum } from "./distributions.js";
import { byId } from "./dom.js";
import { known } from "./format.js";
import { page } from "./page.js";
import { seriesOf } from "./series.js";

const blocks = new Map();
const CHECKED = [
  "status", "reference", "reason", "checked", "wrong", "deterministic", "outputs",
];
const NUMBERS = 7; // of a metric: base, other, ratio, its interval's ends, q, threshold

export async function detailOf(place) {
  const number = Math.floor(place / page.chunk);
  if (!blocks.has(number)) blocks.set(number, unpacked(byId(`block-${number}`).textContent));
  const [block, integers] = await blocks.get(number), at = place % page.chunk;
  return {
    ...entriesOf(block.cases, at),
    series: seriesOf(block.series, integers, at),
    sides: [2 * at, 2 * at + 1].map((row) => sideOf(block, row)),
    metrics: metricsOf(block.metrics, at),
  };
}

// An entry of each column.
const entriesOf = (columns, row) =>
  Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, column[row]]));

const isEmpty = (value) =>
  !known(value) || value === "" || (typeof value === "object" && !Object.keys(value).length);

// What a side has to tell; null where the case is not on it.
function sideOf({ sides, readings }, row) {
  const { columns, same } = sides;
  if (!known(columns.name) || !known(columns.name[row])) return null;
  const told = Object.entries({ ...same, ...entriesOf(columns, row) });
  const side = Object.fromEntries(told.filter(([, value]) => !isEmpty(value)));
  if (side.rounds) side.rounds = roundsOf(readings, roundsBefore(sides, row), side.rounds);
  if (side.validation) {
    const values = CHECKED.map((name, at) => [name, side.validation[at]]);
    side.validation = Object.fromEntries(values);
  }
  return side;
}

// Of the sides before one; of all without it.
function roundsBefore({ columns, same }, row) {
  const names = columns.name || [];
  return sum(columns.rounds ? columns.rounds.slice(0, row)
    : names.slice(0, row).filter(known).map(() => same.rounds || 0));
}

// Rounds, each with its cut and, where a device told them, clock before and after, power and
// temperature.
const roundsOf = (readings, first, count) => Array.from({ length: count }, (_, round) =>
  readings.map((values) => maybe(values[first + round], (value) => Math.round(10 * value) / 10)));

const maybe = (value, read = (same) => same) => (Number.isFinite(value) ? read(value) : null);

// The metrics that the case has, in the order of tables.
function metricsOf(columns, at) {
  return Object.entries(columns).filter(([, column]) => column.units[at]).map(([name, column]) => {
    const [base, other, ratio, low, high, q, threshold] =
      column.numbers.map((values) => maybe(values[at]));
    const [left, right, unit, provisional, needed] = column.units[at];
    const verdict = page.verdicts[column.verdicts[at]];
    const reason = column.reasons[at];
    return {
      name, base, other, ratio, low, high, q, threshold, verdict, reason, left, right, unit,
      provisional, needed,
    };
  }).filter((metric) => known(metric.base) || known(metric.other));
}

// The JSON of a block with its numbers, and the bytes of its integers.
async function unpacked(text) {
  if (typeof DecompressionStream === "undefined") {
    throw new Error("this browser cannot unpack the details (it has no DecompressionStream)");
  }
  const [json, integers, floats] = await Promise.all(text.split(" ").map(inflated));
  return [withNumbers(JSON.parse(await json.text()), await floats.arrayBuffer()),
    new Uint8Array(await integers.arrayBuffer())];
}

// The columns of numbers come metric by metric, then those of all rounds.
function withNumbers(block, bytes) {
  const floats = floatsOf(new Uint8Array(bytes));
  let first = 0;
  const columns = (count, length) => Array.from({ length: count }, () => {
    first += length;
    return floats.subarray(first - length, first);
  });
  const { length } = block.cases.reason, rounds = roundsBefore(block.sides);
  for (const metric of Object.values(block.metrics)) metric.numbers = columns(NUMBERS, length);
  return { ...block, readings: columns(block.readings, rounds) };
}

// Of four planes, the first with the lowest byte of each number.
function floatsOf(planes) {
  const count = planes.length / 4, bytes = new Uint8Array(planes.length);
  for (let at = 0; at < planes.length; at += 1) {
    bytes[4 * (at % count) + Math.floor(at / count)] = planes[at];
  }
  return new Float32Array(bytes.buffer);
}

function inflated(text) {
  const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate")));
}
