// Light and dark: the system's choice until the reader makes one.

import { byId } from "./dom.js";
import { lookOf } from "./looks.js";

const THEMES = ["auto", "light", "dark"];
const TITLES = { auto: "◐ Auto", light: "○ Light", dark: "● Dark" };
const systemDark = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = [];
let theme = "auto";

const styleOf = () => getComputedStyle(document.documentElement);
export const color = (name) => styleOf().getPropertyValue(`--${name}`).trim();
export const toneColor = (verdict) => color(`tone-${lookOf(verdict)[2]}`);
export const sideColor = (place) => color(place ? "side-other" : "side-base");
export const onTheme = (redraw) => listeners.push(redraw);

function setTheme(next) {
  theme = next;
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  const button = byId("theme");
  button.textContent = TITLES[theme];
  button.setAttribute("aria-label", `Colours: ${theme}; press to change`);
  for (const redraw of listeners) redraw();
}

export function showTheme() {
  setTheme("auto");
  const turn = () => setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]);
  byId("theme").addEventListener("click", turn);
  systemDark.addEventListener("change", () => setTheme(theme));
}
