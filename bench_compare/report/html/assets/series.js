// The samples of a case, from the integers of its block. They come in groups of series that are
// alike; a group has columns, and a column so many integers for each series. All their lowest bytes
// come first, then all second ones, as many as the largest integer has.

import { sum } from "./distributions.js";

const sizeOf = (group) => group.of.length * sum(Object.values(group.widths));

// By the name of the series, then by side: 0 base, 1 other.
export function seriesOf(groups, bytes, at) {
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
