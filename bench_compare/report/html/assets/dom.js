// How nodes are made. Texts from documents only ever become text nodes.

import { known } from "./format.js";
import { lookOf } from "./looks.js";

// el("a.name", {href: "#x"}, "text", node): classes after dots, attributes, then children.
export function el(spec, attributes = {}, ...children) {
  const [tag, ...classes] = spec.split(".");
  const node = document.createElement(tag);
  if (classes.length) node.className = classes.join(" ");
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && known(value)) node.setAttribute(name, value);
  }
  const flat = children.flat(Infinity).filter(known);
  node.append(...flat.map((child) => (child instanceof Node ? child : String(child))));
  return node;
}

// Heads are texts or [text, classes]; a row is its cells, nodes or texts.
export function table(kind, heads, rows) {
  const head = heads.map((one) => [one].flat())
    .map(([text, classes]) => el("th", { scope: "col", class: classes }, text));
  const isCell = (one) => one instanceof Element && /^T[DH]$/.test(one.tagName);
  const cell = (one) => (isCell(one) ? one : el("td", {}, one));
  return el(`table.${kind}`, {},
    heads.length ? el("thead", {}, el("tr", {}, head)) : null,
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map(cell)))));
}

export const rowHead = (...children) => el("th", { scope: "row" }, children);
export const number = (text) => el("td.number", {}, text);
export const numbered = (heads) => heads.map((head, at) => (at ? [head, "number"] : head));
export const scrolling = (node) => el("div.scroll", {}, node);

export const byId = (id) => document.getElementById(id);
export const fill = (id, ...children) =>
  byId(id).replaceChildren(...children.flat(Infinity).filter(known));

export const sign = (verdict) =>
  el("span.sign", { "aria-hidden": "true" }, lookOf(verdict)[0]);

export function badge(verdict, provisional = false) {
  const text = provisional ? `${verdict}, provisional` : verdict;
  return el(`span.verdict.${lookOf(verdict)[2]}`, {}, sign(verdict), text);
}
