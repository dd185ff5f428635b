// How a verdict looks, in texts and in charts.

// Sign in texts, symbol in charts, and the tone that gives the colour: never colour alone.
const VERDICTS = new Map(Object.entries({
  broken: ["✕", "x", "fatal"],
  "newly wrong": ["≠", "cross", "fatal"],
  wrong: ["≠", "cross", "fatal"],
  removed: ["∅", "circle-x-open", "fatal"],
  "newly unsupported": ["⊘", "circle-x-open", "fatal"],
  lost: ["−", "circle-x-open", "fatal"],
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
const PLAIN = ["·", "circle", "none"];

export const lookOf = (verdict) => VERDICTS.get(verdict) || PLAIN;
