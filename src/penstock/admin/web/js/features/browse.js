/**
 * Through messages, a page at a time: those of a node, or of all nodes by time. Which node and which
 * page is in the query.
 */

import { remark } from "../core/api.js";
import { h } from "../core/dom.js";
import { clock, count, stamp } from "../core/format.js";
import { tell } from "../widgets/dialog.js";
import { filterBox } from "../widgets/list.js";
import { button, empty, folded, loading, notice } from "../widgets/ui.js";
import { many } from "./consequences.js";
import { ALL, limitMenu, move, nodeMenu, placeTools } from "./messages/place.js";

const LIMITS = [50, 200, 1000];
const LIMITS_OF_ALL = LIMITS.slice(0, 2); // as many are asked of each node
const NOT_OFFERED = 501;
const TEXTS = {
  NODE_NOT_FOUND: "This node is not one of the cluster any more.",
  TOPIC_NOT_FOUND: "This node does not have the topic.",
  CHANNEL_NOT_FOUND: "This node does not have the channel.",
  INVALID_ARG_FROM: "There is no such place to begin at: it is oldest, newest, a time or an offset.",
};

/**
 * Pages of what `ask({node, from, limit}, signal)` resolves to, on the node that is chosen.
 *
 * - `nodes()`: the addresses to choose from, null as long as they are not known;
 * - `start`: "oldest" or "newest", where it begins unless the query says so; empty where pages are
 *   not by offset;
 * - `seconds`: how often the page is asked for again; 0: when somebody wants it;
 * - `merges`: whether `ask` without a node answers for all of them, with `earlier` and `later`.
 *
 * @returns {{view, node, isOfAll}} `view(list, tools)`, where `list(answer, isDescending)` shows a
 *   page, and `tools(answer)` is what to do with it; `node()`: the chosen one, undefined without
 *   one; `isOfAll()`: all are chosen
 */
export function browse(page, { nodes, ask, start, seconds = 0, merges = false }) {
  const pages = {
    page, nodes, ask, start, merges,
    isSeen: false,
    asked: "", // what the newest request was for
    request: null,
    found: {}, // what the last answer was: for, answer, error, at (unix seconds)
    typed: { offset: null, time: null }, // until it is gone to
  };
  const again = () => pages.isSeen && nodeOf(pages) && !pages.request && fetchPage(pages);
  page.load(async () => again(), seconds);
  page.leave(() => pages.request?.abort());
  return {
    node: () => nodeOf(pages),
    isOfAll: () => nodeOf(pages) === ALL,
    view: (list, tools = () => null) => view(pages, list, tools),
  };
}

// --- what is wished for --------------------------------------------------------------------------

function nodeOf({ page, nodes, merges }) {
  const known = nodes() ?? [];
  if (known.includes(page.query.node)) return page.query.node;
  return merges && known.length > 1 ? ALL : known[0];
}

function wishOf(pages) {
  const { page, start } = pages;
  const node = nodeOf(pages);
  const limit = limitsOf(node).find((each) => String(each) === page.query.limit) ?? LIMITS[0];
  return { node: node === ALL ? "" : node, from: page.query.from ?? start, limit };
}

function limitsOf(node) {
  return node === ALL ? LIMITS_OF_ALL : LIMITS;
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
  const { page, nodes, found, merges } = pages;
  const node = nodeOf(pages);
  const wish = wishOf(pages);
  if (!nodes()) return loading();
  if (!node) return empty("No node has it", "nsqadmin knows no node that has this topic.");
  const wished = JSON.stringify(wish);
  if (pages.isSeen && wished !== pages.asked) fetchPage(pages);
  const { answer, error } = found.for === wished ? found : {};
  const seen = () => {
    pages.isSeen = true;
    page.redraw();
    return () => (pages.isSeen = false);
  };
  const [ends, ...places] = pages.start ? placeTools(wish.from, pages.typed, node !== ALL) : [];
  return h("div", { class: "browse", key: "browse", onmount: seen },
    h("div", { class: "table-tools" },
      nodeMenu(page, nodes(), node, merges),
      ends,
      folded("Go to, rows, filter", [places, limitMenu(limitsOf(node), wish.limit), filterBox(page)]),
      h("div", { class: "tools" }, tools(answer), button("Refresh", {
        onclick: () => fetchPage(pages), title: found.at && `As it was at ${clock(found.at)}`,
      }))),
    error && refusal(error, node),
    answer?.message && notice("warn", remark(answer.message)),
    answer ? [list(answer, isDescending(pages)), pager(pages, wish, answer)] : !error && loading());
}

function refusal(error, node) {
  if (error.status !== NOT_OFFERED) return notice("bad", TEXTS[error.message] ?? error.message);
  const [title, who] = node === ALL
    ? ["These nodes keep no log to look into", "None of them lets"]
    : ["This node keeps no log to look into", `${node} does not let`];
  return empty(title, `${who} anybody look at messages without consuming them: `,
    "they are forgotten once they are consumed. It is a Go nsqd, or of an older version.");
}

// --- from page to page ---------------------------------------------------------------------------

function pager(pages, wish, answer) {
  if ("later" in answer) return pagerOfAll(pages, answer);
  const { messages, next } = answer;
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

function pagerOfAll(pages, { messages, earlier, later }) {
  const order = isDescending(pages) ? "desc" : "asc";
  const range = messages.length
    ? [`${many(messages.length, "message")},`, stamp(messages[0].timestamp), "to",
      stamp(messages.at(-1).timestamp)].join(" ")
    : "Nothing on this page";
  return h("div", { class: "pager" },
    button("‹ Earlier", { disabled: !earlier, onclick: () => move(earlier, order) }),
    h("span", { class: "faint" }, range),
    button("Later ›", { disabled: !later, onclick: () => move(later, order) }));
}

function rangeOf(messages) {
  if (!messages.length) return "Nothing on this page";
  const [first, last] = [messages[0], messages.at(-1)].map(({ offset }) => offset);
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
