// What a point of the overview says when the pointer rests on it.

import { badge, el } from "./dom.js";
import { changeText, intervalText, known, valueText } from "./format.js";
import { aboutText, cases, unitOf, verdictOf } from "./page.js";

const tip = el("div.tip", { role: "status", hidden: true });

export const addTip = () => document.body.append(tip);

export function showTip(place, pointer) {
  const unit = unitOf(place), low = cases.low[place], high = cases.high[place];
  const values = [cases.base[place], cases.other[place]].map((value) => valueText(value, unit));
  const verdict = badge(verdictOf(place), cases.provisional[place]);
  tip.replaceChildren(
    el("strong", {}, cases.name[place]),
    el("div", {}, verdict, ` ${changeText(cases.ratio[place])}`),
    known(low) ? el("div", {}, `95 % ${intervalText(low, high)}`) : "",
    el("div", {}, values.join(" → ")),
    el("div.note", {}, aboutText(place, ["family", "engine", "variant", "why"])));
  tip.hidden = false;
  const room = document.documentElement.clientWidth;
  tip.style.left = `${Math.max(8, Math.min(pointer.clientX + 14, room - tip.offsetWidth - 8))}px`;
  tip.style.top = `${Math.max(8, pointer.clientY - tip.offsetHeight - 12)}px`;
}

export function hideTip() {
  tip.hidden = true;
}
