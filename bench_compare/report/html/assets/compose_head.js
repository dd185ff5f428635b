// The answer, the configurations it compares, and what is missing.

import { commandLine } from "./commands.js";
import { energyText, errorText, estimate, page, sides, timeText } from "./compose_data.js";
import { byId, el, fill, number, rowHead, table } from "./dom.js";
import { changeText, intervalText, known, significant, spanText, valueText } from "./format.js";

const KINDS = {
  layer: "layer", conversion: "conversion", seam: "seam", energy: "energy", cache: "cache state",
};

const SERIES = { device_ns: "device time", e2e_ns: "end-to-end time" };

export function showHead() {
  byId("title").textContent = page.headline;
  byId("about").textContent = [page.about, page.path].filter(Boolean).join(" · ");
  fill("alarms", page.problems.map((text) => el("p.alarm.fatal", {}, text)),
    page.remarks.map((text) => el("p.alarm", {}, text)));
  fill("answer", answer());
  byId("method").textContent = page.method;
  fill("sides", sideTable());
  byId("missing-section").hidden = !page.missing.length;
  fill("missing", page.missing.map(missingRow));
  fill("foot", foot());
}

function answer() {
  if (!page.chosen) return el("p.big.no-answer", {}, "No answer");
  const { time } = page.chosen;
  const range = known(time.low)
    ? `${page.intervalWord}: ${spanText(time.low, time.high, timeText)}`
    : "nothing is known of its spread";
  return [
    el("p.big", {}, timeText(time.value),
      el("span.big-word", {}, `predicted, one pass, ${SERIES[page.series] || page.series}`)),
    el("p.note", {}, range),
    page.ratios ? ratioText() : null,
  ];
}

function ratioText() {
  const { time, energy } = page.ratios;
  if (isSame(time) && (!energy || isSame(energy))) {
    const what = energy ? "the same time and energy" : "the same time";
    return el("p", {}, `${what} as ${page.baselineName}`);
  }
  const against = `${page.baselineName} over ${page.chosen.name}`;
  const interval = known(time.low) ? intervalText(time.low, time.high) : "";
  const change = changeText(time.value);
  const more = interval && interval !== change ? `, ${interval}` : "";
  const parts = [isSame(time) ? "the same time" : `time ${change}${more}`];
  if (energy) parts.push(isSame(energy) ? "the same energy" : `energy ${changeText(energy.value)}`);
  return el("p", {}, el("strong", {}, against), `: ${parts.join("; ")}`);
}

const isSame = ({ value, low }) =>
  [value, known(low) ? low : value].every((one) => Math.abs(one - 1) < 1e-9);

function sideTable() {
  const named = new Set(sides.map((one) => one.name));
  const held = [...sides, ...page.others.filter((one) => !named.has(one.name))];
  const columns = COLUMNS.filter(([, field]) => held.some((one) => known(one[field])));
  const heads = ["", ...columns.map(([text]) => [text, "number"])];
  return table("plain", heads, held.map((one) => [
    rowHead(one.name, one.ends.length > 1 ? el("span.note.block", {}, endsText(one)) : null),
    ...columns.map(([, field, text]) =>
      number(known(one[field]) ? text(one[field]) : valueText(null))),
  ]));
}

const errorRange = (error) => spanText(error.root_of_squares, error.worst, errorText);

// Name, field and text; what no configuration has is no column.
const COLUMNS = [
  ["time", "time", (one) => estimate(one, timeText)],
  ["energy", "energy", (one) => estimate(one, energyText)],
  ["energy × delay", "edp", (value) => `${significant(value, 3)} J·s`],
  ["error", "error", errorRange],
  ["workspace", "workspace_bytes", (value) => valueText(value, "bytes")],
];
const endsText = (one) =>
  one.ends.map((end) => `${end.cache} ${timeText(end.estimate.value)}`).join(", ");

function missingRow({ kind, what, command, blocks }) {
  const need = blocks ? "needed for an answer" : "the answer is poorer without it";
  return commandLine([`${KINDS[kind]}: ${what} (${need})`, command]);
}

function foot() {
  const { surroundings: here } = page;
  const rows = [
    ["device", [here.device_kind, here.device, here.host].filter(Boolean).join(", ")],
    ["driver", here.driver], ["cache", here.cache],
    ["settings", pairs(here.settings)], ["libraries", pairs(here.libraries)],
    ["limits", pairs(page.limits)], ["asked for", pairs(page.fixed)],
    ["documents", page.documents.join(", ")],
  ];
  const held = rows.filter(([, text]) => text).map(([name, text]) => [rowHead(name), text]);
  return table("facts", [], held);
}

const pairs = (record) =>
  Object.entries(record).map(([name, value]) => `${name} ${value}`).join(", ");
