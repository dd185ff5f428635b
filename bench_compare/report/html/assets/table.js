// The table of cases: search, verdict filter, sort, and rows drawn a hundred at a time.

const STEP = 100;
const time = (place) => (
  known(cases.other[place]) ? cases.other[place] : known(cases.base[place]) ? cases.base[place] : -1
);
const size = (place) => (known(cases.ratio[place]) ? cases.ratio[place] : 1);
const text = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
const byName = (a, b) => text(cases.name[a], cases.name[b]) || a - b;

const SORTS = {
  news: [
    "news first",
    (a, b) => cases.verdict[a] - cases.verdict[b] || size(b) - size(a) || byName(a, b),
  ],
  ratio: ["change", (a, b) => size(b) - size(a) || byName(a, b)],
  name: ["name", byName],
  family: ["family", (a, b) => text(word("family", a), word("family", b)) || byName(a, b)],
  time: ["time", (a, b) => time(b) - time(a) || byName(a, b)],
  document: ["document order", (a, b) => a - b],
};
const COLUMNS = [
  ["verdict", "news", ""], ["case", "name", ""], ["base", null, "number"],
  ["other", "time", "number"],
  ["change", "ratio", "number"], ["95 % interval", null, "interval"],
];
const state = {
  search: "", verdict: null, sort: "news", backwards: false, shown: [], drawn: 0, span: 1,
};
const haystacks = new Map();

function haystack(place) {
  if (!haystacks.has(place)) {
    const words = [
      "family", "engine", "dtype", "label", "variant",
    ].map((column) => word(column, place));
    haystacks.set(
      place,
      [
        cases.name[place], cases.was[place] || "", verdictOf(place), ...words
      ].map((part) => part.toLowerCase())
    );
  }
  return haystacks.get(place);
}

// A part of a word, or with * ? [ a glob of the whole word, as in the command's --filter.
function matcher(search) {
  const wanted = search.trim().toLowerCase();
  if (!wanted) return () => true;
  if (!/[*?]/.test(wanted)) return (place) => haystack(place).some((part) => part.includes(wanted));
  const escaped = wanted.replace(
    /[.+^${}()|\[\]\\]/g, "\\$&"
  ).replace(/\*/g, ".*").replace(/\?/g, ".");
  const glob = new RegExp(`^${escaped}$`, "s");
  return (place) => haystack(place).some((part) => glob.test(part));
}

function refresh() {
  const fits = matcher(state.search);
  const order = SORTS[state.sort][1];
  state.shown = [...cases.id.keys()].filter(
    (place) => (!state.verdict || verdictOf(place) === state.verdict) && fits(place)
  ).sort(order);
  if (state.backwards) state.shown.reverse();
  state.drawn = 0;
  byId("rows").tBodies[0].replaceChildren();
  byId("none").hidden = state.shown.length > 0 || total === 0;
  byId("rows").hidden = !state.shown.length;
  const all = plural(total, "case"), part = counted(state.shown.length);
  byId("shown").textContent = state.shown.length === total ? all : `${part} of ${all}`;
  byId("sort").value = state.sort;
  for (const button of document.querySelectorAll(".count")) button.setAttribute(
    "aria-pressed", String(button.dataset.verdict === state.verdict)
  );
  for (const head of byId("rows").querySelectorAll("th[data-sort]")) {
    const here = head.dataset.sort === state.sort;
    head.setAttribute("aria-sort", here ? (state.backwards ? "descending" : "ascending") : "none");
  }
  drawMore();
}

function drawMore() {
  const next = state.shown.slice(state.drawn, state.drawn + STEP);
  byId("rows").tBodies[0].append(...next.map(row));
  state.drawn += next.length;
  const left = state.shown.length - state.drawn;
  byId("more").hidden = left === 0;
  byId("more").textContent = `Show ${Math.min(left, STEP)} more of ${left.toLocaleString("en")}`;
}

function row(place) {
  const value = (number) => (known(number) ? valueText(number, unitOf(place)) : "");
  const about = ["family", "dtype"];
  if (manyWords("engine")) about.push("engine");
  if (manySides) about.push("label");
  about.push("variant");
  const more = [
    cases.was[place] ? `was ${cases.was[place]}` : null,
    cases.notes[place] ? plural(cases.notes[place], "note") : null,
  ];
  const tone = VERDICTS.get(verdictOf(place))[2];
  const [low, ratio, high] = ["low", "ratio", "high"].map((column) => cases[column][place]);
  const interval = known(low) ? intervalText(low, high) : null;
  return el("tr", { "data-id": cases.id[place] },
    el("td.cell-verdict", {}, badge(verdictOf(place), Boolean(cases.provisional[place]))),
    el("td.cell-case", {}, el("a", { href: `#${cases.id[place]}` }, cases.name[place]),
      el("span.note", {}, aboutText(place, about, more))),
    el("td.number.cell-base", {}, value(cases.base[place])),
    el("td.number.cell-other", {}, value(cases.other[place])),
    el("td.number.cell-change", {}, known(ratio) ? changeText(ratio) : ""),
    el("td.cell-interval", { title: interval }, intervalBar(low, ratio, high, state.span, tone)));
}

function toggleVerdict(verdict) {
  state.verdict = state.verdict === verdict ? null : verdict;
  refreshAll();
}

function sortBy(name) {
  state.backwards = state.sort === name && !state.backwards;
  state.sort = name;
  refreshAll();
}

function refreshAll() {
  refresh();
  showOverview();
}

function showTable() {
  state.span = newsSpan();
  const heads = COLUMNS.map(([title, sort, kind]) => el("th", {
    scope: "col", class: kind || null, "data-sort": sort, "aria-sort": sort ? "none" : null,
  }, sort ? el("button.head", { type: "button", onclick: () => sortBy(sort) }, title) : title));
  byId("rows").tHead.replaceChildren(el("tr", {}, heads));
  byId("sort").append(
    ...Object.entries(SORTS).map(([name, [title]]) => el("option", { value: name }, title))
  );
  state.sort = page.start.sort;
  state.search = page.start.filter;
  byId("search").value = state.search;
  let pause;
  byId("search").addEventListener("input", (event) => {
    clearTimeout(pause);
    pause = setTimeout(() => {
      state.search = event.target.value;
      refreshAll();
    }, total > 1000 ? 150 : 30);
  });
  byId("sort").addEventListener("change", (event) => {
    state.backwards = false;
    state.sort = event.target.value;
    refreshAll();
  });
  byId("more").addEventListener("click", drawMore);
  byId("reset").addEventListener("click", () => {
    Object.assign(state, { search: "", verdict: null });
    byId("search").value = "";
    refreshAll();
  });
  byId("rows").addEventListener("click", (event) => {
    const line = event.target.closest("tr[data-id]");
    if (
      line && !event.target.closest("a") && !String(window.getSelection())
    ) location.hash = line.dataset.id;
  });
  refresh();
}
