/** The deferred messages of a channel: what comes when; to be delivered now, or cancelled. */

import { get, post } from "../core/api.js";
import { h } from "../core/dom.js";
import { count, seconds, stamp } from "../core/format.js";
import { settings } from "../core/settings.js";
import { firstLine } from "../widgets/body.js";
import { ask } from "../widgets/dialog.js";
import { ATTEMPTS, messageList } from "../widgets/list.js";
import { button, empty } from "../widgets/ui.js";
import { browse } from "./browse.js";
import { many } from "./consequences.js";

const AGAIN_S = 3;
const TICK_MS = 1000;
const NAMED_MAX = 5;

/**
 * A channel's deferred messages on one node at a time, the next one first.
 *
 * @param {any} page
 * @param {{topic: string, channel: string, nodes: () => string[]|null}} of
 * @returns {() => object} the view
 */
export function deferredTab(page, { topic, channel, nodes }) {
  // takenAt: ms, of the clock that nobody sets
  const tab = { page, topic, channel, pages: null, list: null, takenAt: 0 };
  tab.pages = browse(page, {
    nodes,
    start: "",
    seconds: AGAIN_S,
    ask: async (wish, signal) => {
      const answer = await get("/api/deferred", { topic, channel, ...wish }, signal);
      tab.takenAt = performance.now();
      return answer;
    },
  });
  tab.list = messageList(page, {
    topic,
    node: tab.pages.node,
    caption: `Deferred messages of ${channel}`,
    canSelect: settings.isAdmin,
    columns: [
      { name: "left", title: "Delivered in", cell: (message) => remaining(tab, message) },
      { name: "time", title: "At", wide: true, cell: ({ deadline }) => stamp(deadline) },
      ATTEMPTS,
    ],
    details: ({ id, timestamp, deadline, attempts }) => [
      ["Id", id],
      ["Published", stamp(timestamp)],
      ["Delivered at", stamp(deadline)],
      ["Attempts", String(attempts)],
    ],
  });
  return () => h("div", { key: "deferred", onmount: () => ticking(page.redraw) },
    tab.pages.view((answer) => content(tab, answer), (answer) => tools(tab, answer)));
}

/** Draws the time that is left every second. */
function ticking(redraw) {
  const timer = setInterval(redraw, TICK_MS);
  return () => clearInterval(timer);
}

function remaining({ takenAt }, message) {
  const left = message.remaining_ms - (performance.now() - takenAt);
  return left > 0 ? seconds(Math.ceil(left / 1000)) : "now";
}

function content({ list }, answer) {
  if (!answer.messages.length && answer.next === null) {
    return empty("Nothing is deferred on this node",
      "DPUB and /pub with defer= defer messages, and so do consumers that requeue with a delay.");
  }
  const what = many(answer.count, "deferred message");
  return [
    h("p", { class: "soft" }, `${what} on this node, the next one first.`),
    list.view(answer.messages, { changes: Math.floor(performance.now() / TICK_MS) }),
  ];
}

function tools(tab, answer) {
  if (!settings.isAdmin || !answer?.count) return null;
  const chosen = tab.list.selected(answer.messages).length;
  const what = chosen ? count(chosen) : `all ${count(answer.count)}`;
  return [
    button(`Deliver ${what} now`, { onclick: () => settle(tab, "release", answer) }),
    button(`Cancel ${what}`, { kind: "danger", onclick: () => settle(tab, "cancel", answer) }),
  ];
}

// --- doing it ------------------------------------------------------------------------------------

/** Asks, and does it to the messages that are chosen, or to all of the node. */
function settle(tab, action, answer) {
  const { page, topic, channel } = tab;
  const chosen = tab.list.selected(answer.messages);
  const node = tab.pages.node();
  const those = many(chosen.length || answer.count, "deferred message");
  return ask({
    ...QUESTIONS[action](those, channel, node),
    losses: action === "cancel" ? losses(tab, chosen, answer) : [],
    run: async () => {
      const whose = chosen.length ? { ids: chosen.map(({ id }) => id) } : { all: true };
      const done = await post("/api/deferred", { action, topic, channel, node, ...whose });
      page.reload();
      return outcome(done);
    },
  });
}

const QUESTIONS = {
  release: (those, channel, node) => ({
    title: `Deliver ${those} now?`,
    body: `Consumers of ${channel} on ${node} get them without waiting for their time.`,
    action: "Deliver now",
  }),
  cancel: (those, channel, node) => ({
    title: `Cancel ${those}?`,
    body: `What is cancelled is never delivered to ${channel} on ${node}; this cannot be undone.`,
    action: "Cancel messages",
    dismiss: "Keep",
    kind: "danger",
  }),
};

function losses(tab, chosen, answer) {
  const lost = chosen.length ? chosen : answer.messages;
  const named = lost.slice(0, NAMED_MAX).map((message) => {
    const left = remaining(tab, message);
    return `“${firstLine(message)}”, due ${left === "now" ? left : `in ${left}`}`;
  });
  const others = (chosen.length || answer.count) - named.length;
  return others > 0 ? [...named, `and ${count(others)} more`] : named;
}

function outcome({ cancelled, released, not_found: missing }) {
  const done = cancelled === undefined
    ? `${many(released, "message")} released`
    : `${many(cancelled, "message")} cancelled`;
  return missing.length ? `${done}; ${count(missing.length)} had been delivered meanwhile` : done;
}
