/** A list of messages: filtered, chosen from, and each opens to its body. */

import { get } from "../core/api.js";
import { h } from "../core/dom.js";
import { bytes } from "../core/format.js";
import { setQuery } from "../core/router.js";
import { bodyOf, bodyView, firstLine } from "./body.js";
import { button, classes, empty, facts } from "./ui.js";

const GAP = ".";
const PREVIEW_MAX = 65_536;
const ROOMY = "(min-width: 900px)";

/** The column of what is listed in the order of the log. */
export const OFFSET = {
  name: "offset", title: "Offset", numeric: true, turns: true, cell: ({ offset }) => String(offset),
};
/** The column of what is delivered more than once. */
export const ATTEMPTS = {
  name: "attempts", title: "Attempts", numeric: true, wide: true, cell: ({ attempts }) => attempts,
};
const SIZE = {
  name: "size", title: "Size", numeric: true, wide: true, cell: ({ size }) => bytes(size),
};

/**
 * A list of messages of `topic` on `node()`, or each on its own `node`. Which are open (`open`: their
 * offsets, or the ids if each names its node), the filter (`find`) and the order (`order`:
 * "desc") stand in the query.
 *
 * - `columns`: each `{name, title, hint, numeric, wide, turns, cell(message)}`, before size and body;
 *   `wide`: only where there is room. The first one opens the row; `turns`: it turns the list round;
 * - `details(message)`: pairs for `facts`, over the opened body; `more(message)`: what is between them;
 * - `canSelect`: whether there are boxes to check.
 *
 * @returns {{view, selected}} `view(messages, {isDescending, changes})`: `changes` is what cells
 *   depend on beside their message; `selected(messages)`: those of them that are checked
 */
export function messageList(page, {
  topic, node, caption, columns, details, more = null, canSelect = false,
}) {
  const list = {
    page, topic, node, caption, columns, details, more, canSelect,
    shown: [], // the columns that there is room for
    checked: new Set(), // ids
    opened: new Map(), // id -> the message with what is known of its body
    drawn: new Map(), // id -> the row as it was drawn the last time, and of what
    room: matchMedia(ROOMY),
  };
  list.room.addEventListener("change", page.redraw);
  page.leave(() => list.room.removeEventListener("change", page.redraw));
  return {
    view: (messages, how = {}) => view(list, messages, how),
    selected: (messages) => messages.filter(({ id }) => list.checked.has(id)),
  };
}

function view(list, messages, { isDescending = false, changes = null }) {
  const { page } = list;
  const wish = (page.query.find ?? "").toLowerCase();
  const found = wish ? messages.filter((message) => textOf(message).includes(wish)) : messages;
  const ordered = isDescending ? [...found].reverse() : found;
  const open = new Set((page.query.open ?? "").split(GAP));
  list.shown = [...list.columns, SIZE].filter(({ wide }) => !wide || list.room.matches);
  forget(list, messages);
  return h("div", { class: "table messages" },
    messages.length > 0 && h("table", { class: "table-box" },
      h("caption", { class: "hidden" }, list.caption),
      h("thead", {}, head(list, found, isDescending)),
      h("tbody", {}, ordered.map((message) => {
        const isOpen = open.has(nameOf(message));
        return [row(list, message, isOpen, changes), isOpen && panel(list, message)];
      }))),
    messages.length > 0 && found.length === 0 && noneFound(page.query.find));
}

function noneFound(wish) {
  return empty(`No message here has “${wish}”`,
    "The filter looks at this page alone: at offsets, ids, states, and what is shown of bodies. ",
    button("Clear the filter", { onclick: () => setQuery({ find: null }) }));
}

/** What is on the page no more is not held any longer. */
function forget({ drawn, opened, checked }, messages) {
  const here = new Set(messages.map(({ id }) => id));
  for (const held of [drawn, opened, checked]) {
    for (const id of held.keys()) if (!here.has(id)) held.delete(id);
  }
}

// --- rows ----------------------------------------------------------------------------------------

function head(list, found, isDescending) {
  const order = isDescending ? "descending" : "ascending";
  return h("tr", {},
    list.canSelect && h("td", { class: "check" }, allBox(list, found)),
    list.shown.map((column) => h("th", {
      key: column.name,
      class: look(column),
      title: column.hint,
      "aria-sort": column.turns ? order : null,
    }, column.turns ? turnButton(column, isDescending) : column.title)),
    h("th", { class: "first-line" }, "Body"));
}

function look({ name, numeric }) {
  return classes(`column-${name}`, numeric && "number");
}

function turnButton({ title }, isDescending) {
  const onclick = () => setQuery({ order: isDescending ? "asc" : "desc" });
  const arrow = h("span", { class: "arrow", "aria-hidden": "true" }, isDescending ? "↓" : "↑");
  return h("button", { type: "button", class: "sort", onclick }, title, arrow);
}

/** The same description as before when nothing of it has changed, so that it costs nothing. */
function row(list, message, isOpen, changes) {
  const { id } = message;
  const of = [message, isOpen, list.checked.has(id), list.shown.length, changes];
  const before = list.drawn.get(id);
  if (before?.of.every((each, at) => each === of[at])) return before.row;
  const [lead, ...others] = list.shown;
  const toggle = () => setQuery({ open: toggled(list.page.query.open, nameOf(message)) });
  const onclick = (event) => isAside(event) || toggle();
  const now = h("tr", { key: id, class: classes("message", isOpen && "open"), onclick },
    list.canSelect && h("td", { class: "check" }, box(list, id)),
    h("th", { scope: "row", class: look(lead) }, h("button", {
      type: "button", class: "opener", "aria-expanded": String(isOpen), onclick: toggle,
    }, lead.cell(message))),
    others.map((column) =>
      h("td", { key: column.name, class: look(column) }, column.cell(message))),
    h("td", { class: "first-line" }, h("bdi", {}, firstLine(message))));
  list.drawn.set(id, { of, row: now });
  return now;
}

/** A click on something in the row, or the end of selecting text. */
function isAside(event) {
  const isOnPart = event.target.closest("a, button, input, .check") !== null;
  return isOnPart || getSelection().toString() !== "";
}

/** The name of a message in the query: on several nodes there are messages of the same offset. */
function nameOf({ node, offset, id }) {
  return node ? id : String(offset);
}

function toggled(open, name) {
  const now = new Set((open ?? "").split(GAP));
  if (!now.delete(name)) now.add(name);
  return [...now].filter(Boolean).join(GAP);
}

// --- bodies --------------------------------------------------------------------------------------

function panel(list, message) {
  const { message: whole, remark } = opened(list, message);
  return h("tr", { key: `body of ${message.id}`, class: "message-body" },
    h("td", { colspan: list.shown.length + 1 + list.canSelect },
      h("div", { class: "message-panel" },
        facts(list.details(message)), list.more?.(message), bodyView(list.page, whole, remark))));
}

/** The message with its whole body, or 64 KiB of it; asked for once. */
function opened(list, message) {
  if (!list.opened.has(message.id)) {
    const entry = { message, remark: "" };
    list.opened.set(message.id, entry);
    if (message.truncated) load(list, entry);
  }
  return list.opened.get(message.id);
}

async function load({ page, topic, node }, entry) {
  const { offset, id, node: own } = entry.message;
  entry.remark = "loading the rest";
  try {
    const query = { topic, node: own ?? node(), from: offset, limit: 1, preview: PREVIEW_MAX };
    const { messages } = await get("/api/messages", query);
    const found = messages.find((message) => message.id === id);
    entry.remark = found ? "" : "the log does not hold it any more";
    entry.message = found ? { ...entry.message, ...found, truncated: found.truncated } : entry.message;
  } catch (error) {
    entry.remark = error.message;
  }
  page.redraw();
}

// --- choosing and finding ------------------------------------------------------------------------

function box(list, id) {
  return h("input", {
    type: "checkbox", checked: list.checked.has(id), "aria-label": `Choose ${id}`,
    onchange: () => choose(list, [id], !list.checked.has(id)),
  });
}

function allBox(list, found) {
  const all = found.filter(({ id }) => list.checked.has(id)).length;
  return h("input", {
    type: "checkbox",
    "aria-label": "Choose all of this page",
    checked: found.length > 0 && all === found.length,
    indeterminate: all > 0 && all < found.length,
    onchange: () => choose(list, found.map(({ id }) => id), all < found.length),
  });
}

function choose({ page, checked }, ids, isChosen) {
  for (const id of ids) {
    if (isChosen) checked.add(id);
    else checked.delete(id);
  }
  page.redraw();
}

/** What the filter looks at. */
function textOf(message) {
  const { id, offset, node, state, origin } = message;
  const from = origin ? [origin.topic, origin.channel, origin.id] : [];
  return [offset, id, node, state, ...from, bodyOf(message).text].join("\n").toLowerCase();
}

/** A box to filter the messages of a page by. */
export function filterBox(page) {
  return h("input", {
    type: "search",
    class: "input",
    placeholder: "Filter this page",
    "aria-label": "Filter this page",
    title: "Key: f",
    autocomplete: "off",
    spellcheck: "false",
    value: page.query.find ?? "",
    oninput: (event) => setQuery({ find: event.target.value }),
  });
}
