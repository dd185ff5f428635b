// Events with their size, place and likely causes.

import { commandLine } from "./commands.js";
import { byId, el, fill } from "./dom.js";
import { changeText, counted, valueText } from "./format.js";
import { events, page, series } from "./history_data.js";
import { eventSign } from "./history_parts.js";
import { addressOf } from "./history_selection.js";

const STEP = 20, MOST_CHANGES = 12, MOST_CAUSES = 6;
const ORDERS = {
  cost: (a, b) => b.gates - a.gates || b.cost - a.cost || b.build - a.build,
  build: (a, b) => b.build - a.build || b.cost - a.cost,
};
let shown = STEP, order = "cost";

function changeLine([place, ratio, text, old, fresh]) {
  const one = series[place];
  const values = old === null ? "" :
    ` ${valueText(old, page.unit)} → ${valueText(fresh, page.unit)}`;
  return el("li", {}, el("strong", {}, text || changeText(ratio)), " ",
    el("a", { href: addressOf(one.id) }, one.name), ` ${one.engine} ${one.variant}`,
    el("span.note", {}, values));
}

function linkOf(known) {
  if (!known.link || !/^https?:/.test(known.link)) return "";
  return el("a", { href: known.link, rel: "noreferrer" }, known.link);
}

function factsOf(event) {
  const state = event.state ? el(event.gates ? "span.gate" : "span.tag", {}, event.state) : "";
  const cost = event.costText ? el("span.note", {}, ` ${event.costText} for the suite`) : "";
  return el("p", {}, el("strong", {}, event.size), event.size ? " " : "", state, cost);
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

export function eventBlock(event, full = true) {
  const known = event.known
    ? el("p.note", {}, event.known.note || "accepted", " ", linkOf(event.known)) : "";
  const why = event.causes.length
    ? el("p.note", {}, "Why? ", event.causes.slice(0, MOST_CAUSES).join(" · ")) : "";
  return el("div.event", { id: full ? event.id : null },
    el("h3", {}, eventSign(event), event.sentence), factsOf(event), known, why,
    full ? detailsOf(event) : "");
}

function draw() {
  const sorted = [...events].sort(ORDERS[order]);
  fill("events", sorted.length ? sorted.slice(0, shown).map((event) => eventBlock(event))
    : el("p.empty", {}, "Nothing stepped."));
  const left = sorted.length - shown;
  byId("more-events").hidden = left <= 0;
  byId("more-events").textContent = `Show ${Math.min(left, STEP)} more of ${counted(left)}`;
}

export function showEvents() {
  draw();
  byId("event-order").addEventListener("change", (event) => {
    order = event.target.value;
    draw();
  });
  byId("more-events").addEventListener("click", () => {
    shown += STEP;
    draw();
  });
}

// Scrolls to an event that an address names; false where it names none.
export function openEvent(id) {
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
