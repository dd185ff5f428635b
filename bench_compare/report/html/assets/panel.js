// The panel of a case: its part of a packed block, shown in a dialog that follows the address.

import { all, byId, nodeOf, page, unpacked } from "./base.js";
import { showCharts } from "./charts.js";
import { addressOf, main, readAddress } from "./list.js";

const blocks = new Map();
const placeOf = new Map(page.panels.map((id, place) => [id, place]));
let open = "";

async function contentOf(place) {
  const number = Math.floor(place / page.chunk);
  if (!blocks.has(number)) blocks.set(number, unpacked(`block-${number}`));
  return (await blocks.get(number))[place % page.chunk];
}

const rowId = ([markup]) => /data-id="([^"]*)"/.exec(markup)?.[1];
const shownIds = () => main().shown.map((at) => rowId(main().rows[at]));

// Where it stands among the rows that are shown, and the ways to the next.
function bar(id) {
  const ids = shownIds(), at = ids.indexOf(id);
  const made = document.createElement("div");
  made.className = "panel-bar";
  const where = document.createElement("span");
  where.className = "note grow";
  where.textContent = at >= 0 ? `${at + 1} of ${ids.length} shown` : "";
  const button = (sign, title, act, off = false) => {
    const one = document.createElement("button");
    Object.assign(one, { type: "button", className: "quiet", textContent: sign, disabled: off });
    one.setAttribute("aria-label", title);
    one.addEventListener("click", act);
    return one;
  };
  made.append(where,
    button("‹", "Previous case", () => move(-1), at < 1),
    button("›", "Next case", () => move(1), at < 0 || at + 1 >= ids.length),
    button("✕", "Close", () => byId("panel").close()));
  return made;
}

function move(step) {
  const ids = shownIds(), next = ids[ids.indexOf(open) + step];
  if (step && next !== undefined) location.replace(addressOf(next));
}

// The address without a reload, and without an anchor if nothing differs.
export function remember() {
  const hash = addressOf(open);
  history.replaceState(null, "", hash === "#" ? location.pathname + location.search : hash);
}

async function openCase(id) {
  const panel = byId("panel"), held = document.activeElement?.getAttribute("aria-label");
  open = id;
  remember();
  if (!panel.open) panel.showModal();
  try {
    const [markup, figures] = await contentOf(placeOf.get(id));
    if (open !== id) return;
    panel.replaceChildren(bar(id), nodeOf(markup));
    showCharts(panel, figures);
  } catch (error) {
    panel.replaceChildren(bar(id), document.createTextNode(error.message));
  }
  panel.scrollTop = 0;
  panel.dataset.case = id;
  const again = all("button", panel).find((one) => one.getAttribute("aria-label") === held);
  (again && !again.disabled ? again : panel).focus();
}

// What the address names is opened: a panel, or a place on the page.
export function followAddress() {
  const id = readAddress(), panel = byId("panel"), node = id ? byId(id) : null;
  if (placeOf.has(id)) {
    openCase(id);
  } else {
    if (panel?.open) panel.close();
    const box = node?.closest("details");
    if (box) box.open = true;
    node?.scrollIntoView({ block: "center" });
  }
}

export function listen() {
  window.addEventListener("hashchange", followAddress);
  document.addEventListener("click", (event) => {
    const row = event.target.closest("tr[data-id]");
    if (!row || event.target.closest("a, summary") || String(window.getSelection())) return;
    location.hash = addressOf(row.dataset.id);
  });
  const panel = byId("panel");
  panel?.addEventListener("close", () => {
    open = "";
    remember();
  });
  panel?.addEventListener("click", ({ target }) => { if (target === panel) panel.close(); });
  document.addEventListener("keydown", (event) => {
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    if (panel?.open) move(STEPS[event.key] ?? 0);
    else if (event.key === "/") focusSearch(event);
  });
}

const STEPS = { ArrowRight: 1, ArrowLeft: -1 };

function focusSearch(event) {
  const search = main()?.search;
  if (!search) return;
  event.preventDefault();
  search.focus();
}
