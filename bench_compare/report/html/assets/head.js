// The top of the page: errors, headline, counts, bad news, what was compared.

const FEW = 8;
// Facts that differ between any two runs.
const USUAL = new Set(["documents", "started", "tags"]);

function showHead() {
  byId("title").textContent = page.title;
  fill("alarms",
    page.problems.map((text) => el("p.alarm.fatal", {}, el("strong", {}, "Error: "), text)),
    page.warnings.map((text) => el("p.alarm", {}, el("strong", {}, "Note: "), text)));
  fill("suite", headlines());
  fill("counts", counts());
  fill("bad-news", badNews());
  fill("differences", differences());
  fill("compared", compared());
  fill("groups", groups());
  fill("foot", footer());
}

function metricTitle(name) {
  return page.metrics[name] ? page.metrics[name][0] : name;
}

const MEANINGS = { lower: ["slower", "faster"], higher: ["faster", "slower"] };

const DIRECTION_TONES = { slower: "bad", faster: "good" };

function direction(number) {
  const better = (page.metrics[number.metric] || [])[2];
  const [up, down] = MEANINGS[better] || ["more", "less"];
  if (!known(number.low)) return "";
  if (number.low > 1) return up;
  return number.high < 1 ? down : "";
}

function headlines() {
  const whole = page.suite.filter((number) => number.scope === "all");
  const gate = whole.filter((number) => number.metric === page.gate);
  const shown = (gate.length ? gate : whole).map((number) => el("div.headline", {},
    page.sides.length > 2 ? el("p.eyebrow.clip", { title: number.label }, number.label) : null,
    el("p.big", {}, changeText(number.ratio), el(`span.big-word.${DIRECTION_TONES[direction(number)] || "none"}`, {}, direction(number))),
    el("p.note", {}, `${metricTitle(number.metric)}, geometric mean of ${plural(number.count, "case")}`),
    el("p.note", {}, known(number.low)
      ? `95 % interval ${intervalText(number.low, number.high)}`
      : `no interval: a single ${number.unit} a side`)));
  const moved = page.movements.map((text) => el("p.note", {}, text));
  return shown.length ? [el("div.headlines", {}, shown), moved]
    : [el("p.headline.empty", {}, total ? "No case was measured on both sides." : "There is nothing to compare."), moved];
}

function counts() {
  return page.verdicts.map((verdict, rank) => [verdict, page.counts[rank]])
    .filter(([, count]) => count > 0)
    .map(([verdict, count]) => {
      const [sign, , tone] = VERDICTS.get(verdict);
      return el(`button.count.${tone}`, {
        type: "button", "data-verdict": verdict, "aria-pressed": "false", onclick: () => toggleVerdict(verdict),
      }, el("span.sign", { "aria-hidden": "true" }, sign), el("strong", {}, count.toLocaleString("en")), ` ${verdict}`);
    });
}

function caseLink(place, text) {
  return el("a", { href: `#${cases.id[place]}` }, text);
}

function newsItem([id, verdict, name, sentence, allowed]) {
  const place = placeOf.get(id);
  return el("li", {}, badge(verdict), place === undefined ? null : caseLink(place, name), place !== undefined && page.sides.length > 2 ? el("span.tag", {}, word("label", place)) : null, allowed ? el("span.tag", {}, "allowed") : null,
    el(place === undefined ? "span" : "span.note.below", {}, sentence));
}

// A list that shows its first rows and a button for the rest.
function listed(items, make, noun) {
  const list = el("ul.news", {}, items.slice(0, FEW).map(make));
  if (items.length <= FEW) return [list];
  const button = el("button.quiet", { type: "button" }, `Show all ${plural(items.length, noun)}`);
  button.addEventListener("click", () => {
    list.append(...items.slice(FEW).map(make));
    button.remove();
  });
  return [list, button];
}

function badNews() {
  if (!page.badNews.length) return total && !page.problems.length ? el("p.calm", {}, "✓ No bad news.") : null;
  return [el("h3", {}, "Bad news"), ...listed(page.badNews, newsItem, "item")];
}

function differences() {
  if (!page.differences.length) return el("p.note", {}, "No setting, device or library that is checked differs.");
  const rows = page.differences.map(([name, base, other, of, must]) => el(must ? "tr.must" : "tr", {},
    el("th", { scope: "row" }, name, must ? el("span.tag.fatal", {}, "must agree") : null),
    el("td", {}, base), el("td", {}, other), page.sides.length > 2 ? el("td", {}, of) : null));
  const heads = ["differs", "base", "other", ...(page.sides.length > 2 ? ["of"] : [])];
  return el("table.facts", {}, el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, rows));
}

function compared() {
  const names = [...new Set(page.sides.flatMap((side) => Object.keys(side.facts)))];
  const heads = page.sides.map((side) => el("th", { scope: "col" }, el("span.eyebrow", {}, side.role), side.label));
  const rows = names.map((name) => {
    const values = page.sides.map((side) => side.facts[name] || "");
    const same = new Set(values).size === 1 && values.length > 1;
    const kind = USUAL.has(name) ? "td" : "td.unlike";
    const cells = same ? [el("td", { colspan: values.length }, values[0])] : values.map((value) => el(kind, {}, value || UNKNOWN));
    return el("tr", {}, el("th", { scope: "row" }, name), cells);
  });
  const asked = Object.entries(page.policy).map(([name, value]) => el("tr", {},
    el("th", { scope: "row" }, name), el("td", { colspan: page.sides.length }, value)));
  const notes = page.sides.flatMap((side) => side.notes.map((note) => el("li", {}, `${side.label}: ${note}`)));
  return [
    el("table.facts", {}, el("thead", {}, el("tr", {}, el("td"), heads)), el("tbody", {}, rows)),
    notes.length ? el("ul.note", {}, notes) : null,
    asked.length ? el("details", {}, el("summary", {}, "How it was judged"), el("table.facts", {}, el("tbody", {}, asked))) : null,
  ];
}

function groups() {
  const parts = page.suite.filter((number) => number.scope !== "all" && (!page.gate || number.metric === page.gate));
  if (parts.length < 2) return null;
  const span = spanOf(parts.flatMap((part) => [part.low, part.high, part.ratio]));
  const rows = parts.map((part) => el("tr", {},
    el("th", { scope: "row" }, part.name, el("span.note", {}, ` ${[part.scope === "weighted" ? "" : part.scope, page.sides.length > 2 ? part.label : ""].filter(Boolean).join(", ")}`)),
    el("td.number", {}, part.count.toLocaleString("en")),
    el("td.number", {}, changeText(part.ratio)),
    el("td.interval", {}, intervalBar(part.low, part.ratio, part.high, span, "none")),
    el("td.number.wide-only", {}, intervalText(part.low, part.high))));
  return el("details", { open: parts.length <= 12 }, el("summary", {}, "Geometric mean by family and engine"),
    el("table.groups", {}, el("thead", {}, el("tr", {},
      ["", "cases", "change", "", "95 % interval"].map((head, i) => el(i === 4 ? "th.number.wide-only" : i ? "th.number" : "th", { scope: "col" }, head)))),
    el("tbody", {}, rows)));
}

function footer() {
  return [el("p", {}, "Ratios are other / base: above 1 the other side's number is larger. " +
    "Distributions and courses are reduced for display: quantiles, and buckets with least, median and largest sample; " +
    "verdicts come from all samples. Everything on this page is inside this file.")];
}
