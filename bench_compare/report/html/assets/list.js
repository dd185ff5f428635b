// Tables that are searched, sorted and shown a hundred rows at a time. What is chosen of the table
// of cases is kept in the address, so that a link shows the same.

import { all, nodeOf, page, unpacked } from "./base.js";

const STEP = 100;
const compared = (a, b) => {
  if (a === null || b === null) return (a === null) - (b === null);
  if (typeof a === "number" && typeof b === "number") return b - a;
  return String(a) < String(b) ? -1 : String(a) > String(b) ? 1 : 0;
};

// A part of a word, or with * ? a glob of the whole word, as in the command's --filter.
function fitsWord(wanted) {
  if (!/[*?]/.test(wanted)) return (text) => text.includes(wanted);
  const escaped = wanted.replace(/[.+^${}()|[\]\\]/g, "\\$&");
  const glob = new RegExp(`(^|\\s)${escaped.replace(/\*/g, "\\S*").replace(/\?/g, "\\S")}(\\s|$)`);
  return (text) => glob.test(text);
}

class List {
  constructor(section, rows) {
    this.section = section;
    this.rows = rows;
    this.chosen = { find: "", state: "", sort: "", order: "" };
    this.search = section.querySelector("input");
    this.select = section.querySelector("select");
    this.body = section.querySelector("tbody");
    this.button = section.querySelector(".more");
    this.listeners = [];
    this.listen();
  }

  listen() {
    let pause;
    this.search?.addEventListener("input", () => {
      clearTimeout(pause);
      pause = setTimeout(() => this.choose({ find: this.search.value }), 60);
    });
    this.select?.addEventListener("change", () =>
      this.choose({ sort: this.select.value, order: "" }));
    for (const chip of all(".chip", this.section)) {
      chip.addEventListener("click", () => {
        const { state } = chip.dataset;
        this.choose({ state: this.chosen.state === state ? "" : state });
      });
    }
    for (const head of all(".head", this.section)) {
      head.addEventListener("click", () => {
        const again = this.chosen.sort === head.dataset.key && !this.chosen.order;
        this.choose({ sort: head.dataset.key, order: again ? "reversed" : "" });
      });
    }
    this.button.addEventListener("click", () => this.drawMore());
  }

  // The rows that fit, in the chosen order. Every word of the search has to fit.
  choose(changes) {
    Object.assign(this.chosen, changes);
    const { find, state, sort, order } = this.chosen;
    const tests = find.trim().toLowerCase().split(/\s+/).filter(Boolean).map(fitsWord);
    const fits = ([, words, is]) => (!state || is === state) && tests.every((test) => test(words));
    this.shown = [...this.rows.keys()].filter((at) => fits(this.rows[at]));
    if (sort !== "") {
      const key = (at) => this.rows[at][3][sort];
      this.shown.sort((a, b) => compared(key(a), key(b)) || a - b);
    }
    if (order) this.shown.reverse();
    this.redraw();
    for (const listener of this.listeners) listener();
  }

  redraw() {
    this.body.replaceChildren();
    this.drawn = 0;
    this.drawMore();
    const some = this.shown.length, total = this.rows.length;
    const told = this.section.querySelector(".shown");
    if (told) told.textContent = some === total ? `${total} rows` : `${some} of ${total} rows`;
    if (this.search && document.activeElement !== this.search) this.search.value = this.chosen.find;
    if (this.select) this.select.value = this.chosen.sort;
    for (const chip of all(".chip", this.section)) {
      chip.setAttribute("aria-pressed", String(chip.dataset.state === this.chosen.state));
    }
    for (const head of all(".head", this.section)) {
      const way = this.chosen.order ? "descending" : "ascending";
      if (head.dataset.key === this.chosen.sort) head.parentNode.setAttribute("aria-sort", way);
      else head.parentNode.removeAttribute("aria-sort");
    }
  }

  drawMore() {
    const next = this.shown.slice(this.drawn, this.drawn + STEP);
    this.body.append(nodeOf(next.map((at) => this.rows[at][0]).join("")));
    this.drawn += next.length;
    const left = this.shown.length - this.drawn;
    this.button.hidden = left === 0;
    this.button.textContent = `Show ${Math.min(left, STEP)} more of ${left}`;
  }
}

const lists = [];
export const main = () => lists.find(({ section }) => section.id === "list");

export async function showLists() {
  const rows = await unpacked("rows");
  for (const section of all("section.list")) {
    lists.push(new List(section, rows[Number(section.dataset.rows)]));
  }
  for (const list of lists) list.choose({ find: list === main() ? page.filter : "" });
}

// #find=conv&sort=3&state=slower&case=c0004, or #c0004 alone: what differs from the page as made.
export function addressOf(id) {
  const words = new URLSearchParams(), list = main();
  for (const [name, value] of Object.entries(list ? list.chosen : {})) {
    if (value !== (name === "find" ? page.filter : "")) words.set(name, value);
  }
  if (![...words].length) return `#${id}`;
  if (id) words.set("case", id);
  return `#${words}`;
}

// The id that the address names; a bare one leaves the selection as it is.
export function readAddress() {
  const hash = decodeURIComponent(location.hash.slice(1)), list = main();
  if (!hash.includes("=") || !list) return hash;
  const words = new URLSearchParams(location.hash.slice(1));
  const known = (name, among) => (among.includes(words.get(name)) ? words.get(name) : "");
  list.choose({
    find: words.get("find") ?? page.filter,
    state: known("state", all(".chip", list.section).map((chip) => chip.dataset.state)),
    sort: known("sort", all(".head", list.section).map((head) => head.dataset.key)),
    order: words.get("order") === "reversed" ? "reversed" : "",
  });
  return words.get("case") ?? "";
}
