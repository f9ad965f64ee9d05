/** Where a page of messages begins: at an end of the log, at an offset, at a time, on which node. */

import { h } from "../../core/dom.js";
import { localTime } from "../../core/format.js";
import { setQuery, step } from "../../core/router.js";
import { button } from "../../widgets/ui.js";

/** The choice of all nodes at once, in the query and in the menu. */
export const ALL = "all";
const TIME = /^time:(\d+)$/;
const OF_EVERY_NODE = /^(oldest|newest|time:\d+)$/;

/** Goes to another page; what was opened on this one stays behind. */
export function move(from, order = null) {
  step({ from, order, open: null });
}

/** The API's text for the time in a field of type datetime-local; empty while there is none. */
export function timeOf(local) {
  const ms = new Date(local).getTime();
  return Number.isFinite(ms) && ms >= 0 ? `time:${ms}` : "";
}

/** The time of such a text, for a field of type datetime-local. */
export function localOf(text) {
  const found = TIME.exec(text ?? "");
  return found ? localTime(Number(found[1])) : "";
}

/** The menu of nodes; an offset of one node means nothing on another. */
export function nodeMenu(page, nodes, chosen, merges) {
  const choices = nodes.map((node) => [node, node]);
  if (merges && nodes.length > 1) choices.unshift([ALL, `All (${nodes.length})`]);
  return menu("Node", choices, chosen, (node) => step({
    node, from: OF_EVERY_NODE.test(page.query.from ?? "") ? page.query.from : null, open: null, order: null,
  }));
}

/** The menu of how many there are on a page; the first choice is not mentioned in the query. */
export function limitMenu(limits, chosen) {
  return menu("Rows", limits.map((each) => [String(each), String(each)]), String(chosen),
    (limit) => setQuery({ limit: limit === String(limits[0]) ? null : limit }));
}

/** A menu of [value, text] each. */
export function menu(name, choices, chosen, choose) {
  const onchange = (event) => choose(event.target.value);
  return h("label", { class: "pick" }, `${name} `,
    h("select", { class: "input", value: chosen, onchange },
      choices.map(([value, text]) => h("option", { key: value, value }, text))));
}

/**
 * The ends of the log, a time, and an offset where there is one node alone. `typed` keeps what is
 * typed until one goes there.
 */
export function placeTools(from, typed, hasOffsets) {
  const goTo = (place) => {
    typed.offset = typed.time = null;
    if (place) move(place);
  };
  const choice = (place, text) => h("button", {
    type: "button", "aria-pressed": String(from === place), onclick: () => goTo(place),
  }, text);
  const isOffset = /^\d+$/.test(from);
  return [
    h("div", { class: "choice", role: "group", "aria-label": "Begin at" },
      choice("oldest", "Oldest"), choice("newest", "Newest")),
    field({ name: "Time", type: "datetime-local", step: "1", value: typed.time ?? localOf(from),
      oninput: (text) => (typed.time = text), go: () => goTo(timeOf(typed.time ?? localOf(from))) }),
    hasOffsets && field({ name: "Offset", type: "text", class: "input offset", inputmode: "numeric",
      pattern: "[0-9]{1,19}", value: typed.offset ?? (isOffset ? from : ""),
      oninput: (text) => (typed.offset = text), go: () => goTo(typed.offset ?? from) }),
  ];
}

function field({ name, go, oninput, ...props }) {
  const submit = (event) => {
    event.preventDefault();
    go();
  };
  return h("form", { class: "pick", onsubmit: submit, key: name },
    h("label", {}, `${name} `, h("input", {
      class: "input",
      required: true,
      autocomplete: "off",
      title: "The page begins there; Enter goes there",
      ...props,
      oninput: (event) => oninput(event.target.value),
    })),
    button("Go", { type: "submit" }));
}
