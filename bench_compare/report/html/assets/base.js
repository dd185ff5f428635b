// What all modules use: the data of the page, packed blocks, the reader's colours.

export const byId = (id) => document.getElementById(id);
export const page = JSON.parse(byId("data").textContent);
export const all = (selector, node = document) => [...node.querySelectorAll(selector)];

// JSON that travels compressed in an element of its own.
export async function unpacked(id) {
  if (typeof DecompressionStream === "undefined") {
    throw new Error("this browser cannot unpack the details (it has no DecompressionStream)");
  }
  const bytes = Uint8Array.from(atob(byId(id).textContent), (sign) => sign.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).json();
}

// Markup of Python, in which every text of a document is escaped.
export function nodeOf(markup, around = "template") {
  const holder = document.createElement(around);
  // eslint-disable-next-line no-restricted-properties -- its texts are escaped
  holder.innerHTML = markup;
  return holder.content || holder;
}

const THEMES = ["auto", "light", "dark"];
const SIGNS = { auto: "◐ Auto", light: "○ Light", dark: "● Dark" };
const systemDark = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = [];
let theme = "auto";

export const isDark = () => theme === "dark" || (theme === "auto" && systemDark.matches);
export const onTheme = (redraw) => listeners.push(redraw);

function setTheme(next) {
  theme = next;
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  byId("theme").textContent = SIGNS[theme];
  byId("theme").setAttribute("aria-label", `Colours: ${theme}; press to change`);
  for (const redraw of listeners) redraw();
}

export function showTheme() {
  setTheme("auto");
  const turn = () => setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]);
  byId("theme").addEventListener("click", turn);
  systemDark.addEventListener("change", () => setTheme(theme));
}

export function listenToCopies() {
  document.addEventListener("click", async ({ target }) => {
    if (!target.matches("button.copy")) return;
    try {
      await navigator.clipboard.writeText(target.previousElementSibling.textContent);
      target.textContent = "Copied";
    } catch {
      target.textContent = "Select it";
    }
  });
}
