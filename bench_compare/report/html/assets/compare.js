// The page of a comparison: headline, news, what differs, groups, the table of cases. Several sides
// are columns of one row.

import {
  badge, byId, changeText, changeWithin, counted, differenceText, el, fill, intervalText, known,
  lookOf, NOTHING,
  number, page, plural, rowHead, sign, table, UNKNOWN, valueText,
} from "./base.js";
import {
  aboutText, badgeOf, cases, differenceOf, every, manySides, manyWords, metricTitle, placeOf,
  siblingsOf, SORTS, total, unitOf, verdictOf, word, wordsOf,
} from "./cases.js";
import { loadPlotly } from "./charts.js";
import { addressOf, followAddress, list, showCounts, showList, unfolding } from "./list.js";
import { addTip, ARRANGED, showCandidates, showOverview } from "./overview.js";
import { closeCase, openCase } from "./panel.js";

const DIRECTIONS = { lower: ["slower", "faster"], higher: ["faster", "slower"] };
const TONES = { slower: "bad", faster: "good" };
const FOOT = "Ratios are other / base: above 1 the other side's number is larger. " +
  "Samples are reduced for display (quantiles, and buckets with least, median and largest " +
  "sample); verdicts come from all samples. Everything on this page is inside this file.";

function showHead() {
  const alarm = (kind, title) => (said) =>
    el(`p.alarm${kind}`, {}, el("strong", {}, `${title}: `), said);
  byId("title").textContent = page.title;
  fill("alarms", page.problems.map(alarm(".fatal", "Error")), page.warnings.map(alarm("", "Note")));
  const said = [...page.movements, ...page.sensitivity].map((text) => el("p.note", {}, text));
  fill("suite", headlines(), said);
  showCounts(page.verdicts.map((verdict, rank) => [verdict, page.counts[rank]]));
  fill("foot", el("p", {}, FOOT));
}

// In a word, where the interval leaves no doubt.
function direction(suite) {
  const better = (page.metrics[suite.metric] || [])[2];
  const [up, down] = DIRECTIONS[better] || ["more", "less"];
  if (!known(suite.low)) return "";
  const limit = 1 + (page.threshold || 0);
  if (suite.low >= 1 / limit && suite.high <= limit) return "within the threshold";
  if (suite.low > 1) return up;
  return suite.high < 1 ? down : "";
}

function headlines() {
  const whole = page.suite.filter((suite) => suite.scope === "all");
  const gate = whole.filter((suite) => suite.metric === page.gate);
  const shown = (gate.length ? gate : whole).map(headline);
  if (shown.length) return el("div.headlines", {}, shown);
  const why = total ? "No case was measured on both sides." : "There is nothing to compare.";
  return el("p.headline.empty", {}, why);
}

// A number over a comparison that could not have seen anything would be taken for an answer; one
// without an interval says so itself.
function headline(suite) {
  if (page.blind.includes(suite.label) && known(suite.low)) return noAnswer(suite);
  const way = direction(suite), tone = TONES[way] || "none", change = changeWithin(suite);
  const mean = `geometric mean of ${plural(suite.count, "case")}`;
  return el("div.headline", {},
    manySides ? el("p.eyebrow.clip", { title: suite.label }, suite.label) : null,
    el("p.big", {}, change, el(`span.big-word.${tone}`, {}, change.endsWith(way) ? "" : way)),
    el("p.note", {}, `${metricTitle(suite.metric)}, ${mean}`),
    el("p.note", {}, suiteInterval(suite)));
}

function noAnswer(suite) {
  return el("div.headline", {},
    manySides ? el("p.eyebrow.clip", { title: suite.label }, suite.label) : null,
    el("p.big.no-answer", {}, "No answer on this machine"),
    el("p.note", {}, `${metricTitle(suite.metric)}, geometric mean of ` +
      `${plural(suite.count, "case")}: ${suiteInterval(suite)}`));
}

function suiteInterval({ low, high, unit }) {
  const text = intervalText(low, high);
  if (text === NOTHING) return NOTHING;
  if (known(low)) return `95 % interval ${text}`;
  return `no interval: ${unit === "summary" ? "summaries only" : `a single ${unit} a side`}`;
}

const FEW = 8;
function showNews() {
  fill("bad-news", badNews());
  fill("improvements", improvements());
  for (const id of ["bad-news", "improvements"]) byId(id).hidden = !byId(id).childElementCount;
}

function badNews() {
  if (!page.badNews.length) return null;
  return [el("h2", {}, "Bad news"), ...unfolding(page.badNews, newsItem, FEW)];
}

const tag = (said) => el("span.tag", {}, said);
const whyText = (place) => (word("why", place) ? ` (different ${word("why", place)})` : "");

function caseLink(place, name) {
  return [
    el("a", { href: addressOf(place) }, name), manySides ? tag(word("label", place)) : null,
  ];
}

function newsItem([id, verdict, name, sentence, allowed]) {
  const place = placeOf.get(id), ok = allowed ? tag("allowed") : null;
  if (place === undefined) return el("li", {}, badge(verdict), sentence, ok);
  return el("li", {}, badge(verdict), caseLink(place, name), ok,
    el("span.note.below", {}, sentence, whyText(place)));
}

const sizeOf = (place) => (known(cases.ratio[place]) ? Math.abs(Math.log(cases.ratio[place])) : 0);

function improvements() {
  const found = every.filter((place) => lookOf(verdictOf(place))[2] === "good")
    .sort((a, b) => sizeOf(b) - sizeOf(a) || a - b);
  if (!found.length) return null;
  return [el("h2", {}, "Improvements"), ...unfolding(found, improvementItem, FEW)];
}

function improvementItem(place) {
  const ratio = cases.ratio[place];
  const moved = differenceText(differenceOf(place), unitOf(place));
  const text = known(ratio) ? `${changeText(ratio)}, ${moved}` : "";
  return el("li", {}, badgeOf(place), caseLink(place, cases.name[place]),
    el("span.note.below", {}, text, whyText(place)));
}

// Facts that differ between any two runs.
const USUAL = new Set(["documents", "started", "tags"]);

function showCompared() {
  fill("differences", page.why ? el("p", {}, page.why) : null, differences());
  byId("differs").hidden = !byId("differences").childElementCount;
  fill("compared", compared());
}

function differences() {
  if (!page.differences.length) return null;
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
  const none = page.differences.length ? null
    : el("p.note", {}, "No setting, device or library that is checked differs.");
  return [
    none, table("facts", ["", ...heads], names.map(factRow)), ...notes(),
    asked.length ? judged : null,
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

function showGroups() {
  fill("groups", groups());
}

function groups() {
  const parts = page.suite.filter((suite) =>
    suite.scope !== "all" && (!page.gate || suite.metric === page.gate));
  if (parts.length < 2) return null;
  const heads = [
    "", ["cases", "number"], ["change", "number"], ["95 % interval", "number wide-only"],
  ];
  const rows = parts.map(groupRow);
  const title = el("summary", {}, "Geometric mean by family and engine");
  return el("details", { open: parts.length <= 12 }, title, table("groups", heads, rows));
}

function groupRow({ scope, label, name, count, low, ratio, high }) {
  const about = [scope === "weighted" ? "" : scope, manySides ? label : ""];
  return [
    rowHead(name, el("span.note", {}, ` ${about.filter(Boolean).join(", ")}`)),
    number(counted(count)), number(changeWithin({ low, ratio, high })),
    el("td.number.wide-only", {}, intervalText(low, high)),
  ];
}

const ONE_SIDE = [
  ["verdict", "news", ""], ["case", "name", ""], ["base", null, "number"],
  ["other", "time", "number"], ["difference", "difference", "number"],
  ["change", "ratio", "number"], ["95 % interval", null, "number"],
];
const SHARED = [["verdict", "news", ""], ["case", "name", ""], ["base", "time", "number"]];
const labels = (page.sides || []).slice(1).map((side) => side.label);

// The first case of each row in the order of the selection.
function leaders(places) {
  if (!manySides) return places;
  const seen = new Set();
  return places.filter((place) => {
    const first = !seen.has(cases.group[place]);
    seen.add(cases.group[place]);
    return first;
  });
}

const valueOf = (place, column) => {
  const value = cases[column][place];
  return known(value) ? valueText(value, unitOf(place)) : "";
};

function verdictCell(place) {
  return el("td.cell-verdict", {}, badgeOf(place));
}

function caseCell(place) {
  const about = ["family", "dtype", ...(manyWords("engine") ? ["engine"] : []), "variant"];
  const was = cases.was[place] ? `was ${cases.was[place]}` : null;
  const why = word("why", place);
  const more = [was, why ? `different ${why}` : null, word("notes", place)];
  return el("td.cell-case", {},
    el("a", { href: addressOf(place) }, cases.name[place]),
    el("span.note", {}, aboutText(place, about, more)));
}

const changeOf = (place) => changeWithin(
  { low: cases.low[place], ratio: cases.ratio[place], high: cases.high[place] });

const intervalOf = (place) =>
  (known(cases.low[place]) ? intervalText(cases.low[place], cases.high[place]) : null);

function row(place) {
  const moved = differenceText(differenceOf(place), unitOf(place));
  return el("tr", { "data-id": cases.id[place] },
    verdictCell(place), caseCell(place),
    el("td.number.cell-base", {}, valueOf(place, "base")),
    el("td.number.cell-other", {}, valueOf(place, "other")),
    el("td.number.cell-difference", {}, moved),
    el("td.number.cell-change", {}, changeOf(place)),
    el("td.number.cell-interval", {}, intervalOf(place)));
}

// One graph of the base, and what every other side made of it.
function wideRow(place) {
  const places = new Map(siblingsOf(place).map((one) => [word("label", one), one]));
  return el("tr", { "data-id": cases.id[place] },
    verdictCell(place), caseCell(place),
    el("td.number.cell-base", {}, valueOf(place, "base")),
    labels.map((label) => sideCell(places.get(label), label)));
}

function sideCell(place, label) {
  if (place === undefined) return el("td.cell-side", { "data-label": label }, "not compared");
  const verdict = verdictOf(place), value = valueOf(place, "other");
  const title = [verdict, value, intervalOf(place)].filter(Boolean).join(", ");
  const link = { href: addressOf(place), title, class: lookOf(verdict)[2] };
  return el("td.cell-side", { "data-label": label },
    el("a", link, sign(verdict), changeOf(place) || verdict));
}

// Notes that nearly all cases have are not repeated in each row.
function commonNotes() {
  const shown = new Set(every.flatMap((place) => word("notes", place).split(", ")));
  const common = Object.entries(page.noteKinds).filter(([kind]) => !shown.has(kind));
  const texts = common.map(([kind, count]) =>
    `${kind} in ${count === total ? "all" : `${counted(count)} of ${counted(total)}`} cases`);
  return texts.length ? `Notes on the samples: ${texts.join(", ")}.` : "";
}

function setList() {
  const sideHead = (label) => [el("span.side-name", {}, label), null, "cell-side"];
  byId("rows").classList.toggle("many", manySides);
  byId("list-title").textContent = "Cases";
  byId("common-notes").textContent = commonNotes();
  Object.assign(list, {
    ids: cases.id, words: wordsOf, stateOf: verdictOf, sorts: SORTS,
    start: { search: page.start.filter, sort: page.start.sort }, arranged: ARRANGED,
    heads: manySides ? [...SHARED, ...labels.map(sideHead)] : ONE_SIDE,
    rows: leaders, draw: manySides ? wideRow : row,
    said: (text, rows) => (manySides ? `${text} in ${plural(rows, "row")}` : text),
    open: openCase, closed: closeCase,
  });
}

// Everything that needs no chart first, then the charts once the whole page is there.
export function showComparison() {
  showHead();
  showNews();
  showCompared();
  showGroups();
  setList();
  showList();
  addTip();
  window.addEventListener("load", () => {
    showOverview();
    showCandidates();
    followAddress();
    document.documentElement.dataset.ready = String(Math.round(performance.now()));
    whenIdle(loadPlotly);
  });
}

// So that the first panel does not wait for it.
function whenIdle(act) {
  if (window.requestIdleCallback) requestIdleCallback(act, { timeout: 2000 });
  else setTimeout(act, 500);
}
