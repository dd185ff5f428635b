// Geometric means of families and engines, as a small table.

import { el, fill, number, rowHead, table } from "./dom.js";
import { changeText, counted, intervalText } from "./format.js";
import { manySides, page } from "./page.js";
import { intervalStrip, spanOf, stripAxis } from "./ratios.js";

export function showGroups() {
  fill("groups", groups());
}

function groups() {
  const parts = page.suite.filter((suite) =>
    suite.scope !== "all" && (!page.gate || suite.metric === page.gate));
  if (parts.length < 2) return null;
  const span = spanOf(parts.flatMap((suite) => [suite.low, suite.high, suite.ratio]));
  const heads = [
    "", ["cases", "number"], ["change", "number"], [stripAxis(span), "interval"],
    ["95 % interval", "number wide-only"],
  ];
  const rows = parts.map((suite) => groupRow(suite, span));
  const title = el("summary", {}, "Geometric mean by family and engine");
  return el("details", { open: parts.length <= 12 }, title, table("groups", heads, rows));
}

function groupRow({ scope, label, name, count, low, ratio, high }, span) {
  const about = [scope === "weighted" ? "" : scope, manySides ? label : ""];
  return [
    rowHead(name, el("span.note", {}, ` ${about.filter(Boolean).join(", ")}`)),
    number(counted(count)), number(changeText(ratio)),
    el("td.interval", {}, intervalStrip(low, ratio, high, span, "none")),
    el("td.number.wide-only", {}, intervalText(low, high)),
  ];
}
