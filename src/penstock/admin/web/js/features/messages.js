/** The tabs of topics and channels that show messages, without consuming them. */

import { get } from "../core/api.js";
import { h } from "../core/dom.js";
import { count, seconds, stamp } from "../core/format.js";
import { to } from "../core/router.js";
import { settings } from "../core/settings.js";
import { ATTEMPTS, messageList, OFFSET } from "../widgets/list.js";
import { badge, button, empty, folded } from "../widgets/ui.js";
import { browse } from "./browse.js";
import { finder } from "./messages/finding.js";
import { askToReplay } from "./messages/replay.js";

export { deferredTab } from "./deferred.js";

const STATES = {
  waiting: ["waiting", "", "Not delivered yet"],
  in_flight: ["in flight", "accent", "With a consumer that has not finished it yet"],
  requeued: ["requeued", "warn", "Given back, or timed out: it will be delivered again"],
  deferred: ["deferred", "", "Delivered when its time has come"],
  spent: ["given up", "bad", "Out of attempts: on its way to the dead letters"],
};
const STATES_IN_LOG = {
  waiting: ["in the topic", "warn", "No channel has it yet: there is none, or the topic is paused"],
  distributed: ["in the channels", "good",
    "Every channel has it: what it still needs of it is on the channel's page"],
};
const TIME = { name: "time", title: "Published", wide: true, cell: timeCell };
const NODE = { name: "node", title: "Node", wide: true,
  cell: ({ node }) => h("a", { href: to.node(node) }, node) };

/**
 * What a topic's log holds, on all nodes by time or on one, or what a channel still needs on one node.
 *
 * @param {any} page
 * @param {{topic: string, channel?: string, nodes: () => string[]|null}} of
 * @returns {() => object} the view
 */
export function messagesTab(page, of) {
  return of.channel ? channelTab(page, of) : topicTab(page, of);
}

function topicTab(page, { topic, nodes }) {
  const pages = browse(page, {
    nodes,
    start: "newest",
    merges: true,
    ask: (wish, signal) => get("/api/messages", { topic, ...wish }, signal),
  });
  const search = finder(page, { topic, node: () => (pages.isOfAll() ? "" : pages.node()) });
  const list = (caption, columns) => messageList(page, {
    topic, node: pages.node, caption, columns, details: detailsInLog, canSelect: settings.isAdmin,
  });
  const lists = {
    all: list(`What the logs of ${topic} hold`,
      [{ ...TIME, wide: false, turns: true }, NODE, { ...OFFSET, turns: false, wide: true },
        { ...stateColumn(STATES_IN_LOG), wide: true }]),
    one: list(`What the log of ${topic} holds`, [OFFSET, TIME, stateColumn(STATES_IN_LOG)]),
    found: list(`What the search in ${topic} has found`,
      [{ ...TIME, wide: false }, NODE, { ...OFFSET, turns: false, wide: true }]),
  };
  const shown = () => (pages.isOfAll() ? lists.all : lists.one);
  return () => h("div", { key: "messages" },
    folded("Search", search.bar(), search.isOpen()),
    search.isOpen()
      ? search.results((messages) => lists.found.view(messages),
        (messages) => replayButton(page, topic, lists.found.selected(messages)))
      : pages.view(({ messages, next, later }, isDescending) => {
        if (!messages.length && next == null && later == null) return nothing("", page.query.from);
        return shown().view(messages, { isDescending });
      }, (answer) => answer && replayButton(page, topic, chosenOf(answer, shown(), pages))));
}

/** Of one node alone the messages do not say which it is. */
function chosenOf({ messages }, list, pages) {
  return list.selected(messages).map((each) => ({ ...each, node: each.node ?? pages.node() }));
}

function replayButton(page, topic, chosen) {
  if (!chosen.length) return null;
  return button(`Replay ${count(chosen.length)}`, { onclick: () => askToReplay(page, { topic, chosen }) });
}

function detailsInLog({ id, node, offset, timestamp }) {
  return [
    ["Id", id],
    ["Node", node],
    ["Offset", node && String(offset)],
    ["Published", stamp(timestamp)],
  ];
}

/**
 * @param {any} page
 * @param {{topic: string, channel?: string, nodes: () => string[]|null}} of
 */
function channelTab(page, { topic, channel, nodes }) {
  const pages = browse(page, {
    nodes,
    start: "oldest",
    ask: (wish, signal) => get("/api/messages", { topic, channel, ...wish }, signal),
  });
  const list = messageList(page, {
    topic,
    node: pages.node,
    caption: `What ${channel} still needs`,
    columns: [OFFSET, TIME, stateColumn(STATES), ATTEMPTS],
    details: ({ id, timestamp, attempts, deadline }) => [
      ["Id", id],
      ["Published", stamp(timestamp)],
      ["Attempts", String(attempts)],
      deadline && ["Delivered at", stamp(deadline)],
    ],
  });
  return () => pages.view(({ messages, next }, isDescending) => {
    if (!messages.length && next === null) return nothing(channel, page.query.from);
    return list.view(messages, { isDescending });
  });
}

/** A phone leaves the day out; the opened message has it. */
function timeCell({ timestamp }) {
  const [date, time] = stamp(timestamp).split(" ");
  return [h("span", { class: "date" }, date, " "), time];
}

/** The state of a message; of a deferred one also for how long still. */
function stateColumn(states) {
  return { name: "state", title: "State", cell: ({ state, remaining_ms: left }) => {
    const [text, kind, hint] = states[state] ?? [state];
    return badge(left === undefined ? text : `${text}, ${seconds(left / 1000)}`, kind, hint);
  } };
}

function nothing(channel, from) {
  if (/^(time:)?\d/.test(from ?? "")) {
    return empty("Nothing from there on", "Begin earlier, or at the oldest.");
  }
  if (channel) {
    return empty("The channel needs nothing on this node", "All that it was given is finished.");
  }
  return empty("The log is empty here", "What every channel has finished is removed, ",
    "unless --retention-time or --retention-bytes keeps it.");
}
