// All measured cases in one chart: sorted ratios with their intervals, on a logarithmic axis.

const ARRANGEMENTS = {
  ratio: () => "",
  family: (place) => word("family", place),
  engine: (place) => word("engine", place),
  label: (place) => word("label", place),
};
let arrangement = "ratio";

function spanOf(ratios, share = 0.95) {
  const sizes = ratios.filter((ratio) => known(ratio) && ratio > 0).map(
    (ratio) => Math.abs(Math.log(ratio))
  ).sort((a, b) => a - b);
  const most = sizes.length ? sizes[Math.floor(share * (sizes.length - 1))] : 0;
  return Math.max(most * 1.15, Math.log(1.02));
}

// A small drawing of an interval around no change; beyond the span it ends in an arrow.
function intervalBar(low, ratio, high, span, tone) {
  if (!known(ratio) || !(ratio > 0)) return el("span");
  const space = "http://www.w3.org/2000/svg";
  const x = (value) => 60 + 54 * Math.max(-1, Math.min(1, Math.log(value) / span));
  const node = (tag, attributes) => {
    const made = document.createElementNS(space, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  };
  const drawing = node(
    "svg", { viewBox: "0 0 120 16", class: `bar-svg ${tone}`, "aria-hidden": "true" }
  );
  drawing.append(node("line", { x1: 60, x2: 60, y1: 1, y2: 15, class: "middle" }));
  if (known(low) && low > 0) drawing.append(
    node("line", { x1: x(low), x2: x(high), y1: 8, y2: 8, class: "range" })
  );
  const beyond = Math.abs(Math.log(ratio)) > span;
  const side = ratio > 1 ? 1 : -1;
  drawing.append(beyond
    ? node("path", { d: `M${60 + 54 * side} 4 l${5 * side} 4 l${-5 * side} 4 z`, class: "point" })
    : node("circle", { cx: x(ratio), cy: 8, r: 3.2, class: "point" }));
  return drawing;
}

// Ticks of a ratio axis: round percentages near 1, factors further out.
function ratioTicks(low, high) {
  const values = high / low < 1.9 ? percentTicks(low, high) : factorTicks(low, high);
  const title = (value) => (Math.abs(value - 1) < 1e-9
    ? "same" : changeText(value).replace(".0\u00a0%", "\u00a0%"));
  return { tickvals: values, ticktext: values.map(title) };
}

const PERCENT_STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2];

function percentTicks(low, high) {
  const step = PERCENT_STEPS.find((size) => (high - low) / size <= 8) || 0.2;
  const first = Math.ceil((low - 1) / step), count = Math.floor((high - 1) / step) - first + 1;
  return Array.from({ length: count }, (_, i) => 1 + (first + i) * step);
}

// Up to which factor between the ends of the axis which ticks are used.
const FACTOR_TICKS = [
  [5, [0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.5, 2, 3]],
  [40, [0.2, 0.5, 0.8, 1, 1.2, 2, 5, 10]],
  [1e4, [0.01, 0.1, 0.5, 1, 2, 10, 100]],
  [Infinity, [1e-9, 1e-6, 1e-4, 0.01, 1, 100, 1e4, 1e6, 1e9]],
];

function factorTicks(low, high) {
  const [, ticks] = FACTOR_TICKS.find(([most]) => high / low <= most);
  return ticks.filter((value) => value >= low && value <= high);
}

// Where no interval is news, all of them set the span of the small drawings.
function newsSpan() {
  const every = [...cases.id.keys()];
  const news = every.filter((place) => !page.quiet.includes(verdictOf(place)));
  const ratios = (news.length ? news : every).map((place) => cases.ratio[place]);
  return spanOf(ratios, 0.8);
}

function measured(places) {
  return places.filter((place) => known(cases.ratio[place]) && cases.ratio[place] > 0);
}

function arranged(places) {
  const group = ARRANGEMENTS[arrangement];
  return measured(places).map((place) => [group(place), cases.ratio[place], place])
    .sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : a[1] - b[1]));
}

function overviewTraces(sorted) {
  const byVerdict = new Map();
  sorted.forEach(([, ratio, place], x) => {
    const verdict = verdictOf(place);
    if (!byVerdict.has(verdict)) byVerdict.set(
      verdict, { x: [], y: [], up: [], down: [], places: [] }
    );
    const trace = byVerdict.get(verdict);
    trace.x.push(x);
    trace.y.push(ratio);
    trace.up.push(known(cases.high[place]) ? Math.max(cases.high[place] - ratio, 0) : 0);
    trace.down.push(known(cases.low[place]) ? Math.max(ratio - cases.low[place], 0) : 0);
    trace.places.push(place);
  });
  const size = sorted.length > 2000 ? 4 : sorted.length > 200 ? 6 : 9;
  const order = [...page.verdicts].reverse().filter((verdict) => byVerdict.has(verdict));
  return order.map((verdict) => {
    const trace = byVerdict.get(verdict);
    return {
      type: "scatter", mode: "markers", name: verdict, x: trace.x, y: trace.y,
      customdata: trace.places, hoverinfo: "none",
      marker: {
        symbol: VERDICTS.get(verdict)[1], size, color: toneColor(verdict),
        line: { width: /open/.test(VERDICTS.get(verdict)[1]) ? 1.4 : 0 },
      },
      error_y: {
        type: "data", symmetric: false, array: trace.up, arrayminus: trace.down, width: 0,
        thickness: sorted.length > 500 ? 0.8 : 1.4, color: toneColor(verdict),
      },
    };
  });
}

// Lines between groups and a name over each that is wide enough to carry one.
function groupMarks(sorted) {
  const shapes = [], annotations = [];
  if (arrangement === "ratio") return { shapes, annotations };
  let start = 0;
  for (let x = 1; x <= sorted.length; x += 1) {
    if (x < sorted.length && sorted[x][0] === sorted[start][0]) continue;
    if (x < sorted.length) shapes.push(
      {
        type: "line", x0: x - 0.5, x1: x - 0.5, y0: 0, y1: 1, yref: "paper",
        line: { color: color("line"), width: 1 },
      }
    );
    annotations.push({
      x: (start + x - 1) / 2, y: 1, yref: "paper", yanchor: "bottom", showarrow: false,
      textangle: -30, xanchor: "left",
      text: label(shortened(sorted[start][0] || "(none)", 24)),
      font: { size: 11, color: color("soft") },
    });
    start = x;
  }
  const room = Math.max(Math.floor(byId("overview").clientWidth / 26), 3);
  return { shapes, annotations: annotations.length <= room ? annotations : [] };
}

function showOverview() {
  const section = byId("overview-section");
  section.hidden = measured([...cases.id.keys()]).length < 2;
  if (section.hidden) return;
  const sorted = arranged(state.shown);
  byId("overview").hidden = !sorted.length;
  const intervals = sorted.some((place) => known(cases.low[place]))
    ? ", each with its 95 % interval" : "";
  byId("overview-note").textContent = sorted.length
    ? `${plural(sorted.length, "measured case")} of those below, sorted by change${intervals}. ` +
      "Press a point to open its case."
    : "None of the cases below has a ratio.";
  if (!sorted.length) return;
  const drawn = draw(byId("overview"), overviewTraces(sorted), overviewLayout(sorted));
  if (drawn) drawn.then(watchOverview);
}

function overviewLayout(sorted) {
  const ends = sorted.flatMap(([, ratio, place]) => [ratio, cases.low[place], cases.high[place]]);
  const [least, most] = extent([...ends.filter((end) => end > 0), 0.985, 1.015]);
  const edge = (most / least) ** 0.06, low = least / edge, high = most * edge;
  const { shapes, annotations } = groupMarks(sorted), grouped = annotations.length > 0;
  const side = 0.6 + sorted.length * 0.01;
  return {
    height: window.innerWidth < 600 ? 300 : 380, showlegend: window.innerWidth >= 600,
    margin: { l: 8, r: 12, t: grouped ? 96 : 28, b: 8 },
    xaxis: {
      range: [-side, sorted.length - 1 + side], showgrid: false, showticklabels: false,
      zeroline: false,
    },
    yaxis: {
      type: "log", range: [Math.log10(low), Math.log10(high)], ...ratioTicks(low, high),
    },
    shapes: [
      ...thresholdBand(), across(1, 1, { line: { color: color("soft"), width: 1 } }), ...shapes,
    ],
    annotations,
    legend: {
      orientation: "h", x: 0, y: grouped ? -0.02 : 1.02, yanchor: grouped ? "top" : "bottom",
      font: { color: color("soft") }, traceorder: "reversed",
    },
  };
}

// A line or band over the whole width.
function across(y0, y1, look) {
  const type = y0 === y1 ? "line" : "rect";
  return { type, xref: "paper", x0: 0, x1: 1, y0, y1, ...look };
}

function thresholdBand() {
  if (!page.threshold) return [];
  const look = { fillcolor: color("band"), line: { width: 0 }, layer: "below" };
  return [across(1 / (1 + page.threshold), 1 + page.threshold, look)];
}

function extent(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}

function watchOverview(node) {
  if (node.dataset.watched) return;
  node.dataset.watched = "yes";
  node.on("plotly_click", (event) => { location.hash = cases.id[event.points[0].customdata]; });
  node.on("plotly_hover", (event) => showTip(event.points[0].customdata, event.event));
  node.on("plotly_unhover", hideTip);
}

const tip = el("div.tip", { role: "status", hidden: true });

function showTip(place, pointer) {
  const unit = unitOf(place);
  const values = [cases.base[place], cases.other[place]].map((value) => valueText(value, unit));
  tip.replaceChildren(
    el("strong", {}, cases.name[place]),
    el(
      "div", {}, badge(verdictOf(place), cases.provisional[place]),
      ` ${changeText(cases.ratio[place])}`
    ),
    known(cases.low[place])
      ? el("div", {}, `95 % ${intervalText(cases.low[place], cases.high[place])}`) : "",
    el("div", {}, values.join(" → ")),
    el("div.note", {}, aboutText(place, ["family", "engine", "variant"])));
  tip.hidden = false;
  const room = document.documentElement.clientWidth;
  tip.style.left = `${Math.max(8, Math.min(pointer.clientX + 14, room - tip.offsetWidth - 8))}px`;
  tip.style.top = `${Math.max(8, pointer.clientY - tip.offsetHeight - 12)}px`;
}

function hideTip() {
  tip.hidden = true;
}
