// The page of a history: events with their size and likely causes, series over the builds; all
// charts are drawn by our own code, when they come into view.

import {
  badge, byId, changeText, commandLine, counted, el, fill, intervalText, known, number, page,
  percentText, scrolling, svg, table, valueText,
} from "./base.js";
import {
  addressOf, followAddress, list, onSelection, panelHead, setPanel, showCounts, showList, state,
} from "./list.js";

const builds = page.builds;
const held = page.kind === "history" ? page : { events: [], series: [] };
const { events } = held;
const STEPS = 1e4;

// Points travel as logarithms over the last level, in steps of 0.01 %.
function decoded(one) {
  const value = (step) => one.reference * Math.exp(step / STEPS);
  const points = one.steps.map((step, at) => ({
    build: one.builds ? one.builds[at] : at,
    value: value(step),
    percent: 100 * (Math.exp(step / STEPS) - 1),
    half: 100 * (Math.exp(one.halves[at] / STEPS) - 1),
    unit: one.units ? one.units[at] : 0,
  }));
  const percent = (level) => 100 * (level / one.reference - 1);
  const levels = one.levels.map(([first, last, level, low, high, end]) => ({
    first, last, level, low: percent(low), high: percent(high), from: percent(level),
    to: percent(end === null ? level : end),
  }));
  return { ...one, levels, points };
}

const series = held.series.map((one, place) => {
  let drawn = null;
  return { ...one, place, get drawn() { return (drawn ||= decoded(one)); } };
});
const eventsOf = (one) =>
  events.filter((event) => event.changes.some(([place]) => place === one.place));

const buildName = (place) => builds.names[place] || "";

const SIGNS = { slower: "▲", faster: "▼", both: "◆", none: "✕" };
const eventSign = (event) =>
  el(`span.sign.${toneOf(event)}`, { "aria-hidden": "true" }, SIGNS[event.direction]);

const EDGE = { left: 40, right: 6, top: 6, bottom: 14 };
const TONES = { slower: "bad", faster: "good", both: "odd", none: "fatal" };
const QUANTILE = 0.02, LEAST_SPAN = 1;

const toneOf = (event) => TONES[event.direction];

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
function chart(one, { width = 320, height = 128, press = null } = {}) {
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

function sparkline(one) {
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

function showHead() {
  byId("title").textContent = page.title;
  fill("alarms", page.problems.map((text) => el("p.alarm.fatal", {}, text)),
    page.remarks.map((text) => el("p.alarm", {}, text)));
  showCounts(Object.entries(page.counts));
  const about = "Newest build against the last accepted level";
  fill("suite", el("p.note", {}, about));
  byId("noise").textContent = page.noise;
  byId("next-section").hidden = !page.suggestions.length;
  fill("next", page.suggestions.map(commandLine));
  fill("foot", el("p", {}, `${page.title}, ${page.about}`));
}

const FEW_EVENTS = 20, MOST_CHANGES = 12, MOST_CAUSES = 6;
const ORDERS = {
  cost: (a, b) => b.gates - a.gates || b.cost - a.cost || b.build - a.build,
  build: (a, b) => b.build - a.build || b.cost - a.cost,
};
let shown = FEW_EVENTS, order = "cost";

function changeLine([place, ratio, text, old, fresh]) {
  const one = series[place];
  const values = old === null ? "" :
    ` ${valueText(old, page.unit)} → ${valueText(fresh, page.unit)}`;
  return el("li", {}, el("strong", {}, text || changeText(ratio)), " ",
    el("a", { href: addressOf(one.place) }, one.name), ` ${one.engine} ${one.variant}`,
    el("span.note", {}, values));
}

function linkOf({ link }) {
  if (!link || !/^https?:/.test(link)) return "";
  return el("a", { href: link, rel: "noreferrer" }, link);
}

function factsOf(event) {
  const said = event.state ? el(event.gates ? "span.gate" : "span.tag", {}, event.state) : "";
  const cost = event.costText ? el("span.note", {}, ` ${event.costText} for the suite`) : "";
  return el("p", {}, el("strong", {}, event.size), event.size ? " " : "", said, cost);
}

function detailsOf(event) {
  const more = event.changes.length - MOST_CHANGES;
  return [
    el("ul", {}, event.changes.slice(0, MOST_CHANGES).map(changeLine),
      more > 0 ? el("li.note", {}, `and ${counted(more)} more`) : ""),
    event.suggestions.length
      ? el("details", {}, el("summary", {}, "Command lines"), event.suggestions.map(commandLine))
      : "",
  ];
}

function eventBlock(event, full = true) {
  const accepted = event.known
    ? el("p.note", {}, event.known.note || "accepted", " ", linkOf(event.known)) : "";
  const why = event.causes.length
    ? el("p.note", {}, "Why? ", event.causes.slice(0, MOST_CAUSES).join(" · ")) : "";
  return el("div.event", { id: full ? event.id : null },
    el("h3", {}, eventSign(event), event.sentence), factsOf(event), accepted, why,
    full ? detailsOf(event) : "");
}

function draw() {
  const sorted = [...events].sort(ORDERS[order]);
  fill("events", sorted.length ? sorted.slice(0, shown).map((event) => eventBlock(event))
    : el("p.empty", {}, "Nothing stepped."));
  const left = sorted.length - shown;
  byId("more-events").hidden = left <= 0;
  byId("more-events").textContent = `Show ${Math.min(left, FEW_EVENTS)} more of ${counted(left)}`;
}

function showEvents() {
  draw();
  byId("event-order").addEventListener("change", (event) => {
    order = event.target.value;
    draw();
  });
  byId("more-events").addEventListener("click", () => {
    shown += FEW_EVENTS;
    draw();
  });
}

// Scrolls to an event that an address names; false where it names none.
function openEvent(id) {
  if (!events.some((event) => event.id === id)) return false;
  if (!byId(id)) {
    shown = events.length;
    draw();
  }
  for (const one of document.querySelectorAll(".event.named")) one.classList.remove("named");
  byId(id).classList.add("named");
  byId(id).scrollIntoView({ block: "center" });
  return true;
}

const compared = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
const byName = (a, b) => compared(a.name, b.name) || a.place - b.place;
const RANK = ["slower", "unclear", "faster", "same", "absent"];
const rank = (one) => RANK.indexOf(one.shown);
const moved = (one) => Math.abs(Math.log(one.accepted || 1));
const newest = new Map();
for (const event of events) {
  for (const [place] of event.changes) {
    newest.set(place, Math.max(newest.get(place) ?? -1, event.build));
  }
}
const lastEvent = (one) => newest.get(one.place) ?? -1;

const SORTS = {
  state: ["state", (a, b) => rank(a) - rank(b) || moved(b) - moved(a) || byName(a, b)],
  change: ["change", (a, b) => (b.accepted || 1) - (a.accepted || 1) || byName(a, b)],
  event: ["newest event", (a, b) => lastEvent(b) - lastEvent(a) || byName(a, b)],
  spread: ["spread", (a, b) => (b.spread || 0) - (a.spread || 0) || byName(a, b)],
  name: ["name", byName],
  family: ["family", (a, b) => compared(a.family, b.family) || byName(a, b)],
};
const SORTED = Object.fromEntries(Object.entries(SORTS).map(([name, [title, by]]) =>
  [name, [title, (a, b) => by(series[a], series[b])]]));

const wordsOf = (place) => ["name", "family", "engine", "variant", "dtype", "shown"]
  .map((name) => series[place][name]);

const HEADS = [
  ["state", "state", ""], ["series", "name", ""], ["last level", null, "number"],
  ["change", "change", "number"], ["spread", "spread", "number"], ["over the builds", null, ""],
];
const drawers = new Map();
const seen = typeof IntersectionObserver === "undefined" ? null
  : new IntersectionObserver((entries) => {
    for (const entry of entries.filter((one) => one.isIntersecting)) {
      seen.unobserve(entry.target);
      drawers.get(entry.target)();
    }
  }, { rootMargin: "300px" });

// Drawn when it comes into view: an archive may have thousands of series.
function lazily(holder, make) {
  const fillIn = () => holder.replaceChildren(make());
  if (!seen) fillIn();
  else {
    drawers.set(holder, fillIn);
    seen.observe(holder);
  }
  return holder;
}

const changeOf = (one) =>
  (/slower|faster/.test(one.shown) && known(one.accepted) ? changeText(one.accepted) : "");

function row(place) {
  const one = series[place];
  const about = [one.family, one.engine, one.variant, one.settings].filter(Boolean).join(" · ");
  const reference = one.steps.length ? valueText(one.reference, page.unit) : "";
  return el("tr", { "data-id": one.id },
    el("td.cell-verdict", {}, badge(one.shown)),
    el("td.cell-case", {}, el("a", { href: addressOf(one.place) }, one.name),
      el("span.note", {}, about)),
    el("td.number.cell-number", {}, reference),
    el("td.number.cell-change", {}, changeOf(one)),
    el("td.number.cell-number", {}, known(one.spread) ? `±${percentText(one.spread)}` : ""),
    lazily(el("td.cell-spark"), () => (one.steps.length ? sparkline(one) : "")));
}

function small(one) {
  const holder = lazily(el("div.holder"), () => chart(one));
  return el("figure.small", {},
    el("figcaption", {}, el("a", { href: addressOf(one.place) }, one.name),
      el("span.note", {}, ` ${one.engine} ${one.variant}`),
      el("strong", {}, ` ${changeOf(one)}`)), holder);
}

function charts() {
  const drawable = state.shown.map((place) => series[place])
    .filter((one) => one.steps.length);
  const families = [...new Set(drawable.map((one) => one.family))];
  fill("charts", families.map((family) => [
    el("h3.family", {}, family),
    el("div.charts", {}, drawable.filter((one) => one.family === family).map(small)),
  ]));
}

const LEGEND = "Change against the last level. Points: documents with the 95 % interval of their " +
  "rounds. Lines: levels with theirs. Dashed: events. Grey: accepted. " +
  "Small marks below: a changed environment.";

const NARROW = 640;

function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\"'\"'")}'`;
}

// Of a point: its document, and the command that holds it against the one before.
function pointText(one, point) {
  const before = [...one.drawn.points].reverse().find((other) => other.build < point.build);
  const paths = builds.documents[point.build], changes = builds.changes[point.build] || [];
  const words = before ? ["bench-compare", builds.documents[before.build].at(-1), paths[0],
    "--all", "--filter", one.name] : null;
  return el("div.event", {},
    el("h3", {}, buildName(point.build)),
    el("p", {}, `${valueText(point.value, page.unit)}, ${changeText(1 + point.percent / 100)} ` +
      "against the last level"),
    el("p.note", {}, paths.join(", ")),
    changes.length ? el("p.note", {}, `Changed here: ${changes.join(" · ")}`) : "",
    words ? commandLine(["against the document before", words.map(quoted).join(" ")]) : "");
}

function levelTable(one) {
  const rows = one.drawn.levels.map((level) => [
    `${buildName(level.first)} to ${buildName(level.last)}`,
    number(valueText(level.level, page.unit)),
    number(intervalText(1 + level.low / 100, 1 + level.high / 100)),
  ]);
  const heads = ["builds", ["level", "number"], ["95 %, against the last", "number"]];
  return scrolling(table("plain", heads, rows));
}

// In the units of its text: a chart that is shrunk to a telephone cannot be read.
function chartSize() {
  return innerWidth < NARROW ? { width: 360, height: 240 } : { width: 820, height: 300 };
}

function content(one) {
  const point = el("div");
  const press = (pressed) => point.replaceChildren(pointText(one, pressed));
  const spread = one.spread ? `spread between documents ±${percentText(one.spread)}` : "";
  return [
    panelHead(one.place, badge(one.shown), one.name,
      [one.family, one.engine, one.variant, one.dtype, one.settings, spread]
        .filter(Boolean).join(" · ")),
    one.steps.length ? chart(one, { ...chartSize(), press })
      : el("p.empty", {}, "No document has a time of it."),
    el("p.note", {}, "Press a point for its document."), point,
    el("h3", {}, "Levels"), levelTable(one),
    el("h3", {}, "Events"), eventsOf(one).map((event) => eventBlock(event, false)),
  ];
}

// Shows the series or scrolls to the event that an address names.
function open(place, id) {
  if (place !== undefined) setPanel(content(series[place]));
  else openEvent(id);
}

export function showHistory() {
  showHead();
  showEvents();
  byId("list-title").textContent = "Series";
  byId("legend").textContent = LEGEND;
  Object.assign(list, {
    ids: series.map((one) => one.id), noun: ["series", "series"], words: wordsOf,
    stateOf: (place) => series[place].shown, sorts: SORTED, start: { search: "", sort: "state" },
    stateKey: "state", openKey: "show", arranged: [""], heads: HEADS, draw: row, open,
  });
  onSelection(charts);
  showList();
  followAddress();
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}
