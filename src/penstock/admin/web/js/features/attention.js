/**
 * What an operator should look at, the worst first.
 *
 * Topics, channels and groups that want attention are found by nsqadmin's history; here nodes, dead letters
 * and pipelines come to them. Only arithmetic: it knows neither the page nor the server.
 */

import { isOfGroup, isSystem } from "../core/inner.js";

const LETTERS = "%DLQ%";
const GROUP = "@";

/**
 * Everything that wants to be looked at.
 *
 * @typedef {{kind: string, level: "bad"|"warn", page: string, names: string[], weight: number,
 *   [more: string]: any}} Item
 *   `kind` is one of those that features/alerts.js has titles for; what else it has is what words are
 *   made of
 *
 * @param {object} cluster
 * @param {any[]} cluster.queues  topics, channels and groups, as the event of the overview tells them
 * @param {{address: string, version: string, isOld: boolean}[]} cluster.nodes
 * @param {string[]} cluster.silent  nodes that are registered and do not answer
 * @param {{node: string, at: number, until: number, depth: number}[]} cluster.missing  nodes that do not
 *   answer
 * @param {any[]} [cluster.givenUp]  nodes that were given up, told likewise
 * @param {{node: string, topic: string, damage: string[]}[]} cluster.damage  that no operator has accepted
 * @param {{topic: string, letters: number}[]} cluster.letters  dead letters: they are told instead of
 *   their topics
 * @param {{topic: string, group: string, kind: string, verdict: any}[]} cluster.groups  where there is no
 *   history
 * @param {{id: string, name: string, state: string, age: number, error: string}[]} cluster.pipelines
 * @param {{items: Item[], groups: string[]}} [cluster.rocketmq]  what the API judges of RocketMQ's groups
 *   and servers, and the groups that it has judged: no other rule judges these
 * @param {{node: string, verdicts: any[]}[]} [cluster.copies]  nodes with second copies, and these
 * @returns {Item[]}
 */
export function attention({ queues, nodes, silent, missing, givenUp = [], damage, letters, groups, pipelines,
  rocketmq = { items: [], groups: [] }, copies = [] }) {
  const dead = new Set(letters.map(({ topic }) => topic));
  const judged = new Set(rocketmq.groups);
  const found = [
    ...silent.map((node) => item("silent", "bad", "node", [node], Infinity,
      missing.find((each) => each.node === node))),
    ...missing.filter(({ node }) => !silent.includes(node)).map((each) =>
      item("missing", "bad", "node", [each.node], Infinity, each)),
    ...givenUp.filter(({ depth }) => depth > 0).map((each) =>
      item("given_up", "warn", "node", [each.node], each.depth, each)),
    ...damage.map(({ node, topic, damage }) =>
      item("damage", "bad", "topic", [topic], Infinity, { node, places: damage.length, first: damage[0] })),
    ...nodes.filter(({ isOld }) => isOld).map(({ address, version }) =>
      item("old", "warn", "node", [address], 0, { version })),
    ...letters.filter(({ topic, letters }) => letters > 0 && !isJudged(topic, judged))
      .map(({ topic, letters }) => item("letters", "warn", "deadletter", [topic], letters, { letters })),
    ...groups.filter(({ group, verdict }) => verdict.level && !judged.has(group))
      .map(({ topic, group, kind, verdict }) =>
        ({ ...verdict, page: "groups", dialect: kind, names: [topic, group] })),
    ...rocketmq.items,
    ...copies.flatMap((copy) => copy.verdicts.map(({ kind, level }) =>
      item(kind, level, "node", [copy.node], Infinity, { copy }))),
    ...pipelines.filter(({ state }) => state === "failed" || state === "silent").map((pipeline) =>
      item("pipeline", "bad", "pipeline", [pipeline.id], Infinity, { title: pipeline.name, pipeline })),
    ...queues.filter(({ names: [topic] }) => !dead.has(topic)).filter((queue) => !isReadByBrokers(queue))
      .map(placed).filter(({ page, names }) => page !== "groups" || !judged.has(names[1])),
  ];
  return worstFirst(found);
}

/** Items in the order in which they are to be looked at. */
export function worstFirst(items) {
  const byLevel = (a, b) => Number(a.level > b.level) - Number(a.level < b.level);
  return [...items].sort((a, b) => byLevel(a, b) || b.weight - a.weight);
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

/** With the page that shows more; the channel `@name` is a group. */
function placed(queue) {
  const [topic, channel] = queue.names;
  if (channel?.startsWith(GROUP)) return { ...queue, page: "groups", names: [topic, channel.slice(1)] };
  return { ...queue, page: channel ? "channel" : "topic" };
}
