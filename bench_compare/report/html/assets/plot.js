// What every chart shares.

import { byId, el } from "./dom.js";
import { color } from "./theme.js";

const CONFIG = {
  displaylogo: false, responsive: true, displayModeBar: false, doubleClick: "reset+autosize",
};
const NO_CHART = "plotly.js could not be loaded, so there is no chart here; " +
  "the tables are complete.";

function axisLook() {
  return {
    gridcolor: color("line"), linecolor: color("line"), zerolinecolor: color("line"),
    tickfont: { color: color("soft"), size: 11 },
    title: { font: { color: color("soft"), size: 12 } },
    automargin: true, fixedrange: false,
  };
}

function baseLayout() {
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, color: color("ink"), size: 12 },
    margin: { l: 8, r: 8, t: 8, b: 8 }, hovermode: "closest",
    dragmode: window.innerWidth < 640 ? false : "zoom", showlegend: false,
    hoverlabel: {
      bgcolor: color("panel"), bordercolor: color("line"), font: { color: color("ink") },
    },
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { color: color("soft") } },
  };
}

// `extra` wins over what charts share; axes are laid over the common look.
function layout(extra) {
  const made = baseLayout(), axis = axisLook();
  for (const [name, value] of Object.entries(extra)) {
    const isAxis = /^[xy]axis/.test(name);
    made[name] = isAxis ? { ...axis, ...value, title: { ...axis.title, ...value.title } } : value;
  }
  return made;
}

// plotly.js travels as text: to parse it takes longer than all the rest of opening a page, so it
// waits for the first chart.
export function loadPlotly() {
  const held = byId("plotly");
  if (!held) return;
  held.remove();
  document.head.append(el("script", {}, held.textContent));
}

export function draw(node, traces, extra) {
  node.style.minHeight = `${extra.height}px`;
  loadPlotly();
  if (typeof Plotly !== "undefined") return Plotly.react(node, traces, layout(extra), CONFIG);
  node.replaceChildren(el("p.empty", {}, NO_CHART));
  return undefined;
}

export function extent(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}
