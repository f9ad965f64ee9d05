/** All topics, with the newest figures of each: one stream for all of them, no request for each. */

import { get } from "../core/api.js";
import { h } from "../core/dom.js";
import { count, rate } from "../core/format.js";
import { isSystem } from "../core/inner.js";
import { lineTitle } from "../core/last_hour.js";
import { to } from "../core/router.js";
import { settings } from "../core/settings.js";
import { createForm } from "../features/actions.js";
import { lostBadge, staleKind } from "../features/lost.js";
import { systemButton } from "../features/rocketmq/parts.js";
import { trends } from "../features/trends.js";
import { levelOf, verdictBadges, verdictsOn } from "../features/verdicts.js";
import { sparkline } from "../widgets/chart.js";
import { warning } from "../widgets/columns.js";
import { rates, smallGraph, timeframe, timeframeMenu } from "../widgets/graphite.js";
import { table } from "../widgets/table.js";
import { badge, classes, empty, heading, loading, section } from "../widgets/ui.js";

const AGAIN_S = 10;
const RATES_AGAIN_S = 60;

export default function topics(page) {
  page.title = "Topics";
  const live = page.follow({ level: "topics" });
  const trend = trends(page, "in");
  const told = { names: null, nodes: new Map(), hidden: new Map(), message: "", rates: new Map() };
  page.load((signal) => ask(told, signal), AGAIN_S);
  if (settings.graphite.enabled) page.load((signal) => askRates(page, told, signal), RATES_AGAIN_S);

  return () => {
    const all = told.names && rowsOf(told, live);
    const own = all?.filter(({ topic }) => !isSystem(topic));
    const rows = page.query.system === "all" ? all : own;
    return [
      heading({ title: "Topics", badges: rows && badge(count(rows.length)), tools: timeframeMenu(page) }),
      told.message && warning(told.message, page),
      rows ? topicTable(page, rows, trend, systemButton(page, all.length - own.length))
        : !page.error && loading(),
      settings.isAdmin && section({ title: "Create a topic", id: "create" }, createForm(page)),
    ];
  };
}

async function ask(told, signal) {
  const [topics, nodes] = await Promise.all([get("/api/topics", {}, signal), get("/api/nodes", {}, signal)]);
  told.names = topics.topics ?? [];
  told.message = topics.message || nodes.message;
  told.nodes = new Map();
  told.hidden = new Map();
  for (const node of nodes.nodes ?? []) {
    for (const { topic, tombstoned } of node.topics ?? []) {
      const counts = tombstoned ? told.hidden : told.nodes;
      counts.set(topic, (counts.get(topic) ?? 0) + 1);
    }
  }
}

async function askRates(page, told, signal) {
  if (timeframe(page) === "off") return;
  const tell = (topic, value) => {
    told.rates.set(topic, value);
    page.redraw();
  };
  await rates((await get("/api/topics", {}, signal)).topics ?? [], tell, signal);
}

/** A row for each topic that nsqlookupds or nodes know. */
function rowsOf({ names, nodes, hidden, rates }, live) {
  const found = new Set(names);
  for (const { topic, channel } of live.rows()) if (topic && !channel) found.add(topic);
  return [...found].map((topic) => ({
    ...live.row(topic),
    topic,
    nodes: nodes.get(topic) ?? 0,
    hidden: hidden.get(topic) ?? 0,
    graphite: rates.get(topic),
    verdicts: worst(verdictsOn(live, topic)),
  }));
}

/** One badge is enough for a list: the page of the topic has them all. */
function worst(verdicts) {
  return verdicts.filter(({ level }) => level === levelOf(verdicts)).slice(0, 1);
}

function topicTable(page, rows, trend, tools) {
  const hasGraphite = timeframe(page) !== "off";
  return table(page, {
    id: "topics",
    caption: "All topics",
    columns: [
      { name: "topic", title: "Topic", cell: nameCell },
      ...(settings.historyInterval ? figureColumns(page, trend) : []),
      figure("nodes", "Nodes", "Nodes that have it and are not tombstoned for it"),
      ...(hasGraphite ? graphiteColumns(page) : []),
    ],
    rows,
    key: ({ topic }) => topic,
    sort: "topic",
    filter: true,
    tools,
    totals: page.live.at > 0 && rows.length > 1,
    kind: (row) => (isInactive(row) ? "faint" : classes(levelOf(row.verdicts), staleKind(row))),
    empty: empty("There is no topic yet", settings.isAdmin
      ? "Create one below; a producer that publishes to it creates it as well."
      : "A producer that publishes to one creates it."),
  });
}

function figureColumns(page, trend) {
  return [
    figure("waiting", "Backlog", "Messages that wait in the topic and in its channels"),
    figure("in", "In", "Messages published a second", rate),
    { name: "trend", title: lineTitle(page.live), hint: "Messages published a second", plain: true,
      value: () => "", cell: ({ topic }) => h("div", { class: "table-line" }, sparkline(trend(topic))) },
    figure("out", "Out", "Messages that its channels are rid of a second", rate),
    figure("in_flight", "In flight", "Messages that consumers have and have not finished"),
    figure("requeues", "Requeued", "Messages given back by consumers a second", rate),
    figure("timeouts", "Timed out", "Messages that consumers did not finish in time, a second", rate),
    figure("channels", "Channels"),
    figure("clients", "Consumers", "Connections of consumers to its channels, on all nodes"),
  ];
}

function figure(name, title, hint, format = count) {
  return { name, title, hint, format, numeric: true, total: name !== "nodes" };
}

function graphiteColumns(page) {
  const image = (key, title) => ({
    name: `graph-${key}`, title, numeric: true, plain: true, value: () => null,
    cell: ({ topic }) => h("a", { href: to.topic(topic) }, smallGraph(page, { topic }, key)),
  });
  return [
    image("depth", "Depth (graphite)"),
    image("message_count", "Messages (graphite)"),
    { name: "graphite", title: "Rate (graphite)", hint: "Messages a second", numeric: true,
      value: (row) => Number.parseFloat(row.graphite), cell: (row) => row.graphite ?? "…" },
  ];
}

function nameCell(row) {
  return [
    h("a", { href: to.topic(row.topic) }, row.topic),
    row.paused > 0 && [" ", badge("paused", "warn")],
    row.verdicts.filter(({ kind, names }) => kind !== "paused" || names.length > 1)
      .map((each) => [" ", topicVerdict(each)]),
    " ", lostBadge(row),
    row.hidden > 0 && [" ", badge(`tombstoned on ${count(row.hidden)}`, "warn",
      "Consumers are not sent there")],
    isInactive(row) && [" ", badge("inactive", "", "nsqlookupd knows it, but no node has it")],
  ];
}

/** A verdict with the channel or group that it is about. */
function topicVerdict(verdict) {
  const [topic, channel = ""] = verdict.names;
  const href = channel.startsWith("@") ? to.topic(topic) : to.channel(topic, channel);
  return channel ? h("a", { href, title: channel }, verdictBadges([verdict])) : verdictBadges([verdict]);
}

function isInactive({ nodes, hidden, depth }) {
  return !nodes && !hidden && depth === undefined;
}
