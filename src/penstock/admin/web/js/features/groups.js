/** Groups that read the logs of topics: how far behind they are, and when they will have caught up. */

import { h } from "../core/dom.js";
import { count, rate, seconds } from "../core/format.js";
import { lineTitle } from "../core/last_hour.js";
import { to } from "../core/router.js";
import { settings } from "../core/settings.js";
import { fold, folds } from "../core/unfolded.js";
import { sparkline } from "../widgets/chart.js";
import { table } from "../widgets/table.js";
import { badge, empty, notice } from "../widgets/ui.js";
import { TITLES } from "./alerts.js";
import { lags } from "./lags.js";
import { pipelineLink, stateBadge } from "./pipelines.js";
import { verdictBadge } from "./verdicts.js";

const DIALECTS = {
  rocketmq: ["RocketMQ", "A consumer group of RocketMQ's clients"],
  log: ["NSQ log", "A reader of an nsqd's log by its HTTP API, such as Spark"],
};

/** The table of these groups (of /api/groups). */
export function groupsTable(page, groups) {
  const pastOf = lags(page, groups);
  const rows = groups.map((group) =>
    ({ ...group, name: nameOf(group), past: pastOf(group), change: group.verdict.growth }));
  const stale = rows.filter((row) => row.stale);
  return [
    stale.length > 0 && notice("warn", stale.map(staleLine)),
    lagTable(page, rows),
  ];
}

/** A group that nobody moves, and what comes of it. */
function staleLine(row) {
  const end = row.expires_in == null ? "Delete it (/log/group/delete) if its reader will not come back."
    : `nsqd will delete it in ${seconds(row.expires_in)}.`;
  return h("p", { key: row.name },
    "Group ", h("b", {}, row.group), " has not moved in topic ", topicLink(row),
    ` for ${seconds(row.age)} and holds ${count(row.lag)} messages of its log. ${end}`);
}

function lagTable(page, rows) {
  const folding = folds(page);
  const columns = [
    { name: "group", title: "Group", value: (row) => row.group, cell: (row) => nameCell(row, folding) },
    { name: "topic", title: "Topic", value: (row) => row.topic, cell: topicLink },
    { name: "kind", title: "Dialect", value: (row) => DIALECTS[row.kind][0], cell: dialectBadge },
    { name: "pipeline", title: "Pipeline", value: (row) => row.pipeline?.name, cell: ({ pipeline }) =>
      pipeline && [pipelineLink(pipeline), pipeline.state !== "running" && [" ", stateBadge(pipeline)]] },
    { name: "state", title: "State", early: true, hint: "By the rule of the overview",
      value: ({ verdict }) => TITLES[verdict.kind], cell: ({ verdict }) => verdictBadge(verdict) },
    { name: "lag", title: "Lag", hint: "Messages in the log that the group has not committed yet",
      numeric: true, total: true, early: true, value: (row) => row.lag },
    { name: "past", title: pastTitle(rows), hint: "The lag over this time", value: (row) => row.change ?? 0,
      cell: (row) => sparkline(row.past.values, { title: `Lag of ${row.group}` }) },
    { name: "change", title: "Trend", hint: "How fast the lag grows or shrinks, over the last five minutes",
      numeric: true, value: (row) => row.change, cell: trend },
    { name: "rate", title: "Read", hint: "Messages a second that the group reads",
      numeric: true, total: true, value: (row) => row.rate, cell: (row) => rate(row.rate) },
    { name: "age", title: "Age", numeric: true, value: (row) => row.age, cell: ageCell,
      hint: "How long ago the group moved or had nothing to read" },
    { name: "outlook", title: "Caught up in", hint: "When the lag will be gone, if it goes on like this",
      early: true, numeric: true, value: ({ verdict }) => verdict.seconds, format: seconds },
    { name: "clients", title: "Clients", numeric: true, total: true,
      value: (row) => (row.kind === "log" ? null : row.clients) },
    { name: "nodes", title: "Nodes", numeric: true, value: (row) => row.nodes.length },
  ];
  const left = [page.page === "topic" && "topic", !rows.some((row) => row.pipeline) && "pipeline"];
  return table(page, {
    id: "groups",
    columns: columns.filter(({ name }) => !left.includes(name)),
    rows,
    key: (row) => row.name,
    sort: "-lag",
    filter: rows.length > 5,
    kind: ({ verdict }) => verdict.level,
    detail: (row) => folding.has(row.name) && nodesTable(page, row),
    empty: empty("No group reads a log",
      "RocketMQ's consumer groups are here as soon as they commit an offset, ",
      "and readers of the log (Spark, /log/commit) with their first commit."),
  });
}

/** How far back the longest of the lines goes. */
function pastTitle(rows) {
  const times = rows.map((row) => row.past.times).filter((each) => each.length > 1);
  return lineTitle({ at: Math.max(0, ...times.map((each) => each.at(-1))),
    since: Math.min(...times.map((each) => each[0])) });
}

function nameCell(row, folding) {
  const isLinked = row.kind === "rocketmq" && settings.hasRocketmq;
  return [fold(folding, row.name, `the nodes of ${row.group}`), " ",
    isLinked ? h("a", { href: to.rocketGroup(row.group) }, row.group) : row.group];
}

function ageCell({ age, stale, owner }) {
  if (age == null) return count(null);
  const mark = stale && [" ", badge("stale", "warn")];
  return h("span", { title: owner && `Owner: ${owner}` }, seconds(age), mark);
}

/** Of a topic that only brokers have there is RocketMQ's page alone. */
function topicLink({ topic, nodes }) {
  return h("a", { href: nodes.every(isBroker) ? to.rocketTopic(topic) : to.topic(topic) }, topic);
}

/** Brokers that are not nodes are called by their names, nodes by their addresses. */
function isBroker({ node }) {
  return !node.includes(":");
}

function dialectBadge({ kind }) {
  const [name, hint] = DIALECTS[kind];
  return h("span", { title: hint }, badge(name, kind === "log" ? "accent" : ""));
}

function trend({ change }) {
  if (change == null) return rate(change);
  if (Math.abs(change) < 0.05) return "level";
  const [sign, kind] = change > 0 ? ["+", "bad"] : ["−", "good"];
  return h("span", { class: `trend ${kind}` }, sign + rate(Math.abs(change)));
}

/** What a group is on each node. An offset counts the messages of a queue; most logs have queue 0 alone. */
function nodesTable(page, row) {
  return table(page, {
    id: `on.${row.name}`,
    columns: [
      { name: "node", title: "Node", cell: (each) => h("a", {
        href: isBroker(each) ? to.rocketmq({ tab: "servers" }) : to.node(each.node) }, each.node) },
      { name: "lag", title: "Lag", numeric: true },
      { name: "rate", title: "Read", numeric: true, format: rate },
      { name: "committed", title: "Committed", hint: "The offset of each queue that is read next",
        numeric: true, plain: true, cell: (each) => committed(each.committed) },
      { name: "age", title: "Age", numeric: true, value: (each) => each.age,
        cell: (each) => each.age == null ? count(null) : seconds(each.age) },
      { name: "end", title: "End", hint: "What the offsets add up to without a lag", numeric: true },
      { name: "clients", title: "Clients", numeric: true },
    ],
    rows: row.nodes,
    key: (each) => each.node,
    sort: "node",
    caption: `Group ${row.group} on each node`,
  });
}

function committed(offsets) {
  const queues = Object.entries(offsets);
  if (queues.length === 1) return count(queues[0][1]);
  return queues.map(([queue, offset]) => `${queue}: ${count(offset)}`).join(", ") || count(null);
}

const nameOf = ({ topic, group, kind }) => [topic, group, kind].join("/");
