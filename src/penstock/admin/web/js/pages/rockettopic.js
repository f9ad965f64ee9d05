/** A topic of RocketMQ: its queues, who reads and who writes it, its messages. */

import { ApiError, get, pathOf } from "../core/api.js";
import { h } from "../core/dom.js";
import { count } from "../core/format.js";
import { to } from "../core/router.js";
import { settings } from "../core/settings.js";
import { many } from "../features/consequences.js";
import { agoCell, agoColumn, groupLink, kindBadge, permBadge, queueColumn, version }
  from "../features/rocketmq/parts.js";
import { rocketMessages } from "../features/rocketmq/messages.js";
import { topicActions } from "../features/rocketmq/topic_actions.js";
import { levelOf, verdictColumn, verdictsOn } from "../features/verdicts.js";
import { number, rateColumn, warning } from "../widgets/columns.js";
import { table } from "../widgets/table.js";
import { badge, empty, heading, loading, section, tabOf, tabs, tile, tiles, trail } from "../widgets/ui.js";

const AGAIN_S = 5;
const TABS = [{ name: "overview", title: "Overview" }, { name: "messages", title: "Messages" }];

export default function rockettopic(page) {
  const [name] = page.names;
  page.title = name;
  page.follow({ topic: name });
  const state = { page, name, told: null, channels: null, isUnknown: false };
  let messages = null;

  page.load(async (signal) => {
    state.told = await found(name, signal);
    state.isUnknown = !state.told;
  }, AGAIN_S);
  page.load(async (signal) => {
    state.channels = await channelsOf(name, signal);
  }, AGAIN_S);

  return () => {
    const { told } = state;
    if (!told) return [head(state), state.isUnknown ? unknown(name) : !page.error && loading()];
    const isOverview = tabOf(page, TABS) === "overview";
    if (!isOverview) messages ??= rocketMessages(page, state);
    return [head(state), warning(told.message), tabs(page, TABS), isOverview ? overview(state) : messages()];
  };
}

/** The topic; null when no name server knows it. */
async function found(name, signal) {
  try {
    return await get(pathOf("api", "rocketmq", "topics", name), {}, signal);
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

/** NSQ's channels of the same topic; null where none of our nodes has it. */
async function channelsOf(name, signal) {
  if (!settings.hasNodes) return null;
  try {
    const { topics } = await get("/api/topics", {}, signal);
    if (!topics?.includes(name)) return null;
    return (await get(pathOf("api", "topics", name), {}, signal)).channels ?? [];
  } catch (error) {
    if (error instanceof ApiError) return null; // NSQ's pages show it
    throw error;
  }
}

function head({ page, name, told, channels }) {
  return [
    trail(["RocketMQ", to.rocketmq()], [name, to.rocketTopic(name)]),
    heading({
      kind: "Topic",
      title: name,
      badges: told && [kindBadge(told.kind), told.order && badge("ordered", "", told.order),
        told.group && h("span", {}, "of group ", groupLink(told.group)),
        channels && h("a", { href: to.topic(name) },
          badge("NSQ", "accent", "The same topic, as NSQ has it"))],
      tools: told && topicActions(page, told, channels ?? []),
    }),
  ];
}

function unknown(name) {
  return empty(`There is no topic ${name}`, "No name server knows it. See ",
    h("a", { href: to.rocketmq() }, "all topics"), ".");
}

const keyOf = ({ broker, queue }) => `${broker}/${queue}`;

// --- overview ------------------------------------------------------------------------------------

function overview(state) {
  return [
    figures(state),
    readers(state),
    queues(state),
    brokers(state),
    producers(state),
  ];
}

function figures({ told: { queues: all, groups, brokers: on } }) {
  const sum = (figure) => all.reduce((total, each) => total + (figure(each) ?? 0), 0);
  const members = groups.reduce((total, each) => total + each.members, 0);
  return tiles(
    tile({ label: "Messages", value: count(sum((each) => each.max - each.min)),
      hint: `${count(sum((each) => each.max))} so far` }),
    tile({ label: "Largest lag", value: count(Math.max(0, ...groups.map(({ lag }) => lag))),
      hint: `of ${many(groups.length, "group")}` }),
    tile({ label: "Consumers", value: count(members), hint: "members of its groups" }),
    tile({ label: "Queues", value: count(all.length), hint: `on ${many(on.length, "broker")}` }),
    tile({ label: "Last message", value: agoCell(Math.max(0, ...all.map((each) => each.last_ms ?? 0))) }));
}

/** RocketMQ's groups and NSQ's channels: both read the same log. */
function readers({ page, name, told: { groups }, channels }) {
  const rows = [
    ...groups.map((each) => ({ ...each, name: each.group, dialect: "group" })),
    ...(channels ?? []).map((each) => ({ dialect: "channel", name: each.channel_name, tps: null,
      lag: each.depth + each.in_flight_count + each.deferred_count, members: each.client_count,
      verdicts: verdictsOn(page.live, name, each.channel_name) })),
  ];
  const link = (row) => row.dialect === "group" ? groupLink(row.name)
    : h("a", { href: to.channel(name, row.name) }, row.name);
  const columns = [
    { name: "name", title: "Reader", cell: link },
    { name: "dialect", title: "Kind",
      value: ({ dialect }) => (dialect === "group" ? "RocketMQ group" : "NSQ channel") },
    number("lag", "Lag", "Messages that it has not consumed yet; of a channel with those in flight"),
    { name: "members", title: "Consumers", numeric: true, value: (row) => row.members },
    verdictColumn(),
    rateColumn("tps", "Out", "Messages a second that brokers gave it", (row) => row.tps),
  ];
  return section({ title: "Readers", id: "readers" }, table(page, {
    id: "readers", columns, rows, key: (row) => `${row.dialect} ${row.name}`, sort: "name",
    filter: rows.length > 8, caption: `Readers of ${name}`,
    kind: ({ verdicts }) => levelOf(verdicts),
    empty: empty("Nobody reads it", "No group has consumed from it, and none subscribes to it."),
  }));
}

function queues({ page, name, told }) {
  const columns = [
    { name: "broker", title: "Broker" },
    queueColumn(),
    number("min", "First offset", "Of the oldest message that is kept", false),
    number("max", "End", "The offset that the next message will have", false),
    { name: "kept", title: "Messages", numeric: true, total: true,
      value: ({ min, max }) => (max == null ? null : max - min) },
    rateColumn("in", "In", "Messages stored a second", (row) => row.in),
    agoColumn("last_ms", "Last message"),
    { name: "open", title: "Open to", value: openTo },
  ];
  return section({ title: "Queues", id: "queues" }, table(page, {
    id: "queues", columns, rows: told.queues, key: keyOf, sort: "broker",
    filter: told.queues.length > 16, totals: told.queues.length > 1, caption: `Queues of ${name}`,
  }));
}

function openTo({ readable, writable }) {
  return [readable && "reads", writable && "writes"].filter(Boolean).join(", ") || "nobody";
}

function brokers({ page, name, told }) {
  const columns = [
    { name: "broker", title: "Broker" },
    { name: "cluster", title: "Cluster" },
    { name: "address", title: "Address" },
    number("read_queues", "Read queues", "", false),
    number("write_queues", "Write queues", "", false),
    { name: "perm", title: "Permission", value: (row) => row.perm,
      cell: (row) => permBadge(row.perm) ?? "read, write" },
  ];
  return section({ title: "Brokers", id: "brokers" }, table(page, {
    id: "brokers", columns, rows: told.brokers, key: (row) => row.broker, sort: "broker",
    caption: `Brokers of ${name}`,
  }));
}

function producers({ page, told }) {
  const columns = [
    { name: "group", title: "Producer group" },
    { name: "client", title: "Client" },
    { name: "address", title: "Address" },
    { name: "language", title: "Language", value: (row) => row.language.toLowerCase() },
    { name: "version", title: "Version", value: (row) => version(row.version) },
    agoColumn("last_ms", "Heard", "When a broker heard from it last"),
  ];
  return section({ title: "Producers at its brokers", id: "producers" },
    told.producers.length > 0 && h("p", { class: "faint" },
      "Brokers know which producers are connected, and not which topics each of them sends to."),
    table(page, {
    id: "producers", columns, rows: told.producers, key: (row) => `${row.group} ${row.client}`,
    sort: "group", filter: told.producers.length > 8, caption: "Producers",
    empty: empty("No producers", "None is connected to a broker of the topic."),
  }));
}
