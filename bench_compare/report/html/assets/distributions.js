// What is known of the samples of a case. A series arrives as small integers:
// offset + step * integer nanoseconds.

import { page } from "./page.js";

export const sum = (values) => values.reduce((left, right) => left + right, 0);
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
  let above = shares.findIndex((known) => known >= share);
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
export function histogram(series, { values, shares: known }, edges) {
  const shares = new Array(edges.length - 1).fill(0), bin = binOf(edges);
  const end = edges[edges.length - 1];
  if (series.raw) {
    for (const value of values) if (value <= end) shares[bin(value)] += 1 / values.length;
    return shares;
  }
  for (let i = 1; i < values.length; i += 1) {
    const low = values[i - 1], high = values[i], mass = known[i] - known[i - 1];
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
