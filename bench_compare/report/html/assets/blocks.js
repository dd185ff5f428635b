// Facts of a case: unpacked from its block when the first case of that block is opened.

import { byId } from "./dom.js";
import { known } from "./format.js";
import { page } from "./page.js";

const blocks = new Map();

export async function detailOf(place) {
  const number = Math.floor(place / page.chunk);
  if (!blocks.has(number)) blocks.set(number, unpacked(byId(`block-${number}`).textContent));
  const block = await blocks.get(number), at = place % page.chunk;
  return { ...block.cases[at], metrics: metricsOf(block.metrics, at) };
}

// The metrics that the case has, in the order of tables.
function metricsOf(columns, at) {
  return Object.entries(columns).filter(([, column]) => column.units[at]).map(([name, column]) => {
    const [base, other, ratio, low, high, q, threshold] = column.numbers[at];
    const [left, right, unit, provisional, needed] = column.units[at];
    const verdict = page.verdicts[column.verdicts[at]];
    const reason = column.reasons[at];
    return {
      name, base, other, ratio, low, high, q, threshold, verdict, reason, left, right, unit,
      provisional, needed,
    };
  }).filter((metric) => known(metric.base) || known(metric.other));
}

async function unpacked(text) {
  if (typeof DecompressionStream === "undefined") {
    throw new Error("this browser cannot unpack the details (it has no DecompressionStream)");
  }
  const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}
