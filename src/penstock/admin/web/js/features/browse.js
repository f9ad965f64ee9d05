/** Through the messages of a node, a page at a time; which node and which page is in the query. */

import { h } from "../core/dom.js";
import { clock, count } from "../core/format.js";
import { setQuery, step } from "../core/router.js";
import { tell } from "../widgets/dialog.js";
import { filterBox } from "../widgets/list.js";
import { button, empty, loading, notice } from "../widgets/ui.js";

const LIMITS = [50, 200, 1000];
const NOT_OFFERED = 501;
const TEXTS = {
  NODE_NOT_FOUND: "This node is not one of the cluster any more.",
  TOPIC_NOT_FOUND: "This node does not have the topic.",
  CHANNEL_NOT_FOUND: "This node does not have the channel.",
  INVALID_ARG_FROM: "There is no such place to begin at: it is oldest, newest or an offset.",
};

/**
 * Pages of what `ask({node, from, limit}, signal)` resolves to, on the node that is chosen.
 *
 * - `nodes()`: the addresses to choose from, null as long as they are not known;
 * - `start`: "oldest" or "newest", where it begins unless the query says so; empty where pages are
 *   not by offset;
 * - `seconds`: how often the page is asked for again; 0: when somebody wants it.
 *
 * @returns {{view, node}} `view(list, tools)`, where `list(answer, isDescending)` shows a page, and
 *   `tools(answer)` is what to do with it; `node()`: the chosen one, undefined when there is none
 */
export function browse(page, { nodes, ask, start, seconds = 0 }) {
  const pages = {
    page, nodes, ask, start,
    isSeen: false,
    asked: "", // what the newest request was for
    request: null,
    found: {}, // what the last answer was: for, answer, error, at (unix seconds)
    typed: null, // an offset, until it is gone to
  };
  const again = () => pages.isSeen && nodeOf(pages) && !pages.request && fetchPage(pages);
  page.load(async () => again(), seconds);
  page.leave(() => pages.request?.abort());
  return {
    node: () => nodeOf(pages),
    view: (list, tools = () => null) => view(pages, list, tools),
  };
}

// --- what is wished for --------------------------------------------------------------------------

function nodeOf({ page, nodes }) {
  const known = nodes() ?? [];
  return known.includes(page.query.node) ? page.query.node : known[0];
}

function wishOf(pages) {
  const { page, start } = pages;
  const limit = LIMITS.find((each) => String(each) === page.query.limit) ?? LIMITS[0];
  return { node: nodeOf(pages), from: page.query.from ?? start, limit };
}

function isDescending({ page, start }) {
  const byDefault = (page.query.from ?? start) === "newest" ? "desc" : "asc";
  return (page.query.order ?? byDefault) === "desc";
}

async function fetchPage(pages) {
  pages.request?.abort();
  const { signal } = (pages.request = new AbortController());
  const wish = wishOf(pages);
  const now = { for: (pages.asked = JSON.stringify(wish)) };
  try {
    now.answer = await pages.ask(wish, signal);
  } catch (error) {
    now.error = error;
    now.answer = pages.found.for === now.for ? pages.found.answer : undefined;
  }
  if (signal.aborted) return;
  pages.request = null;
  pages.found = { ...now, at: Date.now() / 1000 };
  pages.page.redraw();
}

// --- what is shown -------------------------------------------------------------------------------

function view(pages, list, tools) {
  const { page, nodes, found } = pages;
  const wish = wishOf(pages);
  if (!nodes()) return loading();
  if (!wish.node) return empty("No node has it", "nsqadmin knows no node that has this topic.");
  const wished = JSON.stringify(wish);
  if (pages.isSeen && wished !== pages.asked) fetchPage(pages);
  const { answer, error } = found.for === wished ? found : {};
  const seen = () => {
    pages.isSeen = true;
    page.redraw();
    return () => (pages.isSeen = false);
  };
  return h("div", { class: "browse", key: "browse", onmount: seen },
    h("div", { class: "table-tools" },
      nodeMenu(nodes(), wish.node),
      pages.start && placeTools(pages, wish.from),
      limitMenu(wish.limit),
      filterBox(page),
      h("div", { class: "tools" }, tools(answer), button("Refresh", {
        onclick: () => fetchPage(pages), title: found.at && `As it was at ${clock(found.at)}`,
      }))),
    error && refusal(error, wish.node),
    answer?.message && notice("warn", answer.message),
    answer ? [list(answer, isDescending(pages)), pager(pages, wish, answer)] : !error && loading());
}

function refusal(error, node) {
  if (error.status !== NOT_OFFERED) return notice("bad", TEXTS[error.message] ?? error.message);
  return empty("This node shows nobody its messages",
    `${node} does not let anybody look at messages without consuming them: `,
    "it is a Go nsqd, or of an older version.");
}

function nodeMenu(nodes, chosen) {
  const choose = (node) => step({ node, from: null, open: null, order: null });
  return menu("Node", nodes, chosen, choose);
}

function limitMenu(chosen) {
  const choose = (limit) => setQuery({ limit: limit === String(LIMITS[0]) ? null : limit });
  return menu("Rows", LIMITS.map(String), String(chosen), choose);
}

function menu(name, choices, chosen, choose) {
  const onchange = (event) => choose(event.target.value);
  return h("label", { class: "pick" }, `${name} `,
    h("select", { class: "input", value: chosen, onchange },
      choices.map((choice) => h("option", { key: choice, value: choice }, choice))));
}

// --- from page to page ---------------------------------------------------------------------------

function move(from, order = null) {
  step({ from, order, open: null });
}

function placeTools(pages, from) {
  const isOffset = from !== "oldest" && from !== "newest";
  const goTo = (place) => {
    pages.typed = null;
    move(place);
  };
  const choice = (place, text) => h("button", {
    type: "button", "aria-pressed": String(from === place), onclick: () => goTo(place),
  }, text);
  const go = (event) => {
    event.preventDefault();
    goTo(pages.typed ?? from);
  };
  return [
    h("div", { class: "choice", role: "group", "aria-label": "Begin at" },
      choice("oldest", "Oldest"), choice("newest", "Newest")),
    h("form", { class: "pick", onsubmit: go }, h("label", {}, "Offset ", h("input", {
      class: "input offset",
      type: "text",
      inputmode: "numeric",
      pattern: "[0-9]{1,19}",
      required: true,
      title: "The page begins at this number; Enter goes there",
      autocomplete: "off",
      value: pages.typed ?? (isOffset ? from : ""),
      oninput: (event) => (pages.typed = event.target.value),
    }))),
  ];
}

function pager(pages, wish, { messages, next }) {
  const first = messages[0]?.offset;
  const order = isDescending(pages) ? "desc" : "asc";
  const later = (turned) => ({ disabled: next == null, onclick: () => move(next, turned) });
  if (!pages.start) {
    return h("div", { class: "pager" },
      button("‹ From the beginning", { disabled: !wish.from, onclick: () => move(null) }),
      h("span", { class: "faint" }, `${count(messages.length)} on this page`),
      button("Later ›", later(null)));
  }
  return h("div", { class: "pager" },
    button("‹ Earlier", { disabled: !first, onclick: () => earlier(pages, wish, first, order) }),
    h("span", { class: "faint" }, rangeOf(messages)),
    button("Later ›", later(order)));
}

function rangeOf(messages) {
  if (!messages.length) return "Nothing on this page";
  const [first, last] = [messages[0], messages.at(-1)].map(({ offset }) => count(offset));
  if (first === last) return `Offset ${first}`;
  return `${count(messages.length)} messages, offsets ${first} to ${last}`;
}

/** What a channel still needs has gaps: steps back until there is something before `first`. */
async function earlier({ ask }, { node, limit }, first, order) {
  try {
    for (let step = limit; ; step *= 2) {
      const from = Math.max(0, first - step);
      const { messages } = await ask({ node, from, limit: 1, preview: 0 });
      if (messages.length && messages[0].offset < first) {
        move(from, order);
        return;
      }
      if (from === 0) {
        tell("There is nothing earlier", "warn");
        return;
      }
    }
  } catch (error) {
    tell(error.message, "bad");
  }
}
