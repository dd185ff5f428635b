// One pass as a waterfall: what each layer, seam and conversion adds to the time.

import { energyText, errorText, page, shareText, sides, timeText } from "./compose_data.js";
import { byId, el, fill } from "./dom.js";
import { known, plural, scaleOf, significant } from "./format.js";

const WORDS = {
  layer: "a layer", seam: "a seam: what two neighbours take together, less both alone",
  conversion: "a conversion of an activation",
};

export function showSteps() {
  byId("steps").hidden = !sides.length;
  if (!sides.length) return;
  byId("steps-of").append(...sides.map((one, place) => el("option", { value: place }, one.name)));
  for (const id of ["steps-of", "steps-order"]) byId(id).addEventListener("change", redraw);
  fill("steps-legend", Object.entries(WORDS).map(([kind, text]) =>
    el("span", {}, el(`span.swatch.step-${kind}`), text)),
  el("span", {}, el("span.swatch.step-gain"), "a seam that saves time"));
  fill("strips", strips());
  redraw();
}

function redraw() {
  const side = sides[Number(byId("steps-of").value)];
  const rows = placed(side.parts);
  if (byId("steps-order").value === "time") rows.sort((a, b) => b.part.time_ns - a.part.time_ns);
  fill("waterfall", el("ol.waterfall", {}, rows.map((row) => step(row, rows.span))));
  byId("once-box").hidden = !side.once.length;
  byId("once-title").textContent =
    `${plural(side.once.length, "conversion")} of weights, once, not in the time`;
  fill("once", el("ol.waterfall", {}, side.once.map((part) => step({ part, from: 0, to: 0 }, 1))));
}

// Where each part begins and ends on the way from 0 to the whole.
function placed(parts) {
  let at = 0, most = 0;
  const rows = parts.map((part) => {
    const from = at;
    at += part.time_ns;
    most = Math.max(most, at);
    return { part, from, to: at };
  });
  rows.span = most || 1;
  return rows;
}

const kindOf = (part) => (part.kind === "seam" && part.time_ns < 0 ? "gain" : part.kind);

function step({ part, from, to }, span) {
  const left = Math.min(from, to) / span, width = Math.abs(to - from) / span;
  const bar = el(`span.step-bar.step-${kindOf(part)}`);
  bar.style.left = `${100 * left}%`;
  bar.style.width = `max(2px, ${100 * width}%)`;
  const times = part.count > 1 ? ` × ${part.count}` : "";
  const facts = [
    part.energy_j === null ? null : energyText(part.energy_j),
    part.error === null ? null : `error ${errorText(part.error)}`,
    part.source === null ? "not measured" : null, part.note,
  ].filter(known);
  return el(`li.step.is-${part.kind}`, { title: sourceText(part) },
    el("span.step-name", {}, nameOf(part), times,
      el("span.note.block", {}, [part.configuration, ...facts].filter(Boolean).join(" · "))),
    el("span.step-track", {}, bar),
    el("span.step-time.number", {}, timeText(part.time_ns)),
    el("span.step-share.number.note", {}, shareText(part.share)));
}

function nameOf(part) {
  if (part.kind === "seam") return `${part.writer} → ${part.layer}`;
  if (part.kind === "conversion") return `${part.name}, ${part.writer || "input"} → ${part.layer}`;
  return part.layer === part.name ? part.name : [part.layer, el("span.note", {}, ` ${part.name}`)];
}

const sourceText = (part) =>
  (part.source === null ? "not measured" : `${part.case} in ${part.source}`);

// Both configurations on one scale, in the order of their parts; what saves time is left out.
function strips() {
  const positive = (one) => one.parts.filter((part) => part.time_ns > 0);
  const sum = (parts) => parts.reduce((total, part) => total + part.time_ns, 0);
  const longest = Math.max(...sides.map((one) => sum(positive(one)))) || 1;
  return sides.map((one) => {
    const strip = el("span.strip", { role: "img", "aria-label": stripLabel(one) },
      positive(one).map((part) => {
        const box = el(`span.step-${part.kind}`, { title: `${part.layer} ${part.name}` });
        box.style.width = `${(100 * part.time_ns) / longest}%`;
        return box;
      }));
    return el("p.strip-row", {}, el("span.strip-name", {}, one.name), strip,
      el("span.number", {}, timeText(one.time.value)));
  });
}

function stripLabel(one) {
  const [factor, unit] = scaleOf(one.time.value, "ns");
  const sum = (kind) => one.parts.filter((part) => part.kind === kind)
    .reduce((total, part) => total + part.time_ns, 0) / factor;
  return `${one.name}: ${["layer", "seam", "conversion"].map((kind) =>
    `${kind}s ${significant(sum(kind), 3)} ${unit}`).join(", ")}; ${page.series}`;
}
