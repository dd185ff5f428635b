// Figures of plotly, drawn when they come into view, in the colours that the reader has.

import { all, byId, isDark, onTheme, page } from "./base.js";

const CONFIG = { displaylogo: false, responsive: true, displayModeBar: false };
const NARROW = 640;
const NO_CHART = "plotly.js could not be loaded, so there is no chart here; " +
  "the tables are complete.";
const figures = new WeakMap();

// plotly.js travels as text: to parse it takes longer than all the rest of opening a page, so it
// waits for the first chart.
export function loadPlotly() {
  const held = byId("plotly");
  if (!held) return;
  held.remove();
  const script = document.createElement("script");
  script.textContent = held.textContent;
  document.head.append(script);
}

// A figure has the colours of light ground; on dark ground others stand in their places.
function colored(value, dark) {
  if (typeof value === "string") return dark[value] || value;
  if (Array.isArray(value)) {
    return typeof value[0] === "number" ? value : value.map((one) => colored(one, dark));
  }
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => [name, colored(one, dark)]));
}

function layoutOf({ layout }, isNarrow) {
  const { meta = {}, ...wide } = layout;
  const made = isNarrow ? { ...wide, ...meta.narrow } : wide;
  return { ...made, template: page.template, dragmode: isNarrow ? false : "zoom" };
}

function draw(node) {
  seen.unobserve(node);
  node.dataset.drawn = "yes";
  loadPlotly();
  if (typeof Plotly === "undefined") {
    node.textContent = NO_CHART;
    return;
  }
  const figure = figures.get(node), dark = isDark() && !printing ? page.dark : {};
  const layout = layoutOf(figure, node.clientWidth < NARROW);
  node.style.minHeight = `${layout.height}px`;
  Plotly.react(node, colored(figure.data, dark), colored(layout, dark), CONFIG);
  if (node.dataset.watched) return;
  node.dataset.watched = "yes";
  node.on("plotly_click", ({ points: [{ customdata }] }) => {
    if (customdata) location.hash = customdata;
  });
}

const seen = new IntersectionObserver((entries) => {
  for (const { target } of entries.filter((one) => one.isIntersecting)) draw(target);
}, { rootMargin: "400px" });

// The figures of a part of the page; `held` are those that its places name by number.
export function showCharts(part, held) {
  for (const node of all(".chart", part)) {
    figures.set(node, held[Number(node.dataset.figure)]);
    seen.observe(node);
  }
}

let printing = false;
const drawn = () => all(".chart[data-drawn]").filter((node) => node.offsetParent !== null);
onTheme(() => drawn().forEach(draw));
window.addEventListener("beforeprint", () => {
  printing = true;
  all(".chart").filter((node) => node.offsetParent !== null).forEach(draw);
});
window.addEventListener("afterprint", () => {
  printing = false;
  drawn().forEach(draw);
});
let narrow = window.innerWidth < NARROW;
window.addEventListener("resize", () => {
  if (narrow === window.innerWidth < NARROW) return;
  narrow = !narrow;
  drawn().forEach(draw);
});
