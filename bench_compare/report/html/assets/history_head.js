// The state of the newest build, and what to run next.

import { commandLine } from "./commands.js";
import { byId, el, fill } from "./dom.js";
import { counted } from "./format.js";
import { page } from "./history_data.js";
import { lookOfState } from "./history_parts.js";
import { state, toggleState } from "./history_selection.js";

export function showHead() {
  byId("title").textContent = page.headline;
  fill("alarms", page.problems.map((text) => el("p.alarm.fatal", {}, text)),
    page.remarks.map((text) => el("p.alarm", {}, text)));
  const states = Object.entries(page.counts);
  fill("counts", states.map(([name, count]) => countButton(name, count)));
  byId("noise").textContent = page.noise;
  byId("next-section").hidden = !page.suggestions.length;
  fill("next", page.suggestions.map(commandLine));
  const about = [page.title, page.about];
  fill("foot", el("p", {}, about.join(", ")));
}

function countButton(name, count) {
  const [sign, tone] = lookOfState(name);
  const press = { type: "button", "data-state": name, onclick: () => toggleState(name) };
  return el(`button.count.${tone}`, press,
    el("span.sign", { "aria-hidden": "true" }, sign), el("strong", {}, counted(count)), name);
}

export function markCounts() {
  for (const button of document.querySelectorAll(".count")) {
    button.setAttribute("aria-pressed", String(button.dataset.state === state.state));
  }
}
