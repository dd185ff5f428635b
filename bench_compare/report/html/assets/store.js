// The data of the page and how nodes are made. Texts from documents only ever become text nodes.

const page = JSON.parse(document.getElementById("data").textContent);
const cases = page.cases;
const total = cases.id.length;
const placeOf = new Map(cases.id.map((id, place) => [id, place]));

// Sign in texts, symbol in charts, and the tone that gives the colour: never colour alone.
const VERDICTS = new Map(Object.entries({
  broken: ["✕", "x", "fatal"],
  "newly wrong": ["≠", "cross", "fatal"],
  removed: ["∅", "circle-x-open", "fatal"],
  "newly unsupported": ["⊘", "circle-x-open", "fatal"],
  incomparable: ["?", "diamond-x-open", "odd"],
  slower: ["▲", "triangle-up", "bad"],
  worse: ["▲", "triangle-up", "bad"],
  clock: ["◆", "diamond", "odd"],
  fixed: ["✓", "star", "good"],
  faster: ["▼", "triangle-down", "good"],
  better: ["▼", "triangle-down", "good"],
  added: ["+", "cross-open", "none"],
  unclear: ["○", "circle-open", "open"],
  "not measured": ["·", "circle-open-dot", "none"],
  same: ["●", "circle", "none"],
}));

const word = (column, place) => cases[column].values[cases[column].codes[place]];
const verdictOf = (place) => page.verdicts[cases.verdict[place]];
// Words of a case as one line; what is unknown is left out.
const aboutText = (place, columns, more = []) => [
  ...columns.map((column) => word(column, place)).filter((said) => said !== "unknown"), ...more,
].filter(Boolean).join(" · ");
const manyWords = (column) => cases[column].values.length > 1;
const unitOf = (place) => {
  const metric = page.metrics[word("metric", place)];
  return metric ? metric[1] : "";
};

// el("a.name", {href: "#x"}, "text", node): classes after dots, attributes, then children.
function el(spec, attributes = {}, ...children) {
  const [tag, ...classes] = spec.split(".");
  const node = document.createElement(tag);
  if (classes.length) node.className = classes.join(" ");
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && known(value)) node.setAttribute(name, value);
  }
  node.append(
    ...children.flat(Infinity).filter(known).map(
      (child) => (child instanceof Node ? child : String(child))
    )
  );
  return node;
}

// Heads are texts or [text, classes]; a row is its cells, nodes or texts.
function table(kind, heads, rows) {
  const head = heads.map((one) => [one].flat())
    .map(([text, classes]) => el("th", { scope: "col", class: classes }, text));
  const isCell = (one) => one instanceof Element && /^T[DH]$/.test(one.tagName);
  const cell = (one) => (isCell(one) ? one : el("td", {}, one));
  return el(`table.${kind}`, {},
    heads.length ? el("thead", {}, el("tr", {}, head)) : null,
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map(cell)))));
}

const rowHead = (...children) => el("th", { scope: "row" }, children);
const number = (text) => el("td.number", {}, text);
const numbered = (heads) => heads.map((head, at) => (at ? [head, "number"] : head));
const scrolling = (node) => el("div.scroll", {}, node);

const byId = (id) => document.getElementById(id);
const fill = (id, ...children) => byId(id).replaceChildren(
  ...children.flat(Infinity).filter(known)
);

function badge(verdict, provisional = false) {
  const [sign, , tone] = VERDICTS.get(verdict) || ["·", "circle", "none"];
  const text = provisional ? `${verdict}, provisional` : verdict;
  return el(`span.verdict.${tone}`, {}, el("span.sign", { "aria-hidden": "true" }, sign), text);
}

const blocks = new Map();

// Facts of a case; its block is unpacked when the first of its cases is asked for.
async function detailOf(place) {
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
    return {
      name, base, other, ratio, low, high, q, threshold, verdict, reason: column.reasons[at], left,
      right, unit, provisional, needed,
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
