// The top of the page: errors, headline, counts, bad news, what was compared.

const FEW = 8;
// Facts that differ between any two runs.
const USUAL = new Set(["documents", "started", "tags"]);
const DIRECTIONS = { lower: ["slower", "faster"], higher: ["faster", "slower"] };
const DIRECTION_TONES = { slower: "bad", faster: "good" };
const manySides = page.sides.length > 2;

function showHead() {
  byId("title").textContent = page.title;
  fill("alarms",
    page.problems.map((said) => el("p.alarm.fatal", {}, el("strong", {}, "Error: "), said)),
    page.warnings.map((said) => el("p.alarm", {}, el("strong", {}, "Note: "), said)));
  fill("suite", headlines(), page.movements.map((said) => el("p.note", {}, said)));
  fill("counts", counts());
  fill("bad-news", badNews());
  fill("differences", differences());
  fill("compared", compared());
  fill("groups", groups());
  fill("foot", el("p", {},
    "Ratios are other / base: above 1 the other side's number is larger. ",
    "Distributions and courses are reduced for display: quantiles, and buckets with least, ",
    "median and largest sample; verdicts come from all samples. ",
    "Everything on this page is inside this file."));
}

function metricTitle(name) {
  return page.metrics[name] ? page.metrics[name][0] : name;
}

// In a word, where the interval leaves no doubt.
function direction(suite) {
  const better = (page.metrics[suite.metric] || [])[2];
  const [up, down] = DIRECTIONS[better] || ["more", "less"];
  if (!known(suite.low)) return "";
  if (suite.low > 1) return up;
  return suite.high < 1 ? down : "";
}

function headlines() {
  const whole = page.suite.filter((suite) => suite.scope === "all");
  const gate = whole.filter((suite) => suite.metric === page.gate);
  const shown = (gate.length ? gate : whole).map(headline);
  if (shown.length) return el("div.headlines", {}, shown);
  const why = total ? "No case was measured on both sides." : "There is nothing to compare.";
  return el("p.headline.empty", {}, why);
}

function headline(suite) {
  const way = direction(suite), tone = DIRECTION_TONES[way] || "none";
  const mean = `geometric mean of ${plural(suite.count, "case")}`;
  return el("div.headline", {},
    manySides ? el("p.eyebrow.clip", { title: suite.label }, suite.label) : null,
    el("p.big", {}, changeText(suite.ratio), el(`span.big-word.${tone}`, {}, way)),
    el("p.note", {}, `${metricTitle(suite.metric)}, ${mean}`),
    el("p.note", {}, suiteInterval(suite)));
}

function suiteInterval({ low, high, unit }) {
  if (known(low)) return `95 % interval ${intervalText(low, high)}`;
  return `no interval: ${unit === "summary" ? "summaries only" : `a single ${unit} a side`}`;
}

function counts() {
  const found = page.verdicts.map((verdict, rank) => [verdict, page.counts[rank]]);
  return found.filter(([, count]) => count > 0).map(([verdict, count]) => {
    const [sign, , tone] = VERDICTS.get(verdict);
    return el(`button.count.${tone}`, {
      type: "button", "data-verdict": verdict, "aria-pressed": "false",
      onclick: () => toggleVerdict(verdict),
    }, el("span.sign", { "aria-hidden": "true" }, sign),
    el("strong", {}, counted(count)), ` ${verdict}`);
  });
}

function badNews() {
  if (page.badNews.length) return [el("h3", {}, "Bad news"), ...listed(page.badNews, newsItem)];
  return total && !page.problems.length ? el("p.calm", {}, "✓ No bad news.") : null;
}

function newsItem([id, verdict, name, sentence, allowed]) {
  const place = placeOf.get(id), tag = (said) => el("span.tag", {}, said);
  const ok = allowed ? tag("allowed") : null;
  if (place === undefined) return el("li", {}, badge(verdict), sentence, ok);
  return el("li", {}, badge(verdict), el("a", { href: `#${id}` }, name),
    manySides ? tag(word("label", place)) : null, ok,
    el("span.note.below", {}, sentence));
}

// A list that shows its first rows and a button for the rest.
function listed(items, make) {
  const list = el("ul.news", {}, items.slice(0, FEW).map(make));
  if (items.length <= FEW) return [list];
  const button = el("button.quiet", { type: "button" }, `Show all ${plural(items.length, "item")}`);
  button.addEventListener("click", () => {
    list.append(...items.slice(FEW).map(make));
    button.remove();
  });
  return [list, button];
}

function differences() {
  const none = "No setting, device or library that is checked differs.";
  if (!page.differences.length) return el("p.note", {}, none);
  const rows = page.differences.map(([name, base, other, of, must]) => [
    rowHead(name, must ? el("span.tag.fatal", {}, "must agree") : null), base, other,
    ...(manySides ? [of] : []),
  ]);
  return table("facts", ["differs", "base", "other", ...(manySides ? ["of"] : [])], rows);
}

function compared() {
  const names = [...new Set(page.sides.flatMap((side) => Object.keys(side.facts)))];
  const heads = page.sides.map((side) => [[el("span.eyebrow", {}, side.role), side.label]]);
  const notes = page.sides.flatMap((side) =>
    side.notes.map((note) => el("li", {}, `${side.label}: ${note}`)));
  const asked = Object.entries(page.policy).map(([name, value]) => [
    rowHead(name), el("td", { colspan: page.sides.length }, value),
  ]);
  return [
    table("facts", ["", ...heads], names.map(factRow)),
    notes.length ? el("ul.note", {}, notes) : null,
    asked.length
      ? el("details", {}, el("summary", {}, "How it was judged"), table("facts", [], asked))
      : null,
  ];
}

// One cell where all sides agree.
function factRow(name) {
  const values = page.sides.map((side) => side.facts[name] || UNKNOWN);
  const kind = USUAL.has(name) ? "td" : "td.unlike";
  const cells = new Set(values).size === 1
    ? [el("td", { colspan: values.length }, values[0])]
    : values.map((value) => el(kind, {}, value));
  return [rowHead(name), ...cells];
}

const GROUP_HEADS = [
  "", ["cases", "number"], ["change", "number"], "", ["95 % interval", "number wide-only"],
];

function groups() {
  const parts = page.suite.filter((suite) =>
    suite.scope !== "all" && (!page.gate || suite.metric === page.gate));
  if (parts.length < 2) return null;
  const span = spanOf(parts.flatMap((suite) => [suite.low, suite.high, suite.ratio]));
  const rows = parts.map((suite) => {
    const about = [suite.scope === "weighted" ? "" : suite.scope, manySides ? suite.label : ""];
    return [
      rowHead(suite.name, el("span.note", {}, ` ${about.filter(Boolean).join(", ")}`)),
      number(counted(suite.count)), number(changeText(suite.ratio)),
      el("td.interval", {}, intervalBar(suite.low, suite.ratio, suite.high, span, "none")),
      el("td.number.wide-only", {}, intervalText(suite.low, suite.high)),
    ];
  });
  const title = el("summary", {}, "Geometric mean by family and engine");
  return el("details", { open: parts.length <= 12 }, title, table("groups", GROUP_HEADS, rows));
}
