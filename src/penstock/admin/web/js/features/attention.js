/**
 * What an operator should look at, the worst first.
 *
 * Topics and channels that want attention are found by nsqadmin's history; here nodes, dead letters and
 * groups come to them. Only arithmetic: it knows neither the page nor the server.
 */

import { isOfGroup, isSystem } from "../core/inner.js";

const LETTERS = "%DLQ%";

/**
 * Everything that wants to be looked at.
 *
 * @param {{
 *   queues: object[],     topics and channels, as the event of the overview tells them
 *   nodes: {address: string, version: string, isOld: boolean}[],
 *   silent: string[],     nodes that are registered and do not answer
 *   missing: string[],    nodes that were there within the hour
 *   damage: {node: string, topic: string, damage: string[]}[],   that no operator has accepted
 *   letters: {topic: string, letters: number}[],   dead letters: they are told instead of their topics
 *   groups: {topic: string, group: string, lag: number, rate: number}[],
 *   pipelines: {id: string, name: string, state: string, age: number, error: string}[],
 *   lag: number,          from where on the lag of a group is told
 *   rocketmq: {items: object[], groups: string[]},   what the API judges of RocketMQ's groups and servers,
 *     and the groups that it has judged: nothing else is told of these
 * }} cluster
 * @returns {{kind: string, level: "bad"|"warn", page: string, names: string[], weight: number, ...}[]}
 *   `kind` is one of "silent", "missing", "damage", "old", "unattended", "backlog", "requeues", "timeouts",
 *   "paused", "unchannelled", "letters", "lag", "pipeline", "disabled", "disk"; what else it has
 *   is what words are made of
 */
export function attention({ queues, nodes, silent, missing, damage, letters, groups, pipelines, lag,
  rocketmq = { items: [], groups: [] } }) {
  const dead = new Set(letters.map(({ topic }) => topic));
  const judged = new Set(rocketmq.groups);
  const found = [
    ...silent.map((node) => item("silent", "bad", "node", [node], Infinity)),
    ...missing.filter((node) => !silent.includes(node)).map((node) =>
      item("missing", "bad", "node", [node], Infinity)),
    ...damage.map(({ node, topic, damage }) =>
      item("damage", "bad", "topic", [topic], Infinity, { node, places: damage.length, first: damage[0] })),
    ...nodes.filter(({ isOld }) => isOld).map(({ address, version }) =>
      item("old", "warn", "node", [address], 0, { version })),
    ...letters.filter(({ topic, letters }) => letters > 0 && !isJudged(topic, judged))
      .map(({ topic, letters }) => item("letters", "warn", "deadletter", [topic], letters, { letters })),
    ...groups.filter((group) => group.lag >= lag && !judged.has(group.group)).map(ofGroup),
    ...rocketmq.items,
    ...pipelines.filter(({ state }) => state === "failed" || state === "silent").map((pipeline) =>
      item("pipeline", "bad", "pipeline", [pipeline.id], Infinity, { title: pipeline.name, pipeline })),
    ...queues.filter(({ names: [topic] }) => !dead.has(topic)).filter((queue) => !isReadByBrokers(queue))
      .map((queue) => ({ ...queue, page: queue.names.length > 1 ? "channel" : "topic" })),
  ];
  return worstFirst(found);
}

/** Items in the order in which they are to be looked at. */
export function worstFirst(items) {
  return [...items].sort((a, b) => (a.level > b.level) - (a.level < b.level) || b.weight - a.weight);
}

/** Brokers read their own topics, and letters are judged as such: none of them waits for a channel. */
function isReadByBrokers({ kind, names: [topic] }) {
  return kind === "unchannelled" && (isSystem(topic) || isOfGroup(topic));
}

function isJudged(topic, groups) {
  return topic.startsWith(LETTERS) && groups.has(topic.slice(LETTERS.length));
}

function item(kind, level, page, names, weight, figures = {}) {
  return { kind, level, page, names, weight, ...figures };
}

function ofGroup({ topic, group, lag, rate }) {
  const level = rate > 0 ? "warn" : "bad";
  return item("lag", level, "groups", [topic, group], lag, { lag, seconds: rate > 0 ? lag / rate : null });
}
