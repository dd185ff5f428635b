// The top of the page: errors, the headline, counts of verdicts.

import { el, fill, sign } from "./dom.js";
import { changeText, counted, intervalText, known, plural } from "./format.js";
import { lookOf } from "./looks.js";
import { manySides, metricTitle, page, total } from "./page.js";
import { toggleVerdict } from "./selection.js";

const DIRECTIONS = { lower: ["slower", "faster"], higher: ["faster", "slower"] };
const TONES = { slower: "bad", faster: "good" };
const FOOT = "Ratios are other / base: above 1 the other side's number is larger. " +
  "Samples are reduced for display (quantiles, and buckets with least, median and largest " +
  "sample); verdicts come from all samples. Everything on this page is inside this file.";

export function showHead() {
  const alarm = (kind, title) => (said) =>
    el(`p.alarm${kind}`, {}, el("strong", {}, `${title}: `), said);
  fill("title", page.title);
  fill("alarms", page.problems.map(alarm(".fatal", "Error")), page.warnings.map(alarm("", "Note")));
  const seen = page.badNews.length || page.blind.length ? page.sensitivity : [];
  const said = [...page.movements, ...seen].map((text) => el("p.note", {}, text));
  fill("suite", headlines(), said);
  fill("counts", counts());
  fill("foot", el("p", {}, FOOT));
}

// In a word, where the interval leaves no doubt.
function direction(suite) {
  const better = (page.metrics[suite.metric] || [])[2];
  const [up, down] = DIRECTIONS[better] || ["more", "less"];
  if (!known(suite.low)) return "";
  const limit = 1 + (page.threshold || 0);
  if (suite.low >= 1 / limit && suite.high <= limit) return "within the threshold";
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

// A number over a comparison that could not have seen anything would be taken for an answer; one
// without an interval says so itself.
function headline(suite) {
  if (page.blind.includes(suite.label) && known(suite.low)) return noAnswer(suite);
  const way = direction(suite), tone = TONES[way] || "none";
  const mean = `geometric mean of ${plural(suite.count, "case")}`;
  return el("div.headline", {},
    manySides ? el("p.eyebrow.clip", { title: suite.label }, suite.label) : null,
    el("p.big", {}, changeText(suite.ratio), el(`span.big-word.${tone}`, {}, way)),
    el("p.note", {}, `${metricTitle(suite.metric)}, ${mean}`),
    el("p.note", {}, suiteInterval(suite)));
}

function noAnswer(suite) {
  return el("div.headline", {},
    manySides ? el("p.eyebrow.clip", { title: suite.label }, suite.label) : null,
    el("p.big.no-answer", {}, "No answer on this machine"),
    el("p.note", {}, `${metricTitle(suite.metric)}, geometric mean of ` +
      `${plural(suite.count, "case")}: ${suiteInterval(suite)}`));
}

function suiteInterval({ low, high, unit }) {
  if (known(low)) return `95 % interval ${intervalText(low, high)}`;
  return `no interval: ${unit === "summary" ? "summaries only" : `a single ${unit} a side`}`;
}

function counts() {
  const found = page.verdicts.map((verdict, rank) => [verdict, page.counts[rank]]);
  return found.filter(([, count]) => count > 0).map(([verdict, count]) => {
    const press = {
      type: "button", "data-verdict": verdict, "aria-pressed": "false",
      onclick: () => toggleVerdict(verdict),
    };
    return el(`button.count.${lookOf(verdict)[2]}`, press,
      sign(verdict), el("strong", {}, counted(count)), ` ${verdict}`);
  });
}
