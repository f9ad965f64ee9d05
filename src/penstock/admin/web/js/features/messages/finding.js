/**
 * Search in a topic's logs, done by the server a second at a time: what it has looked at is shown
 * while it runs, and it ends when somebody stops it, when much is found, or after a while. What is
 * looked for stands in the query.
 */

import { post, remark } from "../../core/api.js";
import { h } from "../../core/dom.js";
import { bytes, count } from "../../core/format.js";
import { setQuery, step } from "../../core/router.js";
import { settings } from "../../core/settings.js";
import { button, empty, notice } from "../../widgets/ui.js";
import { localOf, menu, timeOf } from "./place.js";
import { askToReplay } from "./replay.js";

const KINDS = [["text", "Text"], ["json", "JSON field"], ["regex", "Regular expression"]];
const HINTS = {
  text: "a part of the body, in any case",
  json: "such as $.customer.id = 42 or items[*].sku",
  regex: "such as error (\\d+), as RE2 has it",
};
const AT_ONCE = 50;
const FOUND_MAX = 200; // more of them, or more time, only if somebody wants it
const SHOWN_MAX = 1000;
const PAUSE_MS = 60_000;

/**
 * The search of a topic, on `node()` or, while that is empty, on all nodes.
 *
 * @returns {{bar, isOpen, results}} `bar()`: where one says what to look for; `results(list, tools)`:
 *   what is found, by `list(messages)`, with `tools(messages)` beside
 */
export function finder(page, { topic, node }) {
  const search = { page, topic, node, typed: null, of: "", run: null };
  page.leave(() => stop(search));
  return {
    bar: () => bar(search),
    isOpen: () => isOpen(page),
    results: (list, tools) => results(search, list, tools),
  };
}

function isOpen({ query }) {
  return Boolean(query.q);
}

/** What is looked for, as the API wants it. */
function wishOf({ page: { query }, topic, node }) {
  const kind = KINDS.some(([name]) => name === query.in) ? query.in : "text";
  return { topic, node: node(), kind, what: query.q ?? "", from: query.since ?? "oldest",
    until: query.until ?? "newest" };
}

// --- looking -------------------------------------------------------------------------------------

function begin(search) {
  stop(search);
  const wish = wishOf(search);
  search.of = JSON.stringify(wish);
  search.run = { wish, next: wish.from, range: null, found: [], lookedAt: 0, bytes: 0, left: null,
    remarks: new Set(), error: "", isRunning: false, isStopped: false };
  goOn(search, search.run);
}

function stop({ run }) {
  if (!run) return;
  run.isStopped = true;
  run.request?.abort();
}

async function goOn({ page }, run) {
  if (run.isRunning) return;
  Object.assign(run, { isRunning: true, isStopped: false, error: "" });
  const ends = { found: Math.min(run.found.length + FOUND_MAX, SHOWN_MAX),
    at: performance.now() + PAUSE_MS };
  const isOver = () => run.next === null || run.isStopped || run.found.length >= ends.found
    || performance.now() >= ends.at;
  try {
    while (!isOver()) {
      run.request = new AbortController();
      const limit = Math.min(AT_ONCE, ends.found - run.found.length);
      const wish = { ...run.wish, from: run.next, limit };
      take(run, await post("/api/messages/search", wish, run.request.signal));
      page.redraw();
    }
  } catch (error) {
    if (!run.isStopped) run.error = error.message;
  }
  run.isRunning = false;
  page.redraw();
}

function take(run, answer) {
  run.range ??= answer.range;
  run.next = answer.next;
  run.left = answer.left;
  run.lookedAt += answer.looked_at;
  run.bytes += answer.bytes;
  run.found.push(...answer.messages);
  if (answer.message) run.remarks.add(remark(answer.message));
}

// --- what is seen --------------------------------------------------------------------------------

function bar(search) {
  const { page } = search;
  const wish = wishOf(search);
  const typed = (search.typed ??= { what: wish.what, kind: wish.kind,
    since: localOf(page.query.since), until: localOf(page.query.until) });
  const change = (part) => (value) => {
    typed[part] = value;
    page.redraw();
  };
  const submit = (event) => {
    event.preventDefault();
    const parts = { q: typed.what, in: typed.kind === "text" ? null : typed.kind,
      since: timeOf(typed.since), until: timeOf(typed.until), open: null };
    const isSame = Object.entries(parts).every(([name, value]) => (page.query[name] ?? "") === (value ?? ""));
    if (isSame && typed.what) begin(search);
    else step(parts);
  };
  return h("form", { class: "table-tools finder", key: "finder", role: "search", onsubmit: submit },
    menu("Search for", KINDS, typed.kind, change("kind")),
    h("input", {
      class: "input grow", type: "text", value: typed.what, required: true, maxlength: "1000",
      "aria-label": "Condition", placeholder: HINTS[typed.kind], autocomplete: "off",
      spellcheck: "false", oninput: (event) => change("what")(event.target.value),
    }),
    time("From", typed.since, change("since")),
    time("Until", typed.until, change("until")),
    button("Search", { type: "submit", kind: "primary" }));
}

function time(name, value, change) {
  return h("label", { class: "pick" }, `${name} `, h("input", {
    class: "input", type: "datetime-local", step: "1", value,
    title: name === "From" ? "Empty: the oldest that is kept" : "Empty: up to now",
    oninput: (event) => change(event.target.value),
  }));
}

function close(search) {
  stop(search);
  Object.assign(search, { run: null, of: "", typed: null });
  setQuery({ q: null, in: null, since: null, until: null, open: null });
}

function results(search, list, tools) {
  if (search.of !== JSON.stringify(wishOf(search))) {
    search.typed = null;
    begin(search);
  }
  const { run } = search;
  const all = run.lookedAt + (run.left ?? 0);
  return h("div", { class: "browse", key: "found" },
    h("div", { class: "table-tools search-state" },
      h("progress", { max: Math.max(all, 1), value: run.lookedAt, "aria-label": "Looked at" }),
      h("span", { role: "status", class: "soft" }, progress(run, all)),
      h("div", { class: "tools" }, tools(run.found), controls(search, run),
        button("Close search", { onclick: () => close(search) }))),
    run.error && notice("bad", explained(run.error)),
    [...run.remarks].map((remark) => notice("warn", remark)),
    run.found.length > 0 ? list(run.found)
      : run.next === null && empty("Nothing found", `No message of ${search.topic} matches.`));
}

function progress(run, all) {
  const looked = `${count(run.lookedAt)} of ${count(all)} messages looked at (${bytes(run.bytes)})`;
  const found = `${count(run.found.length)} found`;
  if (run.isRunning) return `Searching: ${looked}, ${found}`;
  if (run.next === null) return `Done: ${looked}, ${found}`;
  const more = run.found.length >= SHOWN_MAX ? "; narrow the search to see others" : "";
  return `Stopped: ${looked}, ${found}${more}`;
}

function controls(search, run) {
  if (run.isRunning) return button("Stop", { onclick: () => stop(search) });
  return [
    run.next !== null && run.found.length < SHOWN_MAX &&
      button("Go on", { onclick: () => goOn(search, run) }),
    settings.isAdmin && run.found.length > 0 && run.range && button("Replay all that match", {
      onclick: () => askToReplay(search.page, { topic: search.topic, wish: run.wish, range: run.range }),
    }),
  ];
}

const REFUSALS = {
  TOO_MANY_SEARCHES: "Others search right now, and nsqadmin lets only some at a time: go on in a moment.",
  NOT_OFFERED: "No node keeps a log to look into: they are Go's nsqd, or of an older version.",
  TOPIC_NOT_FOUND: "No node has the topic any more.",
  INVALID_ARG_FROM: "There is no such place to begin at.",
};

function explained(message) {
  return REFUSALS[message] ?? message.replace("INVALID_ARG_WHAT: ", "This cannot be searched for: ");
}
