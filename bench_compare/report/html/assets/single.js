// The page of one run: its cases with their times, rates and validation, and what part of the whole
// each takes.

import {
  badge, byId, el, fill, known, lookOf, page, percentText, plural, rowHead, sum, table,
  valueText,
} from "./base.js";
import {
  aboutText, cases, every, manyWords, SORTS, total, verdictOf, word, wordsOf,
} from "./cases.js";
import { loadPlotly } from "./charts.js";
import { addressOf, followAddress, list, showCounts, showList } from "./list.js";
import { showCandidates } from "./overview.js";
import { closeCase, openCase } from "./panel.js";

const HEADS = [
  ["outcome", "news", ""], ["case", "name", ""], ["time", "time", "number"],
  ["95 % CI", null, "number"], ["achieved", null, "number"], ["validation", null, ""],
  ["share of the time", null, "interval"],
];
const { news, name, family, time, document: asMeasured } = SORTS;
const times = total ? every.map((place) => cases.base[place] || 0) : [];
const whole = sum(times);

function showHead() {
  const alarm = (kind, title) => (text) =>
    el(`p.alarm${kind}`, {}, el("strong", {}, `${title}: `), text);
  byId("title").textContent = page.title;
  byId("about").textContent = page.about;
  fill("alarms", page.problems.map(alarm(".fatal", "Error")), page.warnings.map(alarm("", "Note")));
  fill("suite", el("p.big", {}, plural(total, "case")),
    whole ? el("p.note", {}, `${valueText(whole, "ns")} one after the other`) : null, strip());
  showCounts(page.verdicts.map((verdict, rank) => [verdict, page.counts[rank]]));
  byId("differs-title").textContent = "Notes";
  const items = page.notes.map((text) => el("li", {}, text));
  fill("differences", items.length ? el("ul.note", {}, items) : el("p.note", {}, "None."));
  byId("compared-title").textContent = "What ran";
  fill("compared", table("facts", [], page.facts.map(([fact, text]) => [rowHead(fact), text])));
  fill("foot", el("p", {}, "Samples are reduced for display (quantiles, and buckets with least, " +
    "median and largest sample). Everything on this page is inside this file."));
}

// All cases one after the other, as they stand in the document.
function strip() {
  if (!whole) return null;
  const label = `${plural(total, "case")} one after the other; the table has their times`;
  return el("p.strip", { role: "img", "aria-label": label }, every.map((place) => {
    const box = el("span.step-layer", {
      title: `${cases.name[place]}: ${valueText(cases.base[place], "ns")}`,
    });
    box.style.width = `${(100 * times[place]) / whole}%`;
    return box;
  }));
}

function shareBar(place) {
  const track = el("span.step-track"), bar = el("span.step-bar.step-layer");
  bar.style.left = "0";
  bar.style.width = `${(100 * times[place]) / whole}%`;
  track.append(bar);
  return [track, el("span.note", {}, percentText(times[place] / whole))];
}

// The wider half of the interval, as a share of the time.
function marginText(place) {
  const [value, low, high] = ["base", "low", "high"].map((column) => cases[column][place]);
  if (!known(low) || !value) return "";
  return `±${percentText(Math.max(high - value, value - low) / value)}`;
}

function row(place) {
  const about = ["family", "dtype", ...(manyWords("engine") ? ["engine"] : []), "variant"];
  const checked = word("validation", place);
  const [rate, ...rates] = cases.achieved[place];
  return el("tr", { "data-id": cases.id[place] },
    el("td.cell-verdict", {}, badge(verdictOf(place))),
    el("td.cell-case", {},
      el("a", { href: addressOf(place) }, cases.name[place]),
      el("span.note", {}, aboutText(place, about, [word("notes", place)]))),
    el("td.number.cell-change", {}, times[place] ? valueText(cases.base[place], "ns") : ""),
    el("td.number.cell-difference", {}, marginText(place)),
    el("td.number.cell-rate", {}, rate, el("span.note.block", {}, rates.join(", "))),
    el(`td.cell-checked.${lookOf(checked)[2]}`, {}, checked),
    el("td.cell-interval", {}, times[place] ? shareBar(place) : null));
}

export function showRun() {
  showHead();
  byId("list-title").textContent = "Cases";
  Object.assign(list, {
    ids: cases.id, words: wordsOf, stateOf: verdictOf,
    sorts: {
      document: asMeasured, time, name, family, news: ["outcome", news[1]],
    },
    start: { search: page.start.filter, sort: "document" }, arranged: [""], stateKey: "outcome",
    heads: HEADS, draw: row, open: openCase, closed: closeCase,
  });
  showList();
  window.addEventListener("load", () => {
    showCandidates();
    followAddress();
    document.documentElement.dataset.ready = String(Math.round(performance.now()));
    setTimeout(loadPlotly, 500);
  });
}
