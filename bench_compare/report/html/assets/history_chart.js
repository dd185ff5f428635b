// One series over the builds: points with intervals, levels, events, accepted stretches.

import { changeText } from "./format.js";
import { builds, eventsOf, page } from "./history_data.js";
import { svg } from "./svg.js";

const EDGE = { left: 40, right: 6, top: 6, bottom: 14 };
const TONES = { slower: "bad", faster: "good", both: "odd", none: "fatal" };
const QUANTILE = 0.02, LEAST_SPAN = 1;

export const toneOf = (event) => TONES[event.direction];

// From the second lowest to the second highest hundredth; what lies outside is drawn at the edge.
function rangeOf(drawn) {
  const values = drawn.points.map((point) => point.percent).sort((a, b) => a - b);
  const at = (share) => values[Math.round(share * (values.length - 1))];
  const ends = drawn.levels.flatMap((level) => [level.from, level.to]);
  const low = Math.min(at(QUANTILE), ...ends), high = Math.max(at(1 - QUANTILE), ...ends);
  const room = Math.max(0.12 * (high - low), (LEAST_SPAN - (high - low)) / 2, 0.05);
  return [low - room, high + room];
}

function scales(drawn, width, height) {
  const [low, high] = rangeOf(drawn), count = builds.names.length;
  const inner = width - EDGE.left - EDGE.right;
  const x = (build) => EDGE.left + (inner * (build + 0.5)) / count;
  const clip = (value) => Math.max(low, Math.min(high, value));
  const y = (value) =>
    EDGE.top + ((high - clip(value)) / (high - low)) * (height - EDGE.top - EDGE.bottom);
  return { x, y, low, high, gap: inner / count };
}

const round = (value) => Math.round(10 * value) / 10;

function dots(points, at, unit) {
  const mine = points.filter((point) => Math.min(point.unit, 2) === unit);
  const path = mine.map((point) => `M${round(at.x(point.build))} ${round(at.y(point.percent))}h0`);
  return svg("path", { d: path.join(""), class: `dots unit-${unit}` });
}

function whiskers(points, at) {
  const path = points.filter((point) => point.half > 0).map((point) =>
    `M${round(at.x(point.build))} ${round(at.y(point.percent - point.half))}` +
    `V${round(at.y(point.percent + point.half))}`);
  return svg("path", { d: path.join(""), class: "whiskers" });
}

function levelMarks(drawn, at) {
  return drawn.levels.flatMap((level) => {
    const ends = [at.x(level.first) - at.gap / 3, at.x(level.last) + at.gap / 3];
    const top = at.y(level.high), height = Math.max(at.y(level.low) - top, 0.5);
    const box = { x: ends[0], y: top, width: ends[1] - ends[0], height, class: "sure" };
    const line = {
      x1: ends[0], x2: ends[1], y1: at.y(level.from), y2: at.y(level.to), class: "level",
    };
    return level.from === level.to ? [svg("rect", box), svg("line", line)] : [svg("line", line)];
  });
}

function backdrop(at, height) {
  const bands = page.bands.map(([first, last, kind, note]) => {
    const from = at.x(first) - at.gap / 2;
    const box = { x: from, y: EDGE.top, width: Math.max(at.x(last) + at.gap / 2 - from, 3) };
    const made = svg("rect", { ...box, height: height - EDGE.top - EDGE.bottom, class: "known" });
    made.append(svg("title", {}, [kind, note].filter(Boolean).join(": ")));
    return made;
  });
  const changed = Object.entries(builds.changes).map(([build, texts]) => {
    const x = at.x(Number(build));
    const made = svg("line", {
      x1: x, x2: x, y1: height - EDGE.bottom + 2, y2: height - EDGE.bottom + 8, class: "changed",
    });
    made.append(svg("title", {}, texts.join("\n")));
    return made;
  });
  return [...bands, ...changed];
}

function axis(at, width) {
  const near = 0.25 * (at.high - at.low);
  const middle = at.low + near < 0 && at.high - near > 0 ? [0] : [];
  const inset = 0.08 * (at.high - at.low);
  const values = [at.high - inset, ...middle, at.low + inset];
  return values.flatMap((value) => {
    const y = at.y(value), text = value === 0 ? "0" : changeText(1 + value / 100);
    return [
      svg("line", { x1: EDGE.left, x2: width - EDGE.right, y1: y, y2: y, class: "grid" }),
      svg("text", { x: EDGE.left - 4, y: y + 3, "text-anchor": "end", class: "label" }, text),
    ];
  });
}

function eventMarks(one, at, height) {
  return eventsOf(one).map((event) => {
    const x = at.x(event.build) - at.gap / 2;
    const ends = { x1: x, x2: x, y1: EDGE.top, y2: height - EDGE.bottom };
    const made = svg("g", { class: toneOf(event) }, svg("line", { ...ends, class: "step" }));
    made.append(svg("title", {}, `${event.sentence} ${event.size}`));
    return made;
  });
}

function hits(drawn, at, height, press) {
  return drawn.points.map((point) => {
    const made = svg("rect", {
      x: at.x(point.build) - Math.max(at.gap / 2, 2), y: EDGE.top, class: "hit",
      width: Math.max(at.gap, 4), height: height - EDGE.top - EDGE.bottom,
    });
    const text = `${builds.names[point.build]}: ${changeText(1 + point.percent / 100)}`;
    made.append(svg("title", {}, text));
    made.addEventListener("click", () => press(point));
    return made;
  });
}

// `press` hears of the point that was clicked; without it the chart is only looked at.
export function chart(one, { width = 320, height = 128, press = null } = {}) {
  const drawn = one.drawn, at = scales(drawn, width, height);
  const label = `${one.name}, ${one.engine}: ${drawn.points.length} documents, ` +
    `${drawn.levels.length} levels`;
  const made = svg("svg", {
    viewBox: `0 0 ${width} ${height}`, class: "history", role: "img", "aria-label": label,
  });
  const used = [...new Set(drawn.points.map((point) => Math.min(point.unit, 2)))];
  made.append(...backdrop(at, height), ...axis(at, width), ...eventMarks(one, at, height),
    whiskers(drawn.points, at), ...used.map((unit) => dots(drawn.points, at, unit)),
    ...levelMarks(drawn, at), ...(press ? hits(drawn, at, height, press) : []));
  return made;
}

export function sparkline(one) {
  const drawn = one.drawn, [low, high] = rangeOf(drawn);
  const count = Math.max(builds.names.length - 1, 1);
  const x = (build) => 2 + (156 * build) / count;
  const y = (value) => 3 + (20 * (high - Math.max(low, Math.min(high, value)))) / (high - low);
  const path = drawn.points.map((point, place) =>
    `${place ? "L" : "M"}${round(x(point.build))} ${round(y(point.percent))}`).join("");
  const made = svg("svg", { viewBox: "0 0 160 26", class: "spark history", "aria-hidden": "true" });
  made.append(svg("path", { d: path, class: "whiskers" }));
  made.append(...drawn.levels.map((level) => svg("line", {
    x1: x(level.first), x2: x(level.last) + 0.5, y1: y(level.from), y2: y(level.to), class: "level",
  })));
  return made;
}
