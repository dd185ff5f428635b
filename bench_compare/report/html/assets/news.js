// Bad news, and beside it the largest improvements.

import { badge, el, fill } from "./dom.js";
import { changeText, differenceText, known, plural } from "./format.js";
import { lookOf } from "./looks.js";
import {
  cases, differenceOf, every, manySides, page, placeOf, total, unitOf, verdictOf, word,
} from "./page.js";
import { addressOf } from "./selection.js";

const FEW = 8;
const folded = [];

export function showNews() {
  fill("bad-news", badNews());
  fill("improvements", improvements());
  window.addEventListener("beforeprint", () => folded.splice(0).forEach((unfold) => unfold()));
}

function badNews() {
  if (page.badNews.length) return [el("h2", {}, "Bad news"), ...listed(page.badNews, newsItem)];
  if (!total || page.problems.length) return null;
  const title = el("h2", {}, "Bad news");
  if (page.blind.length) {
    const none = "None was found, and little could have been: see what the result above says.";
    return [title, el("p", {}, none)];
  }
  const seen = page.sensitivity.map((text) => el("p.note", {}, text));
  return [title, el("p.calm", {}, "✓ No bad news."), seen];
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
  if (!total) return null;
  const list = found.length ? listed(found, improvementItem) : [el("p.note", {}, "None.")];
  return [el("h2", {}, "Improvements"), ...list];
}

function improvementItem(place) {
  const ratio = cases.ratio[place];
  const moved = differenceText(differenceOf(place), unitOf(place));
  const text = known(ratio) ? `${changeText(ratio)}, ${moved}` : "";
  return el("li", {}, badge(verdictOf(place), Boolean(cases.provisional[place])),
    caseLink(place, cases.name[place]),
    el("span.note.below", {}, text, whyText(place)));
}

// A list that shows its first rows and a button for the rest; on paper there is no button.
function listed(items, make) {
  const list = el("ul.news", {}, items.slice(0, FEW).map(make));
  if (items.length <= FEW) return [list];
  const button = el("button.quiet", { type: "button" }, `Show all ${plural(items.length, "item")}`);
  const unfold = () => {
    if (!button.isConnected) return;
    list.append(...items.slice(FEW).map(make));
    button.remove();
  };
  button.addEventListener("click", unfold);
  folded.push(unfold);
  return [list, button];
}
