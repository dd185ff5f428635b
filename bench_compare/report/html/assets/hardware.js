// The sections of the panel on initialisation and on the ceilings of the device.

import { initChart, peakOf, rooflineChart, rooflinePoints } from "./charts.js";
import { el } from "./dom.js";
import { sum } from "./distributions.js";
import { known, significant, valueText } from "./format.js";
import { page, word } from "./page.js";
import { part, sidesText, valuesOf } from "./parts.js";

// A node that draws its chart once it stands on the page.
function chart(drawChart) {
  const node = el("div.chart");
  node.drawChart = () => drawChart(node);
  return node;
}

// The phases as the metrics above have them, so that both tell the same numbers.
function withPhases(detail) {
  return detail.sides.map((side, place) => {
    if (!side || !side.init) return side;
    const phases = Object.entries(side.init).map(([phase, value]) => {
      const shown = valuesOf(detail, phase)[place];
      return [phase, known(shown) ? shown : value];
    });
    return { ...side, init: Object.fromEntries(phases) };
  });
}

export function initSection(detail) {
  const sides = withPhases(detail), metric = valuesOf(detail, "init_ns");
  const sums = sides.map((side) => (side && side.init ? sum(Object.values(side.init)) : null));
  if (!sums.some(known)) return null;
  const totals = sums.map((value, place) => (known(metric[place]) ? metric[place] : value));
  const text = sidesText(totals, (name, value) => `${name} ${valueText(value, "ns")}`);
  return part("Initialisation", chart((node) => initChart(node, sides)),
    el("p.note", {}, "Typical time of each phase over the rounds, as in the table above. The " +
      `initialisation as a whole is typically ${text}; phases need not add up to it.`));
}

// Of the base, else of the side that the case is of.
function ceilingOf(place) {
  const label = word("label", place);
  const other = page.sides.findIndex((side, at) => at && side.label === label);
  const both = [page.ceilings[0], page.ceilings[other]];
  return both.find((ceiling) => ceiling && known(ceiling.gbps)) || null;
}

// The sides with the compute rate of the table above, where the case has that metric.
function withRates(detail) {
  const metric = valuesOf(detail, "tflops");
  return detail.sides.map((side, place) => {
    if (!side || !side.achieved || !known(metric[place])) return side;
    const [series, before, gbps, share] = side.achieved;
    const scaled = known(share) && before ? (share * metric[place]) / before : share;
    return { ...side, achieved: [series, metric[place], gbps, scaled] };
  });
}

export function rooflineSection(detail) {
  const ceiling = ceilingOf(detail.place), sides = withRates(detail);
  if (!rooflinePoints(sides).length || !ceiling) return null;
  const dtype = word("dtype", detail.place), peak = peakOf(ceiling, dtype);
  const rates = [
    valueText(ceiling.gbps, "GB/s"),
    known(peak) ? valueText(peak, "TFLOP/s") : "an unknown matrix rate",
  ];
  const shares = sides.map((side) => (side && side.achieved ? side.achieved[3] : null));
  const reached = sidesText(shares, (name, share) => `${name} ${significant(100 * share, 3)} %`);
  return part("Roofline", chart((node) => rooflineChart(node, sides, ceiling, dtype)),
    el("p.note", {}, `Ceilings measured on the device: ${rates.join(" and ")}.`,
      reached ? ` Share of the ceiling: ${reached}.` : ""));
}
