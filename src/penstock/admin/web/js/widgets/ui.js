/** The small parts that pages are put together from. */

import { urlOf } from "../core/api.js";
import { h } from "../core/dom.js";
import { count, UNKNOWN } from "../core/format.js";
import { step } from "../core/router.js";
import { settings } from "../core/settings.js";

/** One word or two about a thing's state; kind: "" | "good" | "warn" | "bad" | "accent". */
export function badge(text, kind = "", title = null) {
  return h("span", { class: classes("badge", kind), title }, text);
}

/**
 * A figure with its name; `chart` is a small one, `href` makes all of it a link, `kind` colours it.
 *
 * @param {{label: any, value?: any, hint?: any, chart?: any, href?: string, kind?: string}} what
 */
export function tile({ label, value, hint, chart, href, kind }) {
  return h(href ? "a" : "div", { class: "tile", href, key: `tile ${label}` },
    h("span", { class: "tile-label" }, label),
    h("span", { class: classes("tile-value", kind) }, value ?? UNKNOWN),
    hint != null && hint !== "" && h("span", { class: "tile-hint" }, hint),
    chart && h("div", { class: "tile-chart" }, chart));
}

/** Tiles side by side. */
export function tiles(...each) {
  return h("div", { class: "tiles" }, each);
}

/** A remark that stands by itself; kind: "" | "good" | "warn" | "bad" | "accent". */
export function notice(kind, ...children) {
  const role = kind === "bad" ? "alert" : "status";
  return h("div", { class: classes("notice", kind), role }, h("div", {}, children));
}

/**
 * A part of a page; `tools` stand at the right of its title.
 *
 * @param {{title?: any, tools?: any, id?: string}} head
 * @param {...any} children
 */
export function section({ title, tools, id }, ...children) {
  return h("section", { class: "section", id, key: `section ${id ?? title}` },
    (title || tools) && h("div", { class: "section-head" },
      title && h("h2", {}, title),
      tools && h("div", { class: "tools" }, tools)),
    children);
}

/**
 * The title of a page: `kind` is a quiet word before it, `badges` and `tools` stand behind it.
 *
 * @param {{kind?: any, title: any, badges?: any, tools?: any}} parts
 */
export function heading({ kind, title, badges, tools }) {
  return h("div", { class: "heading" },
    h("h1", {}, kind && h("span", { class: "kind" }, kind), h("span", { class: "name" }, title)),
    badges && h("div", { class: "badges" }, badges),
    tools && h("div", { class: "tools" }, tools));
}

/** The way down to this page: [text, href] each; the last one is where one is. */
export function trail(...steps) {
  return h("nav", { class: "trail", "aria-label": "Where you are" },
    steps.map(([text, href]) => h("a", { href }, text)));
}

/** The name of the tab in the address bar, or else the first. */
export function tabOf(page, all) {
  return all.find(({ name }) => name === page.query.tab)?.name ?? all[0].name;
}

/** Tabs; which one is open stands in the query as `tab`, the first one is not mentioned. */
export function tabs(page, all) {
  const open = tabOf(page, all);
  return h("nav", { class: "tabs", "aria-label": "Parts of this page" }, all.map((tab, at) => {
    const choice = at ? tab.name : null;
    return h("a", {
      key: tab.name,
      href: urlOf(location.pathname.slice(settings.basePath.length), { ...page.query, tab: choice }),
      "aria-current": tab.name === open ? "page" : null,
      onclick: (event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey) return;
        event.preventDefault();
        step({ tab: choice });
      },
    }, tab.title, tab.count != null && h("span", { class: "tab-count" }, count(tab.count)));
  }));
}

/** Names with their values, [[label, value], ...]; pairs without a value are left out. */
export function facts(pairs) {
  const known = pairs.filter((pair) => pair && pair[1] != null && pair[1] !== "");
  return h("dl", { class: "facts" }, known.map(([label, value]) =>
    h("div", { key: label }, h("dt", {}, label), h("dd", {}, value))));
}

/** What stands in place of a list without anything in it: what that means, and what to do next. */
export function empty(title, ...hint) {
  return h("div", { class: "empty" },
    h("p", { class: "empty-title" }, title),
    hint.length > 0 && h("p", {}, hint));
}

/**
 * A button; kind: "" | "primary" | "danger" | "quiet". All else are properties of the element.
 *
 * @param {any} text
 * @param {{kind?: string, [property: string]: any}} [props]
 */
export function button(text, { kind = "", ...props } = {}) {
  return h("button", { type: "button", class: classes("button", kind), ...props }, text);
}

/** A bar in parts, [{label, value, kind}]: as wide as their values, and told in words to the blind. */
export function bar(parts) {
  const told = parts.filter(({ value }) => value > 0);
  const label = told.map((part) => `${part.label} ${count(part.value)}`).join(", ") || "nothing";
  return h("span", { class: "bar", role: "img", "aria-label": label, title: label },
    told.map(({ label, value, kind }) =>
      h("span", { key: label, class: classes("bar-part", kind), style: { "flex-grow": value } })));
}

/** Keys to press, as on a keyboard: keys("g", "t"). */
export function keys(...names) {
  return h("span", { class: "keys" }, names.map((name) => h("kbd", {}, name)));
}

const narrow = matchMedia("(max-width: 640px)");

/** Controls that a phone folds away under a title, unless they are in use. */
export function folded(title, content, isInUse = false) {
  if (!narrow.matches) return content;
  return h("details", { class: "folded", key: title, open: isInUse }, h("summary", {}, title), content);
}

/** A quiet placeholder while the first load runs. */
export function loading(text = "Loading") {
  return h("div", { class: "loading", role: "status" }, h("span", { class: "hidden" }, text));
}

/** Class names of what is not empty. */
export function classes(...names) {
  return names.filter(Boolean).join(" ");
}
