// One series in full: its chart, its levels, its events, the documents of a point.

import { commandLine } from "./commands.js";
import { byId, el, number, scrolling, table } from "./dom.js";
import { changeText, intervalText, percentText, valueText } from "./format.js";
import { chart } from "./history_chart.js";
import { buildName, builds, eventsOf, page, seriesById } from "./history_data.js";
import { eventBlock } from "./history_events.js";
import { stateBadge } from "./history_parts.js";
import { addressOf, remember, state } from "./history_selection.js";

const panel = byId("panel");
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

function neighbour(by) {
  const at = state.shown.findIndex((one) => one.id === state.open);
  return at < 0 ? null : state.shown[at + by] || null;
}

function stepButton(text, by) {
  const next = neighbour(by);
  return el("button.quiet", {
    type: "button", disabled: !next, onclick: () => { location.hash = addressOf(next.id); },
  }, text);
}

// In the units of its text: a chart that is shrunk to a telephone cannot be read.
function chartSize() {
  return innerWidth < NARROW ? { width: 360, height: 240 } : { width: 820, height: 300 };
}

function content(one) {
  const point = el("div");
  const press = (held) => point.replaceChildren(pointText(one, held));
  const spread = one.spread ? `spread between documents ±${percentText(one.spread)}` : "";
  return [
    el("div.panel-head", {},
      el("div.panel-bar", {}, el("button.quiet", { type: "button", onclick: close }, "Close"),
        stepButton("← Previous", -1), stepButton("Next →", 1), stateBadge(one.shown)),
      el("h2", { id: "panel-title" }, one.name),
      el("p.note", {}, [one.family, one.engine, one.variant, one.dtype, one.settings, spread]
        .filter(Boolean).join(" · "))),
    one.steps.length ? chart(one, { ...chartSize(), press })
      : el("p.empty", {}, "No document has a time of it."),
    el("p.note", {}, "Press a point for its document."), point,
    el("h3", {}, "Levels"), levelTable(one),
    el("h3", {}, "Events"), eventsOf(one).map((event) => eventBlock(event, false)),
  ];
}

function close() {
  panel.close();
}

// Shows the series that an address names, or none.
export function openSeries(id) {
  const one = seriesById.get(id);
  state.open = one ? id : null;
  if (!one) {
    if (panel.open) panel.close();
    return;
  }
  panel.replaceChildren(...content(one).flat().filter(Boolean));
  if (!panel.open) panel.showModal();
  panel.scrollTop = 0;
}

export function showPanel() {
  panel.addEventListener("close", () => {
    state.open = null;
    remember();
  });
  panel.addEventListener("click", (event) => {
    if (event.target === panel) close();
  });
  panel.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const next = by ? neighbour(by) : null;
    if (next) location.hash = addressOf(next.id);
  });
}
