// Pieces that several sections of a history's page are made of.

import { el } from "./dom.js";
import { toneOf } from "./history_chart.js";

const SIGNS = { slower: "▲", faster: "▼", both: "◆", none: "✕" };
const STATES = {
  slower: ["▲", "bad"], faster: ["▼", "good"], same: ["●", "none"], unclear: ["○", "open"],
  absent: ["–", "none"], "not measured": ["·", "none"],
};
const OTHER_STATE = ["✕", "fatal"];

export const lookOfState = (state) => STATES[state] || OTHER_STATE;

export const eventSign = (event) =>
  el(`span.sign.${toneOf(event)}`, { "aria-hidden": "true" }, SIGNS[event.direction]);

export function stateBadge(state) {
  const [sign, tone] = lookOfState(state);
  return el(`span.verdict.${tone}`, {}, el("span.sign", { "aria-hidden": "true" }, sign), state);
}
