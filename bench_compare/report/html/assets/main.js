// The page that the data is of; sections of the others are taken out.

import { byId, commandLine, el, fill, page, showTheme } from "./base.js";
import { showComparison } from "./compare.js";
import { showRun } from "./single.js";
import { showTables } from "./tables.js";

const PAGES = { compare: showComparison, single: showRun, tables: showTables };

for (const node of document.querySelectorAll("[data-for]")) {
  if (!node.dataset.for.split(" ").includes(page.kind)) node.remove();
}
byId("eyebrow").textContent = page.eyebrow;
const TONES = { PASS: "good", FAIL: "bad", UNDECIDED: "odd" };
const { word, sentence, hint } = page.conclusion;
const verdict = el(`span.answer.${TONES[word]}`, {}, `${word}:`);
fill("conclusion", verdict, ` ${sentence.replaceAll(" %", "\u00a0%")}`);
fill("hint", hint === null ? null : commandLine(["To decide:", hint]));
showTheme();
PAGES[page.kind]();
