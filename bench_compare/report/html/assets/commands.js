// Command lines that a reader copies.

import { el } from "./dom.js";

export function commandLine([reason, command]) {
  const copy = el("button.quiet", { type: "button", onclick: () => copied(copy, command) }, "Copy");
  return el("div", {}, el("p", {}, reason), el("div.command", {}, el("pre", {}, command), copy));
}

async function copied(button, text) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select it";
  }
}
