// The panel of one case: drawn when asked for, from its unpacked block.

import { detailOf } from "./blocks.js";
import { badge, byId, el } from "./dom.js";
import { counted, known } from "./format.js";
import { factSection, kernelSection, whySection } from "./facts.js";
import { initSection, rooflineSection } from "./hardware.js";
import { closerLook, metricSection } from "./metrics.js";
import { noteList, outcomes, wasCalled } from "./outcomes.js";
import { aboutText, cases, manySides, siblingsOf, verdictOf, word } from "./page.js";
import { drawSamples, sampleSection } from "./samples.js";
import { addressOf, onSelection, remember, state } from "./selection.js";
import { onTheme } from "./theme.js";
import { validationSection } from "./validation.js";

const SECTIONS = [
  wasCalled, outcomes, whySection, noteList, sampleSection, metricSection, closerLook,
  validationSection, initSection, rooflineSection, kernelSection, factSection,
];
let shown = null;

export function showPanelOnDemand() {
  const panel = byId("panel");
  panel.addEventListener("close", () => {
    state.open = shown = null;
    remember();
  });
  panel.addEventListener("click", (event) => {
    if (event.target === panel) panel.close();
  });
  document.addEventListener("keydown", (event) => {
    if (!panel.open || event.target.matches("input, select")) return;
    if (event.key === "ArrowRight") move(1);
    if (event.key === "ArrowLeft") move(-1);
  });
  onTheme(redraw);
  onSelection(() => {
    if (!shown && panel.open) panel.close();
  });
}

function neighbour(step) {
  return state.shown[state.shown.indexOf(state.open) + step];
}

function move(step) {
  const next = neighbour(step);
  if (next !== undefined && state.open !== null) location.replace(addressOf(next));
}

export async function openCase(place) {
  const panel = byId("panel");
  state.open = place;
  shown = null;
  remember();
  if (!panel.open) panel.showModal();
  setPanel(panelHead(place), el("p.empty", {}, "Unpacking …"));
  panel.scrollTop = 0;
  try {
    const detail = await detailOf(place);
    if (state.open !== place) return;
    shown = { ...detail, place };
    redraw();
  } catch (error) {
    setPanel(panelHead(place), el("p.alarm.fatal", {}, String(error.message)));
  }
  panel.dataset.case = cases.id[place];
}

// New content; whoever stood on a button with the keyboard stands on it again.
function setPanel(...content) {
  const panel = byId("panel"), before = document.activeElement;
  const held = before && before.getAttribute("aria-label");
  panel.replaceChildren(...content);
  const again = [...panel.querySelectorAll("button[aria-label]")]
    .find((button) => button.getAttribute("aria-label") === held && !button.disabled);
  (again || panel).focus();
}

function panelHead(place) {
  const at = state.shown.indexOf(place);
  const step = (by, sign, title) => el("button.quiet", {
    type: "button", "aria-label": title, onclick: () => move(by),
    disabled: at < 0 || state.shown[at + by] === undefined,
  }, sign);
  const close = { type: "button", "aria-label": "Close", onclick: () => byId("panel").close() };
  return el("header.panel-head", {},
    el("div.panel-bar", {},
      badge(verdictOf(place), Boolean(cases.provisional[place])),
      el("span.note", {}, at >= 0 ? `${at + 1} of ${counted(state.shown.length)} shown` : ""),
      el("span.grow"),
      step(-1, "‹", "Previous case"), step(1, "›", "Next case"),
      el("button.quiet", close, "✕")),
    el("h2", { id: "panel-title" }, cases.name[place]),
    el("p.note", {}, aboutText(place, ["family", "dtype", "engine", "variant"])),
    sidesBar(place));
}

// The same graph in the other sides, where there are several.
function sidesBar(place) {
  if (!manySides) return null;
  const links = siblingsOf(place).map((one) => el("a.side-link", {
    href: addressOf(one), "aria-current": one === place ? "true" : null,
  }, word("label", one)));
  return el("nav.sides", { "aria-label": "Compared side" }, links);
}

function redraw() {
  if (!shown) return;
  const parts = SECTIONS.map((section) => section(shown)).filter(known);
  setPanel(panelHead(shown.place), el("p.reason", {}, shown.reason), ...parts.flat());
  drawSamples(shown);
  for (const node of byId("panel").querySelectorAll(".chart")) {
    if (node.drawChart) node.drawChart();
  }
}
