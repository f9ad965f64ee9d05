/** The cluster at one look: its totals, what wants attention, its last hour, its busiest topics. */

import { get } from "../core/api.js";
import { h } from "../core/dom.js";
import { count, rate, short } from "../core/format.js";
import { isSystem } from "../core/inner.js";
import { hourTitle, past, pastSection } from "../core/last_hour.js";
import { to } from "../core/router.js";
import { settings } from "../core/settings.js";
import { alerts } from "../features/alerts.js";
import { attention } from "../features/attention.js";
import { known as copiesKnown } from "../features/copies.js";
import { lostBadge, staleKind } from "../features/lost.js";
import { addressOf, isSilent } from "../features/nodes.js";
import { sparkline } from "../widgets/chart.js";
import { warning } from "../widgets/columns.js";
import { graphs } from "../widgets/graphite.js";
import { table } from "../widgets/table.js";
import { heading, loading, section, tile, tiles } from "../widgets/ui.js";

const AGAIN_S = 10;

export default function overview(page) {
  page.title = "Overview";
  const live = page.follow({ level: "overview" });
  const seen = { nodes: null, topics: null, damage: [], letters: [], groups: [], pipelines: [],
    rocketmq: { items: [], groups: [], beside: { brokers: [], topics: [], in: 0, out: 0 } }, copies: [],
    counter: null };
  const hour = past(page);
  loadAll(page, seen);

  return () => {
    if (!seen.nodes) return [heading({ title: "Overview" }), !page.error && loading()];
    return [
      heading({ title: "Overview" }),
      warning(seen.nodes.message, page),
      totals(seen, live, hour),
      alerts(page, found(seen, live), live.beyond),
      pastSection(page, hour, "hour"),
      graphs(page, {}),
      live.at > 0 && busiest(page, [...live.rows()].filter(isOwnTopic)),
    ];
  };
}

/** Beside the nodes, without which there is nothing to show, each part may fail by itself. */
function loadAll(page, seen) {
  page.load(async (signal) => {
    seen.nodes = await get("/api/nodes", { topics: "false" }, signal);
  }, AGAIN_S);
  page.load(async (signal) => {
    seen.topics = (await get("/api/topics", {}, signal)).topics ?? [];
  }, AGAIN_S);
  page.load(async (signal) => {
    seen.damage = (await get("/api/damage", {}, signal)).damage ?? [];
  }, AGAIN_S);
  page.load(async (signal) => {
    seen.letters = (await get("/api/deadletters", {}, signal)).topics ?? [];
  }, AGAIN_S);
  page.load(async (signal) => {
    seen.pipelines = (await get("/api/pipelines", {}, signal)).pipelines;
  }, AGAIN_S);
  page.load(async (signal) => {
    seen.copies = await copiesKnown(signal);
  }, AGAIN_S);
  if (settings.hasRocketmq) {
    page.load(async (signal) => {
      seen.rocketmq = await get("/api/rocketmq/attention", {}, signal);
    }, AGAIN_S);
  }
  if (settings.historyInterval) return;
  page.load(async (signal) => { // what the history tells otherwise
    seen.counter = (await get("/api/counter", {}, signal)).stats;
    seen.groups = (await get("/api/groups", {}, signal)).groups ?? [];
  }, AGAIN_S);
}

/** What wants attention. */
function found({ nodes: { nodes: told }, damage, letters, groups, pipelines, rocketmq, copies }, live) {
  const nodes = (told ?? []).map((node) =>
    ({ address: addressOf(node), version: node.version, isOld: node.out_of_date }));
  const silent = nodes.map(({ address }) => address).filter((address) => isSilent(live, address));
  return attention({
    queues: live.attention, nodes, silent, missing: live.missing, givenUp: live.givenUp, damage, letters,
    groups: live.at ? [] : groups, pipelines, rocketmq,
    copies,
  });
}

function isOwnTopic({ topic, channel }) {
  return topic && !channel && !isSystem(topic);
}

function totals(seen, live, hour) {
  const { beside } = seen.rocketmq;
  const told = seen.nodes.nodes ?? [];
  const missing = live.missing.length;
  const whole = live.row();
  const away = new Set(live.missing.map(({ node }) => node));
  const nodes = [...live.rows()].filter(({ topic, node }) => node && !topic && !away.has(node)).length;
  const known = whole ? whole.channels : seen.counter && channelsOf(seen.counter);
  return tiles(
    nodesTile(live.at ? nodes : told.length, missing, beside.brokers.length, versions(told)),
    topicsTile(seen),
    sum("Channels", count(known), "channels"),
    whole ? [
      sum("Consumers", count(whole.clients), "clients"),
      ...flows(whole, hour, beside),
    ] : tile({ label: "Messages", value: seen.counter && short(messagesOf(seen.counter)),
      href: to.counter(), hint: "that came to channels" }));
}

/** A tile that leads to the topics, those with the most of it first. */
function sum(label, value, column = null, chart = null, kind = "") {
  return tile({ label, value, chart, kind, href: to.topics({ "topics.sort": column && `-${column}` }) });
}

/** The nodes, with RocketMQ's brokers that are not nodes. */
function nodesTile(nodes, missing, brokers, versions) {
  const dialects = brokers > 0 && `${count(nodes)} NSQ, ${count(brokers)} RocketMQ`;
  return tile({ label: "Nodes", value: count(nodes + brokers), href: to.nodes(),
    kind: missing ? "bad" : "",
    hint: missing ? `${count(missing)} missing` : dialects || `NSQ ${versions}` });
}

/** The topics of both dialects, each once. */
function topicsTile({ topics, rocketmq: { beside } }) {
  const own = topics?.filter((topic) => !isSystem(topic));
  const others = beside.topics.filter((topic) => !own?.includes(topic)).length;
  return tile({ label: "Topics", value: count(own && own.length + others), href: to.topics(),
    hint: others > 0 ? `${count(others)} of them RocketMQ's alone` : null });
}

/** In and out are of both dialects; charts are of the nodes, which have a past. */
function flows(row, hour, beside) {
  const line = (values, tone, title) => sparkline(values, { tone, title: `${title}, ${hourTitle(hour)}` });
  const kind = staleKind(row);
  return [
    sum("Backlog", short(row.depth), "waiting", line(hour.depth, "1", "Backlog"), kind),
    sum("In flight", short(row.in_flight), "in_flight", line(hour.in_flight, "2", "In flight"), kind),
    flow("In", row.in, beside.in, line(hour.in, "1", "In")),
    flow("Out", row.out, beside.out, line(hour.out, "2", "Out")),
  ];
}

function flow(label, own, others, chart) {
  return tile({ label, value: rate(own + others), chart,
    hint: others > 0 ? `${rate(others)} RocketMQ's` : null,
    href: to.topics({ "topics.sort": `-${label.toLowerCase()}` }) });
}

function versions(nodes) {
  const all = new Set(nodes.map(({ version }) => version));
  return all.size > 1 ? `${count(all.size)} versions` : [...all].join("");
}

function channelsOf(counter) {
  return new Set(Object.values(counter).map((each) => `${each.topic_name}\n${each.channel_name}`)).size;
}

function messagesOf(counter) {
  return Object.values(counter).reduce((sum, each) => sum + each.message_count, 0);
}

function busiest(page, rows) {
  const figure = (name, title, hint, format = count) => ({ name, title, hint, format, numeric: true });
  const all = h("a", { href: to.topics() }, "All topics");
  return section({ title: "Busiest topics", id: "busiest", tools: all },
    table(page, {
      id: "busiest",
      caption: "The topics with the most traffic",
      columns: [
        { name: "topic", title: "Topic",
          cell: (row) => [h("a", { href: to.topic(row.topic) }, row.topic), " ", lostBadge(row)] },
        figure("in", "In", "Messages published a second", rate),
        figure("out", "Out", "Messages that its channels are rid of a second", rate),
        figure("waiting", "Backlog", "Messages that wait in the topic and in its channels"),
        figure("in_flight", "In flight", "Messages that consumers have and have not finished"),
        figure("requeues", "Requeued", "Messages given back by consumers a second", rate),
        figure("timeouts", "Timed out", "Messages that consumers did not finish in time, a second", rate),
        figure("clients", "Consumers", "Of all its channels"),
      ],
      rows,
      key: ({ topic }) => topic,
      kind: staleKind,
      sort: "-in",
      empty: "There is no topic yet",
    }));
}
