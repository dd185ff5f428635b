// What each layer could be, what was chosen, and why.

import { energyText, errorText, estimate, page, timeText } from "./compose_data.js";
import { byId, el, fill, number, rowHead, scrolling, table } from "./dom.js";
import { changeText, counted, plural, valueText } from "./format.js";

const HEADS = ["", ...["time", "energy", "error", "workspace"].map((text) => [text, "number"]), ""];

export function showLayers() {
  byId("layers-shown").addEventListener("change", redraw);
  redraw();
}

const moves = (one) => one.baseline !== null && one.chosen !== one.baseline;

function redraw() {
  const wanted = byId("layers-shown").value === "moved" ? page.layers.filter(moves) : page.layers;
  byId("layers-count").textContent = wanted.length === page.layers.length
    ? plural(wanted.length, "layer")
    : `${counted(wanted.length)} of ${plural(page.layers.length, "layer")}`;
  fill("layers", wanted.length ? wanted.map(layer) : el("p.empty", {}, "None."));
}

function layer(one) {
  const box = el("details.choice", { id: `layer-${page.layers.indexOf(one)}` },
    el("summary", {}, summary(one)));
  box.addEventListener("toggle", () => {
    if (box.open && box.childElementCount === 1) box.append(scrolling(options(one)));
  });
  return box;
}

function summary(one) {
  const timeOf = (name) => one.options.find((row) => row[name])?.time.value;
  const was = timeOf("is_baseline"), is = timeOf("is_chosen");
  const gain = moves(one) && was && is ? changeText(is / was) : "";
  const times = one.repeat > 1 ? ` × ${one.repeat}` : "";
  return [
    el("strong.choice-name", {}, `${one.layer}${times}`),
    el("span.choice-chosen", {}, one.chosen || "no choice",
      el("span.note.block", {}, [one.name, one.reason, plural(one.options.length, "row")]
        .filter(Boolean).join(" · "))),
    el("span.number.choice-gain", {}, gain),
    el("span.number.choice-time", {}, is === undefined ? valueText(null) : timeText(is)),
  ];
}

function options(one) {
  return table("plain", HEADS, one.options.map((row) => [
    rowHead(row.configuration, el("span.note.block", {}, `${row.case} in ${row.source}`)),
    number(estimate(row.time, timeText)), number(energyText(row.energy_j)),
    number(errorText(row.error)), number(valueText(row.workspace_bytes, "bytes")),
    el("td.break", {}, stateOf(row)),
  ]));
}

function stateOf(row) {
  const words = [row.is_chosen ? "chosen" : null, row.is_baseline ? "baseline" : null];
  if (row.excluded) words.push(`not chosen: ${row.excluded}`);
  return words.filter(Boolean).join(", ");
}
