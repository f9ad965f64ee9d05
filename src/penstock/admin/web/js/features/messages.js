/** The tabs of topics and channels that show messages, without consuming them. */

import { get } from "../core/api.js";
import { seconds, stamp } from "../core/format.js";
import { ATTEMPTS, messageList, OFFSET } from "../widgets/list.js";
import { badge, empty } from "../widgets/ui.js";
import { browse } from "./browse.js";

export { deferredTab } from "./deferred.js";

const STATES = {
  waiting: ["waiting", "", "Not delivered yet"],
  in_flight: ["in flight", "accent", "With a consumer that has not finished it yet"],
  requeued: ["requeued", "warn", "Given back, or timed out: it will be delivered again"],
  deferred: ["deferred", "", "Delivered when its time has come"],
  spent: ["spent", "bad", "Out of attempts: on its way to the dead letters"],
  distributed: ["distributed", "good", "Every channel has been given it"],
};
const COLUMNS = [
  OFFSET,
  { name: "time", title: "Published", wide: true, cell: ({ timestamp }) => stamp(timestamp) },
  { name: "state", title: "State", cell: stateBadge },
];

/**
 * What a topic's log holds, or what a channel still needs, on one node at a time.
 *
 * @param {{topic: string, channel?: string, nodes: () => string[]|null}} of
 * @returns {() => object} the view
 */
export function messagesTab(page, { topic, channel, nodes }) {
  const pages = browse(page, {
    nodes,
    start: channel ? "oldest" : "newest",
    ask: (wish, signal) => get("/api/messages", { topic, channel, ...wish }, signal),
  });
  const list = messageList(page, {
    topic,
    node: pages.node,
    caption: channel ? `What ${channel} still needs` : `What the log of ${topic} holds`,
    columns: channel ? [...COLUMNS, ATTEMPTS] : COLUMNS,
    details: ({ id, timestamp, attempts, deadline }) => [
      ["Id", id],
      ["Published", stamp(timestamp)],
      channel && ["Attempts", String(attempts)],
      deadline && ["Delivered at", stamp(deadline)],
    ],
  });
  return () => pages.view(({ messages, next }, isDescending) => {
    if (!messages.length && next === null) return nothing(channel, page.query.from);
    return list.view(messages, { isDescending });
  });
}

/** The state of a message; of a deferred one also for how long still. */
function stateBadge({ state, remaining_ms: left }) {
  const [text, kind, hint] = STATES[state] ?? [state];
  return badge(left === undefined ? text : `${text}, ${seconds(left / 1000)}`, kind, hint);
}

function nothing(channel, from) {
  if (/^\d/.test(from ?? "")) {
    return empty("Nothing from there on", "Begin at a smaller offset, or at the oldest.");
  }
  if (channel) {
    return empty("The channel needs nothing on this node", "All that it was given is finished.");
  }
  return empty("The log is empty on this node", "What every channel has finished is removed, ",
    "unless --retention-time or --retention-bytes keeps it.");
}
