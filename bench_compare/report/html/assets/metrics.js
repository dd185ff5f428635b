// The section of the panel with every metric of a case, and a closer look at its samples.

import { badge, el, number, numbered, rowHead, scrolling, table } from "./dom.js";
import {
  changeText, differenceText, intervalText, known, percentText, plural, significant, valueText,
} from "./format.js";
import { metricTitle, page, word } from "./page.js";
import { metricOf, part } from "./parts.js";

const HEADS = [
  "metric", ["base", "number"], ["other", "number"], ["difference", "number wide-only"],
  ["change", "number"], ["95 % interval", "number wide-only"], "verdict",
];

const withinText = ({ threshold }) => `within the threshold of ${percentText(threshold)}`;

export function metricSection(detail) {
  if (!detail.metrics.length) return null;
  const table_ = table("metrics", HEADS, detail.metrics.map(metricRow));
  return part("Metrics", scrolling(table_), gateNote(detail));
}

function metricRow(metric) {
  const [title, unit] = page.metrics[metric.name];
  const both = known(metric.base) && known(metric.other);
  const moved = both ? differenceText(metric.other - metric.base, unit) : "";
  const interval = known(metric.low) ? intervalText(metric.low, metric.high) : "";
  return [
    el("th", { scope: "row", title: metric.reason || withinText(metric) }, title),
    number(valueText(metric.base, unit)), number(valueText(metric.other, unit)),
    el("td.number.wide-only", {}, moved),
    number(known(metric.ratio) ? changeText(metric.ratio) : ""),
    el("td.number.wide-only", {}, interval),
    badge(metric.verdict, metric.provisional),
  ];
}

function unitsText({ unit, left, right }) {
  if (unit === "summary") return "summaries without samples: no interval";
  return `${left} and ${plural(right, unit)} as independent units`;
}

function gateNote(detail) {
  const gate = metricOf(detail, word("metric", detail.place));
  if (!gate) return null;
  const { q, threshold, needed } = gate;
  const parts = [
    known(q) ? `q ${significant(q, 2)} after false-discovery control` : null,
    known(threshold) ? `practical threshold ${percentText(threshold)}` : null,
    unitsText(gate),
    known(needed) ? `about ${needed} more would decide` : null,
  ];
  return el("p.note", {}, `${metricTitle(gate.name)}: ${parts.filter(known).join("; ")}`);
}

// All iterations together, which do not decide; said beside the number, as it may differ a little.
export function closerLook(detail) {
  const closer = detail.detail;
  if (!closer) return null;
  const names = closer.quantiles.map(([percent]) => (percent === 50 ? "median" : `p${percent}`));
  const cells = closer.quantiles.map(([, ratio]) => number(changeText(ratio)));
  const heads = numbered(["change of", ...names]);
  const shift = differenceText(closer.shift, "ns");
  return part("All iterations together",
    el("p.note", {},
      `${metricTitle(closer.metric)}; iterations of all rounds in one heap, so these numbers may `,
      "differ a little from those of the metric above, which decide."),
    table("plain", heads, [[rowHead("other / base"), ...cells]]),
    el("p.note", {},
      `The median's interval within rounds is ${intervalText(closer.low, closer.high)} `,
      `(block bootstrap), the typical shift ${shift} (Hodges-Lehmann).`));
}
