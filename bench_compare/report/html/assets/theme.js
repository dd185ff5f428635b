// Light and dark: the system's choice until the reader makes one.

const THEMES = ["auto", "light", "dark"];
const systemDark = window.matchMedia("(prefers-color-scheme: dark)");
const themeListeners = [];
let theme = "auto";

const color = (name) => getComputedStyle(
  document.documentElement
).getPropertyValue(`--${name}`).trim();
const toneColor = (verdict) => color(`tone-${VERDICTS.get(verdict)[2]}`);

function setTheme(next) {
  theme = next;
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  const button = byId("theme");
  button.textContent = { auto: "◐ Auto", light: "○ Light", dark: "● Dark" }[theme];
  button.setAttribute("aria-label", `Colours: ${theme}; press to change`);
  for (const redraw of themeListeners) redraw();
}

// What every chart shares. `extra` wins, one level deep.
function layout(extra) {
  const axis = {
    gridcolor: color("line"), linecolor: color("line"), zerolinecolor: color("line"),
    tickfont: { color: color("soft"), size: 11 },
    title: { font: { color: color("soft"), size: 12 } },
    automargin: true, fixedrange: false,
  };
  const base = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, color: color("ink"), size: 12 },
    margin: { l: 8, r: 8, t: 8, b: 8 }, hovermode: "closest",
    dragmode: window.innerWidth < 640 ? false : "zoom", showlegend: false,
    hoverlabel: {
      bgcolor: color("panel"), bordercolor: color("line"), font: { color: color("ink") },
    },
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { color: color("soft") } },
  };
  for (const [name, value] of Object.entries(extra)) {
    if (/^[xy]axis/.test(name)) base[name] = {
      ...axis, ...value, title: { ...axis.title, ...value.title },
    };
    else base[name] = value;
  }
  return base;
}

const CONFIG = {
  displaylogo: false, responsive: true, displayModeBar: false, doubleClick: "reset+autosize",
};
const charts = () => typeof Plotly !== "undefined";

function draw(node, traces, extra) {
  node.style.minHeight = `${extra.height}px`;
  if (charts()) return Plotly.react(node, traces, layout(extra), CONFIG);
  node.replaceChildren(
    el(
      "p.empty", {},
      "plotly.js could not be loaded, so there is no chart here; the tables are complete."
    )
  );
  return undefined;
}
