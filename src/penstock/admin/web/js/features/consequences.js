/** What an action takes away, in figures: the lines of the dialog that asks before it is done. */

import { count } from "../core/format.js";

/** "1 message", "12,345 messages". */
export function many(number, what) {
  return `${count(number)} ${what}${number === 1 ? "" : "s"}`;
}

/** How many messages these channels have not done with: waiting, in flight and deferred. */
export function held(...channels) {
  return channels.reduce(
    (sum, each) => sum + each.depth + each.in_flight_count + each.deferred_count, 0);
}

/** How many messages a topic (TopicStats) holds: its own, and those of each channel. */
export function heldByTopic(stats) {
  return stats.depth + held(...(stats.channels ?? []));
}

/** Of deleting a topic (TopicStats), or one node's part of it; `readers` is the number of its log. */
export function ofTopic(stats, readers = 0) {
  const channels = stats.channels ?? [];
  const where = onNodes(stats);
  const place = `in ${many((stats.channel_names ?? channels).length, "channel")}${where}`;
  return [
    stats.depth && deleted(stats.depth, `that no channel has yet${where}`),
    channels.length && deleted(held(...channels), place) + parts(channels),
    disconnected(sum(channels, "client_count")),
    readers && `${many(readers, "reader")} of its log ${readers === 1 ? "has" : "have"} nothing to read`,
  ].filter(Boolean);
}

/** Of deleting a channel (ChannelStats). */
export function ofChannel(stats) {
  return [...ofEmptying(stats), disconnected(stats.client_count)].filter(Boolean);
}

/** Of emptying a channel, or what waits in a topic itself. */
export function ofEmptying(stats) {
  const isChannel = "channel_name" in stats;
  const messages = isChannel ? held(stats) : stats.depth;
  if (!messages) return [];
  return [deleted(messages, onNodes(stats).trim()) + (isChannel ? parts([stats]) : "")];
}

function deleted(messages, place) {
  const what = [many(messages, "message"), place, messages === 1 ? "is" : "are", "deleted"];
  return what.filter(Boolean).join(" ");
}

function disconnected(consumers) {
  return consumers && `${many(consumers, "consumer")} ${consumers === 1 ? "is" : "are"} disconnected`;
}

/** " on 2 nodes"; nothing for what is on one node. */
function onNodes({ nodes }) {
  return nodes?.length ? ` on ${many(nodes.length, "node")}` : "";
}

/** What the messages are, where not all of them wait: ": 10 waiting, 2 in flight, 5 deferred". */
function parts(channels) {
  const told = [["waiting", "depth"], ["in flight", "in_flight_count"], ["deferred", "deferred_count"]]
    .map(([what, figure]) => [sum(channels, figure), what])
    .filter(([number]) => number);
  if (told.length === 0 || (told.length === 1 && told[0][1] === "waiting")) return "";
  return ": " + told.map(([number, what]) => `${count(number)} ${what}`).join(", ");
}

function sum(list, figure) {
  return list.reduce((total, each) => total + each[figure], 0);
}
