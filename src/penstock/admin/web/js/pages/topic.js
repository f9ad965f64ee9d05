/** A topic: what waits in it, on which nodes, and the channels and readers that take from it. */

import { ApiError, get, pathOf } from "../core/api.js";
import { h } from "../core/dom.js";
import { count, rate, short } from "../core/format.js";
import { isDeadLetters, isOfGroup, isRetries, isSystem } from "../core/inner.js";
import { lineTitle, past, pastSection, upToNow } from "../core/last_hour.js";
import { to } from "../core/router.js";
import { settings } from "../core/settings.js";
import { flow, queuesOf } from "../core/speeds.js";
import {
  acceptAction, createAction, createForm, tombstoneAction, topicActions,
} from "../features/actions.js";
import { held, many } from "../features/consequences.js";
import { groupsTable } from "../features/groups.js";
import { bridge, lostBadge, lostOf, staleKind, withLost } from "../features/lost.js";
import { memoryQueues } from "../features/machines.js";
import { messagesTab } from "../features/messages.js";
import { publishAction } from "../features/messages/publish.js";
import { levelOf, verdictBadges, verdictsOn } from "../features/verdicts.js";
import { sparkline } from "../widgets/chart.js";
import { channelColumns, latencyColumns, latencyTile, memoryColumn, memoryText, nodeColumn, number,
  pausedBadge, rateColumn, sum, warning } from "../widgets/columns.js";
import { graphs } from "../widgets/graphite.js";
import { table } from "../widgets/table.js";
import { badge, classes, empty, heading, loading, notice, section, tabOf, tabs, tile, tiles, trail }
  from "../widgets/ui.js";

const ROCKETMQ_AGAIN_S = 30;
const LINES_MAX = 16;
const TABS = [{ name: "overview", title: "Overview" }, { name: "messages", title: "Messages" }];

export default function topic(page) {
  const [name] = page.names;
  page.title = name;
  page.follow({ topic: name });
  const state = { page, name, stats: null, whole: null, readers: null, damage: [], isUnknown: false,
    isRocketmq: false, flows: flow(), queues: memoryQueues(page), hours: new Map() };
  const hour = past(page, { topic: name });
  const nodes = () => state.stats?.nodes.map((each) => each.node);
  const bridged = bridge();
  let messages = null;

  page.load(async (signal) => {
    const [stats, lost, readers] = await Promise.all([found(name, signal), lostOf(page, name, signal),
      mayHaveReaders(page.live) ? readersOf(name, signal) : { problem: "", groups: [] }]);
    const whole = bridged(withLost(stats, lost), page.live.at);
    Object.assign(state, { stats, whole, readers, isUnknown: !whole });
    state.flows.take(queuesOf(stats));
  });

  page.load(async (signal) => {
    state.damage = (await get("/api/damage", { topic: name }, signal)).damage ?? [];
  });

  if (settings.hasRocketmq) {
    page.load(async (signal) => {
      const { topics } = await get("/api/rocketmq/topics", { names: "true" }, signal);
      state.isRocketmq = topics.includes(name);
    }, ROCKETMQ_AGAIN_S);
  }

  return () => {
    const { whole } = state;
    if (!whole) return [head(state), state.isUnknown ? unknown(state) : !page.error && loading()];
    const isOverview = tabOf(page, TABS) === "overview";
    if (!isOverview) messages ??= messagesTab(page, { topic: name, nodes });
    return [
      head(state),
      warning(whole.message, page),
      damaged(state),
      tabs(page, TABS),
      isOverview ? overview(state, hour) : messages(),
    ];
  };
}

/** The topic's stats; null when nobody knows it. */
async function found(name, signal) {
  try {
    return await get(pathOf("api", "topics", name), {}, signal);
  } catch (error) {
    if (error.status === 404 || isUnheardOf(error)) return null;
    throw error;
  }
}

/** How nsqadmin says that no nsqlookupd has heard of a topic. */
function isUnheardOf({ status, message = "" }) {
  return status === 502 && message.includes("TOPIC_NOT_FOUND");
}

/** Groups have figures as channels do; a watcher of these knows whether there is one to ask about. */
function mayHaveReaders(live) {
  return !live.connected || [...live.rows()].some(({ channel }) => channel.startsWith("@"));
}

/** Who reads the log of the topic; `problem` says why that is not known. */
async function readersOf(name, signal) {
  try {
    return { problem: "", ...(await get("/api/groups", { topic: name }, signal)) };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return { problem: error.message, groups: [] };
  }
}

// --- around the tabs -----------------------------------------------------------------------------

function head({ page, name, stats, whole, readers, isRocketmq }) {
  return [
    trail(["Topics", to.topics()], [name, to.topic(name)]),
    heading({
      kind: "Topic",
      title: name,
      badges: [stats && pausedBadge(stats), whole && lostBadge(whole), ...kinds(name),
        verdictBadges(verdictsOn(page.live, name, "", stats?.depth)
          .filter(({ kind }) => kind !== "paused")),
        isRocketmq && h("a", { href: to.rocketTopic(name) },
          badge("RocketMQ", "accent", "The same topic, as RocketMQ has it"))],
      tools: stats && [publishAction(page, stats), topicActions(page, stats, readers.groups.length)],
    }),
  ];
}

function kinds(name) {
  return [
    name.endsWith("#ephemeral") &&
      badge("ephemeral", "", "In memory only; goes with its last channel"),
    isSystem(name) && badge("system", "", "RocketMQ's broker keeps its own records here"),
    isRetries(name) && badge("retries", "", "Of a consumer group of RocketMQ"),
    isDeadLetters(name) && h("a", { href: to.deadletter(name) }, badge("dead letters", "accent")),
  ];
}

/** The list of damage, with the button that accepts it. */
function damaged({ page, name, damage }) {
  if (!damage.length) return null;
  return notice("bad",
    h("p", {}, "Files of this topic are damaged. Until the damage is accepted, nothing of the topic is " +
      "deleted, and its nodes are unhealthy."),
    h("ul", {}, damage.flatMap(({ node, damage: places }) =>
      places.map((place) => h("li", { key: `${node}\n${place}` }, `${node}: ${place}`)))),
    acceptAction(page, name, damage.length));
}

function unknown({ page, name }) {
  if (isOfGroup(name)) return innerTopic(name);
  return empty(`There is no topic ${name}`,
    "No node has it", settings.lookupds.length > 0 && ", and no nsqlookupd knows of it",
    ". It comes into being when a producer publishes to it or a consumer subscribes. See ",
    h("a", { href: to.topics() }, "all topics"), ".",
    h("br"), createAction(page, name));
}

/** nsqlookupd takes no such names, so it leads nobody to the nodes that have them. */
function innerTopic(name) {
  return empty(`${name} is a topic of RocketMQ's`, settings.hasRocketmq
    ? ["Its queues and messages are on ", h("a", { href: to.rocketTopic(name) }, "another page"), "."]
    : ["nsqlookupd does not know such topics. With ", h("code", {}, "--rocketmq-namesrv-address"),
      " nsqadmin shows them."]);
}

// --- overview ------------------------------------------------------------------------------------

function overview(state, looked) {
  const now = present(state);
  const hour = upToNow(looked, now);
  return [
    figures(state, hour, now),
    !state.whole.nodes.length && nowhere(),
    pastSection(state.page, hour),
    nodes(state),
    channels(state, now),
    readers(state),
    graphs(state.page, { topic: state.name, latency: state.whole.e2e_processing_latency }),
  ];
}

/** What is shown of the topic as a whole: all of it as the page was told last. */
function present({ page, name, stats, whole, flows }) {
  const live = page.live.row(name) ?? {};
  const all = whole.channels ?? [];
  const queues = queuesOf(stats);
  const own = queues.filter((each) => each.channel_name === undefined);
  const channels = queues.filter((each) => each.channel_name !== undefined);
  return {
    depth: whole.depth,
    waiting: whole.depth + sum(all, "depth"),
    in_flight: sum(all, "in_flight_count"),
    in: flows.sum("in", own, live.in),
    out: flows.sum("out", channels, live.out),
    requeues: flows.sum("requeues", channels, live.requeues),
    timeouts: flows.sum("timeouts", channels, live.timeouts),
  };
}

function figures({ whole: stats, queues }, hour, now) {
  const all = stats.channels ?? [];
  const kind = staleKind(stats);
  return tiles(
    tile({ label: "Backlog", value: count(now.waiting), kind,
      hint: `waiting, ${memoryText(stats, queues) || `${count(stats.depth)} of them in the topic itself`}`,
      chart: sparkline(hour.waiting, { title: "Backlog" }) }),
    tile({ label: "Outstanding", value: count(held(...all)), kind,
      hint: `waiting, in flight or deferred in ${many(all.length, "channel")}` }),
    tile({ label: "In", value: rate(now.in), hint: `${short(stats.message_count)} so far`,
      chart: sparkline(hour.in, { title: "Messages published a second" }) }),
    tile({ label: "Out", value: rate(now.out), hint: "finished by its channels",
      chart: sparkline(hour.out, { title: "Messages finished a second" }) }),
    tile({ label: "In flight", value: count(now.in_flight), kind,
      hint: `${count(sum(all, "deferred_count"))} deferred` }),
    tile({ label: "Consumers", value: count(sum(all, "client_count")),
      hint: `on ${many(stats.nodes.filter(({ lost }) => !lost).length, "node")}` }),
    latencyTile(stats));
}

function nowhere() {
  return notice("warn",
    "No node has this topic: nobody has published to it, or its nodes are gone. ",
    h("a", { href: to.lookup() }, "Lookup"), " shows what the nsqlookupds still know of it.");
}

function nodes({ page, name, whole: stats, flows, queues }) {
  if (!stats.nodes.length) return null;
  const columns = [
    nodeColumn(),
    { name: "backlog", title: "Backlog", hint: "Messages that wait in the topic and in its channels",
      numeric: true, total: true, value: (row) => row.depth + sum(row.channels ?? [], "depth") },
    number("depth", "In the topic", "Messages that wait in the topic itself: no channel has them yet"),
    memoryColumn(stats.nodes, queues),
    number("message_count", "Messages", "Published since the node has started"),
    rateColumn("in", "In", "Messages published a second", (row) => flows.of("in", row)),
    { name: "channels", title: "Channels", numeric: true, value: (row) => row.channels?.length ?? 0,
      total: () => count(stats.channels?.length ?? 0) },
    ...latencyColumns(stats),
    settings.isAdmin && settings.lookupds.length > 0 && { name: "tombstone", title: "", plain: true,
      numeric: true, cell: (row) => !row.lost && tombstoneAction(page, name, row.node, row) },
  ].filter(Boolean);
  return section({ title: "Nodes", id: "nodes" }, table(page, {
    id: "nodes", columns, rows: stats.nodes, key: (row) => row.node, sort: "node",
    totals: stats.nodes.length > 1, caption: `Topic ${name} on each node`, kind: staleKind,
  }));
}

function channels(state, now) {
  const { page, name, whole: stats, flows, queues } = state;
  const rows = stats.channels ?? [];
  const judged = (row) => verdictsOn(page.live, name, row.channel_name, row.depth);
  const speed = (figure, row) =>
    flows.sum(figure, row.nodes ?? [row], page.live.row(name, row.channel_name)?.[figure]);
  const [depth, ...others] = channelColumns(rows, queues);
  const columns = [
    { name: "channel", title: "Channel", value: (row) => row.channel_name,
      cell: (row) => channelCell(row, judged(row)) },
    depth,
    rows.length <= LINES_MAX && hourColumn(state),
    ...others,
    number("message_count", "Messages", "That have come to the channel", false),
    { ...rateColumn("in", "In", "Messages that come, a second; each channel gets all of the topic's",
      (row) => speed("in", row)), total: () => rate(now.in) },
    rateColumn("out", "Out", "Messages finished a second", (row) => speed("out", row)),
    number("client_count", "Consumers"),
    ...latencyColumns(stats),
  ].filter(Boolean);
  const tools = createForm(page, { topic: name });
  return section({ title: "Channels", id: "channels", tools }, table(page, {
    id: "channels", columns, rows, key: (row) => row.channel_name, sort: "channel",
    filter: rows.length > 8, totals: rows.length > 1, caption: `Channels of topic ${name}`,
    kind: (row) => classes(levelOf(judged(row)), staleKind(row)),
    empty: empty("No channels", "Messages wait in the topic until there is one: a consumer that ",
      "subscribes creates it", settings.isAdmin && ", or you do, above", "."),
  }));
}

function hourColumn(state) {
  return { name: "hour", title: lineTitle(state.page.live), hint: "The backlog over this time", plain: true,
    cell: ({ channel_name: channel }) =>
      sparkline(hourOf(state, channel).depth, { title: `Backlog of ${channel}` }) };
}

/** The past of a channel, asked for once it is shown. */
function hourOf({ page, name, hours }, channel) {
  if (!hours.has(channel)) hours.set(channel, past(page, { topic: name, channel }));
  return hours.get(channel);
}

function channelCell(row, verdicts) {
  const { topic_name: topic, channel_name: name } = row;
  const isTold = verdicts.some(({ kind }) => kind === "paused");
  return [
    h("a", { href: to.channel(topic, name) }, name),
    row.paused && !isTold && [" ", badge("paused", "warn")],
    verdicts.length > 0 && [" ", verdictBadges(verdicts)],
    " ", lostBadge(row),
  ];
}

function readers({ page, readers: { groups, problem } }) {
  if (!groups.length && !problem) return null;
  return section({ title: "Log readers", id: "readers" },
    problem && notice("warn", problem), groups.length > 0 && groupsTable(page, groups));
}
