/** A node: what it is, what goes through it, and the tree of its topics, channels and consumers. */

import { get, pathOf } from "../core/api.js";
import { h } from "../core/dom.js";
import { clock, count, rate, short } from "../core/format.js";
import { past, pastSection, upToNow } from "../core/last_hour.js";
import { to } from "../core/router.js";
import { settings } from "../core/settings.js";
import { measure } from "../core/speeds.js";
import { many } from "../features/consequences.js";
import { copies, copyPanel } from "../features/copies.js";
import { staleKind } from "../features/lost.js";
import { machineFacts, machines, portsText, versions } from "../features/machines.js";
import { addressOf } from "../features/nodes.js";
import { sparkline } from "../widgets/chart.js";
import { warning } from "../widgets/columns.js";
import { graphs } from "../widgets/graphite.js";
import { openTopics, tree } from "../widgets/tree.js";
import { badge, empty, facts, heading, loading, notice, section, tile, tiles, trail } from "../widgets/ui.js";

const AGAIN_S = 5;

/** How it stands with a node, and what it was told to be when it was seen last. */
const ANSWERS = "answers";
const SILENT = "silent";
const GONE = "gone";

export default function node(page) {
  const [name] = page.names;
  page.title = name;
  page.follow({ node: name, level: "topics" });
  const state = { page, name, standing: null, problem: "", known: null, stats: null, at: 0,
    asked: new Set(), topics: measure(), clients: measure(), under: machines(name),
    copies: copies() };
  const hour = past(page, { node: name });
  page.load((signal) => look(state, signal), AGAIN_S);
  page.load(state.under.load, AGAIN_S);
  page.load(state.copies.load, AGAIN_S);

  return () => {
    const { standing, known, stats } = state;
    askForOpened(state);
    if (!standing) return [head(state), !page.error && loading()];
    const copy = state.copies.of(name);
    const now = stats ? present(state) : {};
    const shown = upToNow(hour, now);
    if (standing === GONE && !known) return [head(state), copy ? copyPanel(copy) : unknown(name)];
    return [
      head(state),
      standing !== ANSWERS && missing(state),
      warning(stats?.message, page),
      described(known, standing === ANSWERS ? state.under.of(name) : null),
      copyPanel(copy),
      stats && figures(state, shown, now),
      pastSection(page, shown),
      graphs(page, { node: name }),
      section({ title: "Topics", id: "topics" }, stats ? [topics(state), others(state)] : named(known)),
    ];
  };
}

/** Asks what the node is, and what is on it. What was known of it stays when it cannot be asked. */
async function look(state, signal) {
  const { name, page } = state;
  state.asked = new Set(openTopics(page, state.stats?.topics));
  const { standing, problem, told } = await statsOf(name, [...state.asked], signal);
  if (standing === SILENT) {
    const { nodes } = await get("/api/nodes", {}, signal);
    state.known = (nodes ?? []).find((each) => addressOf(each) === name) ?? state.known;
  }
  if (standing !== ANSWERS && !state.stats) await recall(state, signal);
  Object.assign(state, { standing, problem });
  if (standing !== ANSWERS) return;
  Object.assign(state, { stats: told, known: told.about, at: Date.now() / 1000 });
  const clients = told.topics.flatMap(({ channels }) => channels ?? []).flatMap((each) => each.clients ?? []);
  state.topics.take(told.topics.map((each) => [each.topic_name, each.message_count]));
  state.clients.take(clients.map((each) => [each.remote_address, each.finish_count]));
}

/** What a node told last that does not answer, if nsqadmin has kept it. */
async function recall(state, signal) {
  if (!settings.historyInterval) return;
  const { nodes: [last] } = await get("/api/lost", { node: state.name }, signal);
  if (!last) return;
  state.known ??= {};
  state.at = last.at;
  state.stats = { topics: last.topics, total_clients: 0,
    total_messages: last.topics.reduce((sum, each) => sum + each.message_count, 0) };
}

/** What is opened is not known yet: it is asked for at once. */
function askForOpened({ page, stats, asked }) {
  const unknown = openTopics(page, stats?.topics).filter((topic) => !asked.has(topic));
  unknown.forEach((topic) => asked.add(topic));
  if (unknown.length) page.reload();
}

async function statsOf(name, open, signal) {
  const query = { level: "topics", open: open.join(",") };
  try {
    return { standing: ANSWERS, problem: "", told: await get(pathOf("api", "nodes", name), query, signal) };
  } catch (error) {
    if (error.status === 404) return { standing: GONE, problem: "" };
    if (error.status !== 502) throw error;
    return { standing: SILENT, problem: error.message.replace(/^UPSTREAM_ERROR: /, "") };
  }
}

// --- what it is ----------------------------------------------------------------------------------

function head({ name, standing, known }) {
  return [
    trail(["Nodes", to.nodes()], [name, to.node(name)]),
    heading({
      kind: "Node",
      title: name,
      badges: [
        standing === SILENT && badge("no answer", "bad"),
        standing === GONE && known && badge("gone", "bad"),
        known?.out_of_date && badge("out of date", "warn", "Another node is of a newer version"),
      ],
    }),
  ];
}

function unknown(name) {
  return empty(`There is no node ${name}`,
    settings.lookupds.length > 0
      ? "No nsqlookupd knows of it: it may have ended, or never have been registered. "
      : "--nsqd-http-address does not name it, or it does not answer. ",
    h("a", { href: to.nodes() }, "All nodes"));
}

/** Why there is nothing new of it. */
function missing({ standing, problem, stats, at }) {
  const what = standing === SILENT
    ? ["The node is registered, but does not answer: ", problem, ". "]
    : "The node is not in the list of nodes any more: it has ended, or lost its nsqlookupds. ";
  return notice("bad", what, stats
    ? `Below is what it told last, at ${clock(at)}.`
    : "Below is what is known of it.");
}

function described(known, machine) {
  if (!known) return null;
  const lookupds = known.remote_addresses ?? [];
  return h("div", { class: "panel" }, facts([
    ...machineFacts(machine),
    ["Host name", known.hostname],
    ["Broadcast address", known.broadcast_address],
    ["Ports", portsText(machine, known)],
    known.version && ["Version", h("span", {}, versions(known.version, machine))],
    ["Region", known.topology_region],
    ["Zone", known.topology_zone],
    settings.lookupds.length > 0 && known.hostname != null && ["Registered with", lookupds.length > 0
      ? h("span", {}, lookupds.join(", "))
      : badge("no nsqlookupd", "warn")],
  ]));
}

// --- what is on it -------------------------------------------------------------------------------

/** What is shown of the node as a whole: as the page was told last, what goes out by the last look. */
function present({ page, name, stats: { topics }, topics: published }) {
  const live = page.live.row("", "", name) ?? {};
  const speeds = topics.map((each) => published.of(each.topic_name)).filter((each) => each != null);
  const depth = topics.reduce((sum, each) => sum + each.depth, 0) + held(topics, "depth");
  return { depth, waiting: depth, in_flight: held(topics, "in_flight_count"), out: live.out,
    in: speeds.length ? speeds.reduce((sum, each) => sum + each, 0) : live.in };
}

function held(topics, figure) {
  return topics.reduce((sum, each) => sum + each.in_channels[figure], 0);
}

function figures({ page, name, stats }, hour, now) {
  const kind = staleKind(page.live.row("", "", name) ?? {});
  const { topics } = stats;
  const channels = topics.reduce((sum, each) => sum + each.channel_names.length, 0);
  return tiles(
    tile({ label: "Topics", value: count(topics.length), hint: `with ${many(channels, "channel")}` }),
    tile({ label: "Consumers", value: count(stats.total_clients), hint: "connected to its channels" }),
    tile({ label: "Messages", value: short(stats.total_messages), hint: "published since it has started" }),
    tile({ label: "Backlog", value: count(now.depth), kind, hint: "waiting in topics and channels",
      chart: sparkline(hour.depth, { title: "Backlog" }) }),
    tile({ label: "In", value: rate(now.in),
      chart: sparkline(hour.in, { title: "Messages published a second" }) }),
    tile({ label: "Out", value: rate(now.out),
      chart: sparkline(hour.out, { title: "Messages finished a second" }) }),
    tile({ label: "In flight", value: count(now.in_flight), kind,
      hint: `${count(held(topics, "deferred_count"))} deferred` }));
}

function topics({ page, name, stats, known, topics: published, clients, under }) {
  const hidden = (known?.topics ?? []).filter(({ tombstoned }) => tombstoned).map(({ topic }) => topic);
  return tree(page, {
    node: name,
    topics: stats.topics,
    hidden: new Set(hidden),
    queues: { isGo: (node) => under.of(node)?.penstock_version === null },
    speeds: {
      topic: (each) => published.of(each.topic_name),
      client: (each) => clients.of(each.remote_address),
    },
  });
}

/** The topics that nsqlookupd knows on a node that does not answer, and its last figures do not have. */
function others({ standing, stats, known }) {
  if (standing === ANSWERS) return null;
  const told = new Set(stats.topics.map((each) => each.topic_name));
  const left = (known?.topics ?? []).filter(({ topic }) => !told.has(topic));
  return left.length > 0 && named({ topics: left });
}

/** The names alone, of a node that does not answer. */
function named({ topics }) {
  if (!topics?.length) return empty("No topic is known to be on this node");
  return h("ul", { class: "names" }, topics.map(({ topic, tombstoned }) => h("li", { key: topic },
    h("a", { href: to.topic(topic) }, topic), tombstoned && [" ", badge("tombstoned", "warn")])));
}
