/**
 * Nodes that do not answer: their last figures are counted on, as nsqadmin keeps them for a while, so that
 * no sum falls as if somebody had read what waits there. They are marked wherever they appear.
 */

import { get } from "../core/api.js";
import { h } from "../core/dom.js";
import { clock, count } from "../core/format.js";
import { badge } from "../widgets/ui.js";

const OF_TOPIC = ["depth", "memory_depth", "backend_depth", "message_count"];
const OF_CHANNEL = [...OF_TOPIC, "in_flight_count", "deferred_count", "requeue_count", "timeout_count"];

/** The last figures of a topic on nodes that do not answer: TopicStats with `lost` {node, at, until}. */
export async function lostOf(page, topic, signal) {
  if (!page.live?.missing.length) return [];
  const { nodes } = await get("/api/lost", { topic }, signal);
  return nodes.flatMap(({ node, at, until, topics }) =>
    topics.map((stats) => ({ ...stats, node, hostname: "", lost: { node, at, until } })));
}

/**
 * Remembers what each node told a page last. `bridged(stats, at)` are stats of a topic or channel as they
 * are now, or as they were as long as a node is gone from them and no look (made at `at`) has said why.
 */
export function bridge() {
  let told = null;
  let since = null;
  return (stats, at) => {
    const nodes = new Set((stats?.nodes ?? []).map(({ node }) => node));
    const isGone = told?.nodes?.some(({ node }) => !nodes.has(node));
    if (isGone && at > 0 && (since ?? at) === at) {
      since = at;
      return told;
    }
    [told, since] = [stats, null];
    return stats;
  };
}

/** A topic (TopicStats, null: no node that answers has it) with these figures in its sums. */
export function withLost(stats, lost) {
  const away = absent(lost, stats?.nodes);
  if (!away.length) return stats;
  const [first] = away;
  const base = stats ?? { ...zeros(OF_TOPIC), topic_name: first.topic_name, nodes: [], channels: [] };
  const channels = new Map((base.channels ?? []).map((each) => [each.channel_name, each]));
  for (const { lost: { at, until, node }, channels: theirs } of away) {
    for (const each of theirs ?? []) {
      const part = { ...each, hostname: "", lost: { node, at, until } };
      channels.set(each.channel_name, channelWith(channels.get(each.channel_name), part));
    }
  }
  const sums = added(OF_TOPIC, base, away);
  return { ...base, ...sums, lost: away.map((each) => each.lost), nodes: [...base.nodes, ...away],
    channels: [...channels.values()] };
}

/** A channel (ChannelStats, null: no node that answers has it) with its part of these figures. */
export function channelWithLost(stats, lost, name) {
  const parts = absent(lost, stats?.nodes).flatMap((each) => (each.channels ?? [])
    .filter((channel) => channel.channel_name === name)
    .map((channel) => ({ ...channel, hostname: "", lost: each.lost })));
  return parts.reduce(channelWith, stats);
}

function channelWith(stats, part) {
  const base = stats ?? { ...part, ...zeros(OF_CHANNEL), client_count: 0, nodes: [], clients: [] };
  const nodes = base.nodes ?? [base];
  return { ...base, ...added(OF_CHANNEL, base, [part]), lost: [...(base.lost ?? []), part.lost],
    nodes: [...nodes, part] };
}

function absent(lost, nodes = []) {
  const there = new Set(nodes.map(({ node }) => node));
  return lost.filter(({ node }) => !there.has(node));
}

function zeros(figures) {
  return Object.fromEntries(figures.map((figure) => [figure, 0]));
}

function added(figures, base, parts) {
  return Object.fromEntries(figures.map((figure) =>
    [figure, parts.reduce((sum, part) => sum + (part[figure] ?? 0), base[figure] ?? 0)]));
}

// --- how they are marked -------------------------------------------------------------------------

/** The badge of a row with last figures in it: of `stats` above, or of live figures. */
export function lostBadge({ lost, partial }) {
  if (lost && !Array.isArray(lost)) return badge(`as of ${clock(lost.at)}`, "", untilText(lost));
  if (lost?.length) return badge("partial", "", lost.map(untilText).join("\n"));
  return partial > 0 && badge("partial", "",
    `With the last figures of ${partial === 1 ? "a node that does" : `${count(partial)} nodes that do`} ` +
    "not answer");
}

/** The class of figures that are not all of now. */
export function staleKind({ lost, partial }) {
  return lost || partial > 0 ? "stale" : "";
}

/** What the pages say above figures that are not all of now. */
export function partialText(live) {
  const nodes = live.missing.filter(({ depth }) => depth > 0);
  if (!live.isPartial || !nodes.length) return null;
  return ["Greyed figures are partial. ", nodes.map((each) => h("span", { key: each.node },
    h("b", {}, each.node), ` does not answer: ${count(each.depth)} ` +
    `message${each.depth === 1 ? "" : "s"} waited there at ${clock(each.at)} and count until ` +
    `${clock(each.until)}, when it is given up. `))];
}

function untilText({ node, at, until }) {
  return `${node} does not answer: figures of ${clock(at)}, counted on until ${clock(until)}`;
}
