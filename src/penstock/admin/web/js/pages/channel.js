/** A channel: what waits in it, on which nodes, who consumes it, and what holds it up. */

import { get, pathOf } from "../core/api.js";
import { h } from "../core/dom.js";
import { count, rate, short } from "../core/format.js";
import { past, pastSection, upToNow } from "../core/last_hour.js";
import { to } from "../core/router.js";
import { flow, measure } from "../core/speeds.js";
import { channelActions, createAction } from "../features/actions.js";
import { clientsTable } from "../features/clients.js";
import { many } from "../features/consequences.js";
import { bridge, channelWithLost, lostBadge, lostOf, staleKind } from "../features/lost.js";
import { memoryQueues } from "../features/machines.js";
import { deferredTab, messagesTab } from "../features/messages.js";
import { rewindAction } from "../features/messages/rewind.js";
import { levelOf, verdictBadges, verdictsOn } from "../features/verdicts.js";
import { sparkline } from "../widgets/chart.js";
import { channelColumns, latencyColumns, latencyTile, memoryText, nodeColumn, nodeLink, number, pausedBadge,
  rateColumn, sum, warning } from "../widgets/columns.js";
import { graphs } from "../widgets/graphite.js";
import { table } from "../widgets/table.js";
import { badge, bar, empty, heading, loading, notice, section, tabOf, tabs, tile, tiles, trail }
  from "../widgets/ui.js";

export default function channel(page) {
  const [topic, name] = page.names;
  page.title = `${topic} / ${name}`;
  page.follow({ topic });
  const state = { page, topic, name, stats: null, whole: null, isUnknown: false,
    flows: flow(), clients: measure(), queues: memoryQueues(page) };
  const hour = past(page, { topic, channel: name });
  const bridged = bridge();
  let views = null;

  page.load(async (signal) => {
    const [stats, lost] = await Promise.all([found(topic, name, signal), lostOf(page, topic, signal)]);
    const whole = bridged(channelWithLost(stats, lost, name), page.live.at);
    Object.assign(state, { stats, whole, isUnknown: !whole });
    state.flows.take(stats?.nodes ?? []);
    state.clients.take((stats?.clients ?? []).map((each) => [clientKey(each), each.finish_count]));
  });

  return () => {
    const { whole: stats } = state;
    if (!stats) return [head(state), state.isUnknown ? unknown(state) : !page.error && loading()];
    views ??= tabViews(state, hour);
    const shown = [
      { name: "overview", title: "Overview" },
      { name: "messages", title: "Messages" },
      { name: "deferred", title: "Deferred", count: stats.deferred_count },
    ];
    return [
      head(state),
      warning(stats.message, page),
      tabs(page, shown),
      views[tabOf(page, shown)](),
    ];
  };
}

function tabViews(state, hour) {
  const { page, topic, name } = state;
  const of = { topic, channel: name, nodes: () => state.stats?.nodes.map((each) => each.node) };
  const made = {};
  return {
    overview: () => overview(state, hour),
    messages: () => (made.messages ??= messagesTab(page, of))(),
    deferred: () => (made.deferred ??= deferredTab(page, of))(),
  };
}

/** The channel's stats; null when no node has it. */
async function found(topic, name, signal) {
  try {
    return await get(pathOf("api", "topics", topic, name), {}, signal);
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

function clientKey({ node, remote_address: address }) {
  return `${node} ${address}`;
}

// --- around the tabs -----------------------------------------------------------------------------

function head({ page, topic, name, stats, whole }) {
  return [
    trail(["Topics", to.topics()], [topic, to.topic(topic)], [name, to.channel(topic, name)]),
    heading({
      kind: "Channel",
      title: name,
      badges: [
        stats && pausedBadge(stats),
        whole && lostBadge(whole),
        verdictBadges(verdictsOn(page.live, topic, name, stats?.depth)
          .filter(({ kind }) => kind !== "paused")),
        name.endsWith("#ephemeral") &&
          badge("ephemeral", "", "In memory only; goes with its last consumer"),
      ],
      tools: stats && [rewindAction(page, stats), channelActions(page, stats)],
    }),
  ];
}

function unknown({ page, topic, name }) {
  return empty(`Topic ${topic} has no channel ${name}`,
    "No node has it. It comes into being when a consumer subscribes, or on ",
    h("a", { href: to.topic(topic) }, `the page of ${topic}`), ".",
    h("br"), createAction(page, topic, name));
}

// --- overview ------------------------------------------------------------------------------------

function overview(state, looked) {
  const { page, topic, name, whole: stats } = state;
  const now = present(state);
  const hour = upToNow(looked, now);
  return [
    figures(state, hour, now),
    ...hints(state),
    pastSection(page, hour),
    nodes(state),
    section({ title: "Client connections", id: "connections" },
      clientsTable(page, stats, (client) => state.clients.of(clientKey(client)))),
    graphs(page, { topic, channel: name, latency: stats.e2e_processing_latency }),
  ];
}

/** What is shown of the channel as a whole: all of it as the page was told last. */
function present({ page, topic, name, stats, whole, flows }) {
  const live = page.live.row(topic, name) ?? {};
  const speed = (figure) => flows.sum(figure, stats?.nodes ?? [], live[figure]);
  return { depth: whole.depth, waiting: whole.depth, in_flight: whole.in_flight_count, in: speed("in"),
    out: speed("out"), requeues: speed("requeues"), timeouts: speed("timeouts") };
}

function figures({ whole: stats, queues }, hour, now) {
  const kind = staleKind(stats);
  return tiles(
    tile({ label: "Backlog", value: count(stats.depth), kind, hint: memoryText(stats, queues) || "waiting",
      chart: sparkline(hour.depth, { title: "Backlog" }) }),
    tile({ label: "In flight", value: count(stats.in_flight_count), kind,
      hint: `${count(stats.deferred_count)} deferred`,
      chart: sparkline(hour.in_flight, { title: "Messages in flight" }) }),
    tile({ label: "In", value: rate(now.in), hint: `${short(stats.message_count)} so far`,
      chart: sparkline(hour.in, { title: "Messages that come, a second" }) }),
    tile({ label: "Out", value: rate(now.out), hint: "finished",
      chart: sparkline(hour.out, { title: "Messages finished a second" }) }),
    tile({ label: "Requeued", value: rate(now.requeues), hint: `${short(stats.requeue_count)} so far`,
      chart: sparkline(hour.requeues, { title: "Messages requeued a second" }) }),
    tile({ label: "Timed out", value: rate(now.timeouts), hint: `${short(stats.timeout_count)} so far`,
      chart: sparkline(hour.timeouts, { title: "Messages timed out a second" }) }),
    tile({ label: "Consumers", value: count(stats.client_count),
      hint: `on ${many(stats.nodes.filter(({ lost }) => !lost).length, "node")}` }),
    latencyTile(stats));
}

/** What holds the channel up where somebody answers. */
function hints({ page, topic, name, stats }) {
  const { depth, paused } = stats ?? {};
  if (!depth) return [];
  if (paused) return [notice("warn", `Paused: ${waiting(depth)} until it is unpaused.`)];
  if (!stats.client_count) {
    const level = levelOf(verdictsOn(page.live, topic, name));
    return [notice(level || "warn", `${waiting(depth)} and no consumer is connected.`)];
  }
  return [lonely(stats), idle(stats.clients ?? [])];
}

function lonely({ nodes }) {
  const found = nodes.filter((each) => each.depth && !each.client_count);
  if (!found.length) return null;
  return notice("warn", `${waiting(sum(found, "depth"))} where no consumer is connected: on `,
    found.map((each, at) => [at > 0 && ", ", nodeLink(each)]), ".");
}

function idle(clients) {
  const found = clients.filter((each) => !each.ready_count).length;
  if (!found) return null;
  const who = clients.length === 1 ? "The only consumer has"
    : found === clients.length ? `All ${count(found)} consumers have`
      : `${count(found)} of ${count(clients.length)} consumers ${found === 1 ? "has" : "have"}`;
  return notice("warn", `${who} RDY 0 while messages wait: backing off, stopping, or stalled.`);
}

/** "2 messages wait". */
function waiting(number) {
  return `${many(number, "message")} ${number === 1 ? "waits" : "wait"}`;
}

function nodes({ page, name, whole: stats, flows, queues }) {
  const columns = [
    nodeColumn(),
    ...channelColumns(stats.nodes, queues),
    number("message_count", "Messages", "That have come to the channel since the node has started"),
    rateColumn("in", "In", "Messages that come, a second", (row) => flows.of("in", row)),
    number("client_count", "Consumers"),
    hasZones(stats) && deliveryColumn(stats),
    ...latencyColumns(stats),
  ].filter(Boolean);
  return section({ title: "Nodes", id: "nodes" }, table(page, {
    id: "nodes", columns, rows: stats.nodes, key: (row) => row.node, sort: "node",
    totals: stats.nodes.length > 1, caption: `Channel ${name} on each node`, kind: staleKind,
  }));
}

/** Whether a node knows where it is: else all consumers are elsewhere, which says nothing. */
function hasZones({ zone_local_msg_count: zone, region_local_msg_count: region, clients }) {
  return zone > 0 || region > 0 ||
    (clients ?? []).some((each) => each.node_topology_zone || each.node_topology_region);
}

/** How near the consumers were that messages went to. */
function deliveryColumn(stats) {
  const shares = (row) => row.delivery_msg_count > 0 && bar([
    { label: "own zone", value: row.zone_local_msg_count ?? 0, kind: "good" },
    { label: "own region", value: row.region_local_msg_count ?? 0, kind: "accent" },
    { label: "elsewhere", value: row.global_msg_count ?? 0, kind: "warn" },
  ]);
  return {
    name: "delivery",
    title: "Delivery",
    hint: "To consumers in the node's own zone, in its region, and elsewhere",
    value: (row) => (row.zone_local_msg_count ?? 0) / (row.delivery_msg_count || 1),
    cell: shares,
    total: () => shares(stats),
  };
}
