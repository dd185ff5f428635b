// The details of a case: unpacked from its block when the first case of that block is opened, with
// its samples, of which all or quantiles and buckets travel.

import { byId, el, known, page, sum } from "./base.js";
import { SIDE_NAMES } from "./charts.js";

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
    sides: SIDE_NAMES.map((_, side) => sideOf(block, 2 * at + side)),
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
  if (side.rounds) side.rounds = readingsOf(readings, roundsBefore(sides, row), side.rounds);
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
const readingsOf = (readings, first, count) => Array.from({ length: count }, (_, round) =>
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

// Samples come in groups of series that are alike; a group has columns, and a column so many
// integers for each series. All their lowest bytes come first, then all second ones, as many as the
// largest integer has.
const sizeOf = (group) => group.of.length * sum(Object.values(group.widths));

// By the name of the series, then by side: 0 base, 1 other.
function seriesOf(groups, bytes, at) {
  const found = {}, count = sum(groups.map(sizeOf));
  let first = 0;
  for (const group of groups) {
    for (const [row, [place, name, side]] of group.of.entries()) {
      if (place !== at) continue;
      const columns = columnsOf(group, row, first, (begin, width) =>
        integersOf(bytes, count, begin, width));
      const { n, docs, buckets, offset, step } = group;
      const one = { n, docs, buckets, offset: offset[row], step: step[row], ...columns };
      found[name] = { ...found[name], [side]: one };
    }
    first += sizeOf(group);
  }
  return found;
}

function columnsOf(group, row, first, read) {
  let begin = first;
  return Object.fromEntries(Object.entries(group.widths).map(([name, width]) => {
    const values = read(begin + row * width, width);
    begin += group.of.length * width;
    return [name, values];
  }));
}

function integersOf(bytes, count, begin, width) {
  const planes = bytes.length / count;
  return Array.from({ length: width }, (_, i) => {
    let value = 0;
    for (let plane = planes - 1; plane >= 0; plane -= 1) {
      value = 256 * value + bytes[plane * count + begin + i];
    }
    return value;
  });
}

export const countOf = (series) => sum(series.n);
export const nanoseconds = (series, integer) => series.offset + series.step * integer;

// Values from least to largest (ns), and the share of the samples at or below each: all samples
// where they are here, else quantiles.
export function distributionOf(series) {
  if (series.raw) {
    const values = series.raw.map((integer) => nanoseconds(series, integer)).sort((a, b) => a - b);
    const last = values.length - 1;
    return { values, shares: values.map((_, i) => (last > 0 ? i / last : 1)) };
  }
  let integer = 0;
  const values = series.q.map((step) => nanoseconds(series, (integer += step)));
  return { values, shares: page.shares[series.q.length] };
}

export function quantile({ values, shares }, share) {
  let above = shares.findIndex((one) => one >= share);
  if (above < 0) above = shares.length - 1;
  if (above === 0) return values[0];
  const part = (share - shares[above - 1]) / (shares[above] - shares[above - 1]);
  return values[above - 1] + part * (values[above] - values[above - 1]);
}

export function shareBeyond({ values, shares }, limit) {
  const last = values.findIndex((value) => value > limit);
  return last <= 0 ? 0 : 1 - shares[last - 1];
}

function binOf(edges) {
  return (value) => {
    let low = 0, high = edges.length - 2;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (edges[middle] <= value) low = middle;
      else high = middle - 1;
    }
    return low;
  };
}

// Share of the samples in each bin. Between two quantiles the samples are taken as evenly spread.
export function histogram(series, { values, shares: ends }, edges) {
  const shares = new Array(edges.length - 1).fill(0), bin = binOf(edges);
  const end = edges[edges.length - 1];
  if (series.raw) {
    for (const value of values) if (value <= end) shares[bin(value)] += 1 / values.length;
    return shares;
  }
  for (let i = 1; i < values.length; i += 1) {
    const low = values[i - 1], high = values[i], mass = ends[i] - ends[i - 1];
    if (low >= end) break;
    const first = bin(low), last = bin(high);
    for (let k = first; k <= last; k += 1) {
      const from = k === first ? low : edges[k], to = Math.min(high, edges[k + 1]);
      shares[k] += high > low ? mass * Math.max(to - from, 0) / (high - low) : mass;
    }
  }
  return shares;
}

// Medians of the rounds (ns), and which document each round is of.
export function roundsOf(series) {
  const documents = series.docs || [series.n.length];
  const owners = documents.flatMap((count, document) => new Array(count).fill(document));
  return series.mids.map((integer, round) =>
    ({ value: nanoseconds(series, integer), document: owners[round], round }));
}

// Of each document the geometric mean of its rounds, which is what is compared.
export function documentsOf(series) {
  const found = new Map();
  for (const { value, document } of roundsOf(series)) {
    found.set(document, [...(found.get(document) || []), Math.log(value)]);
  }
  return [...found].map(([document, logs]) =>
    ({ value: Math.exp(sum(logs) / logs.length), document }));
}

// Pieces that several sections of the panel are made of.

export const part = (title, ...children) =>
  el("section.part", {}, el("h3", {}, title), ...children);
export const sideWord = (place) => el("strong", {}, `${SIDE_NAMES[place]}: `);
export const bothSides = (detail, read) => detail.sides.map((side) => (side ? read(side) : null));

// What both sides have to say, as one line; null where neither knows.
export function sidesText(values, say) {
  const said = values.map((value, place) =>
    (known(value) ? say(SIDE_NAMES[place], value) : null));
  return said.filter(known).join(", ") || null;
}

export const metricOf = (detail, name) =>
  detail.metrics.find((metric) => metric.name === name) || null;

// Base and other of a metric; nulls where the case does not have it.
export function valuesOf(detail, name) {
  const metric = metricOf(detail, name);
  return metric ? [metric.base, metric.other] : [null, null];
}

