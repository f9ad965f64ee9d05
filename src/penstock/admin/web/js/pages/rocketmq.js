/** RocketMQ as a whole: its topics, its consumer groups, its brokers and name servers. */

import { get } from "../core/api.js";
import { h } from "../core/dom.js";
import { count, rate, short } from "../core/format.js";
import { hourTitle } from "../core/last_hour.js";
import { to } from "../core/router.js";
import { settings } from "../core/settings.js";
import { fold, folds } from "../core/unfolded.js";
import { alerts, textOf } from "../features/alerts.js";
import { worstFirst } from "../features/attention.js";
import { many } from "../features/consequences.js";
import { accountsView } from "../features/rocketmq/accounts.js";
import { createGroupButton } from "../features/rocketmq/group_actions.js";
import { agoColumn, groupLink, systemButton, topicCell, topicLink, typeOf, version }
  from "../features/rocketmq/parts.js";
import { settingsView } from "../features/rocketmq/settings.js";
import { createTopicButton } from "../features/rocketmq/topic_actions.js";
import { levelOf, verdictColumn } from "../features/verdicts.js";
import { chart } from "../widgets/chart.js";
import { number, rateColumn, warning } from "../widgets/columns.js";
import { table } from "../widgets/table.js";
import { badge, empty, facts, heading, loading, section, tabOf, tabs, tile, tiles } from "../widgets/ui.js";

const AGAIN_S = 5;
const ASKED = {
  overview: "/api/rocketmq/attention", topics: "/api/rocketmq/topics", groups: "/api/rocketmq/groups",
  servers: "/api/rocketmq", accounts: "/api/rocketmq/accounts", settings: "/api/rocketmq/settings",
};
const TABS = [
  { name: "overview", title: "Overview" },
  { name: "topics", title: "Topics" },
  { name: "groups", title: "Groups" },
  { name: "servers", title: "Brokers and name servers" },
  settings.isAdmin && { name: "accounts", title: "Accounts" },
  settings.isAdmin && { name: "settings", title: "Settings" },
].filter(Boolean);

export default function rocketmq(page) {
  page.title = "RocketMQ";
  const told = {}; // by tab
  let asked = tabOf(page, TABS);

  page.load(async (signal) => {
    const tab = (asked = tabOf(page, TABS));
    told[tab] = tab === "overview" ? await whole(signal) : await get(ASKED[tab], {}, signal);
  }, AGAIN_S);

  return () => {
    const tab = tabOf(page, TABS);
    if (tab !== asked) {
      asked = tab;
      page.reload();
    }
    return [
      heading({ title: "RocketMQ" }),
      warning(told[tab]?.message),
      tabs(page, TABS),
      told[tab] ? SHOWN[tab](page, told[tab]) : !page.error && loading(),
    ];
  };
}

const SHOWN = { overview: overviewTab, topics: topicsTab, groups: groupsTab, servers: serversTab,
  accounts: (page, { brokers }) => accountsView(page, brokers),
  settings: (page, { brokers }) => settingsView(page, brokers) };

// --- overview ------------------------------------------------------------------------------------

/** What wants attention, with the servers. */
async function whole(signal) {
  const [judged, cluster, history] = await Promise.all([
    get(ASKED.overview, {}, signal), get(ASKED.servers, {}, signal), get("/api/rocketmq/history", {}, signal),
  ]);
  return { ...cluster, ...judged, history, message: judged.message || cluster.message };
}

function overviewTab(page, { items, groups, lag, topics, brokers, name_servers: servers, history }) {
  const sum = (figure) => brokers.reduce((total, each) => total + (figure(each) ?? 0), 0);
  const silent = [...brokers, ...servers].filter(({ answers }) => !answers).length;
  return [
    tiles(
      tile({ label: "Brokers", value: count(brokers.length), href: to.rocketmq({ tab: "servers" }),
        kind: silent ? "bad" : "",
        hint: silent ? `${count(silent)} silent` : many(servers.length, "name server") }),
      tile({ label: "Topics", value: count(topics), href: to.rocketmq({ tab: "topics" }) }),
      tile({ label: "Groups", value: count(groups.length), href: to.rocketmq({ tab: "groups" }) }),
      tile({ label: "Lag", value: short(lag), hint: "of all groups", href: to.rocketmq({ tab: "groups" }) }),
      tile({ label: "In", value: rate(sum((each) => each.in)),
        hint: `${short(sum((each) => each.in_today))} today` }),
      tile({ label: "Out", value: rate(sum((each) => each.out)),
        hint: `${short(sum((each) => each.out_today))} today` })),
    alerts(page, worstFirst(items)),
    history.times.length > 0 && section({ title: hourTitle(history), id: "charts" }, charts(history)),
  ];
}

function charts({ times, lag, in: came, out }) {
  return h("div", { class: "charts" },
    chart({ title: "Lag", unit: "messages", times, series: [{ name: "of all groups", values: lag }] }),
    chart({ title: "Traffic", unit: "rate", times, series: [
      { name: "in", values: came },
      { name: "out", values: out },
    ] }));
}

// --- topics --------------------------------------------------------------------------------------

function topicsTab(page, { topics }) {
  const isUnfolded = page.query.system === "all";
  const own = topics.filter(({ kind }) => kind !== "system");
  const columns = [
    { name: "topic", title: "Topic", value: (row) => row.topic, cell: topicCell },
    number("write_queues", "Queues", "That are written to, on all brokers", false),
    number("kept", "Messages", "That the brokers still have"),
    rateColumn("in", "In", "Messages stored a second", (row) => row.in),
    agoColumn("last_ms", "Last message", "When the newest one was stored"),
    number("groups", "Groups", "That read it", false),
    number("lag", "Lag", "Messages that its groups have not consumed yet, all together"),
    { name: "brokers", title: "Brokers", numeric: true, value: (row) => row.brokers.length,
      cell: ({ brokers }) => h("span", { title: brokers.join(", ") }, count(brokers.length)) },
  ];
  const tools = [systemButton(page, topics.length - own.length), createTopicButton(page)];
  return table(page, {
    id: "topics", columns, rows: isUnfolded ? topics : own, key: (row) => row.topic, sort: "topic",
    filter: topics.length > 5, tools, totals: own.length > 1, caption: "Topics of RocketMQ",
    kind: ({ kind, kept }) => (kind === "dlq" && kept > 0 ? "warn" : ""),
    empty: empty("No topics", "A topic comes into being when mqadmin or a producer creates it."),
  });
}

// --- groups --------------------------------------------------------------------------------------

function groupsTab(page, { groups }) {
  const columns = [
    { name: "group", title: "Group", value: (row) => row.group, cell: (row) => groupLink(row.group) },
    { name: "topics", title: "Topics", value: (row) => ownTopics(row).join(" "),
      cell: (row) => ownTopics(row).map((topic, at) => [at > 0 && ", ", topicLink(topic)]) },
    number("members", "Members", "That are connected to a broker"),
    verdictColumn(),
    { name: "type", title: "Consumes", hint: "How its members get messages", value: typeOf },
    { ...number("lag", "Lag", "Messages that it has not consumed yet"), early: true },
    rateColumn("tps", "Out", "Messages a second that brokers gave it", (row) => row.tps),
    agoColumn("last_ms", "Consumed up to", "When the newest message was stored that it has consumed"),
  ];
  return table(page, {
    id: "groups", columns, rows: groups, key: (row) => row.group, sort: "-lag",
    filter: groups.length > 5, totals: groups.length > 1, caption: "Consumer groups of RocketMQ",
    kind: ({ verdicts }) => levelOf(verdicts), tools: createGroupButton(page),
    empty: empty("No groups", "A group is here as soon as one of its members connects to a broker."),
  });
}

/** Retries of a group are its own; everybody has them. */
function ownTopics({ topics }) {
  return topics.filter((topic) => !topic.startsWith("%RETRY%"));
}

// --- brokers and name servers --------------------------------------------------------------------

function serversTab(page, { brokers, name_servers: servers }) {
  return [
    section({ title: "Brokers", id: "brokers" }, brokerTable(page, brokers)),
    section({ title: "Name servers", id: "name-servers" }, table(page, {
      id: "name-servers",
      columns: [
        { name: "address", title: "Address", cell: ({ address, answers }) => [address, silent(answers)] },
        number("brokers", "Brokers", "That it knows", false),
        number("topics", "Topics", "That it knows", false),
      ],
      rows: servers, key: (row) => row.address, sort: "address", caption: "Name servers",
      kind: ({ answers }) => (answers ? "" : "bad"),
    })),
  ];
}

function silent(answers) {
  return !answers && [" ", badge("no answer", "bad")];
}

function brokerTable(page, brokers) {
  const folding = folds(page);
  const columns = [
    { name: "broker", title: "Broker", value: (row) => row.broker, cell: (row) => brokerCell(row, folding) },
    { name: "cluster", title: "Cluster" },
    { name: "address", title: "Address" },
    { name: "version", title: "Version", value: (row) => version(row.version) },
    rateColumn("in", "In", "Messages stored a second", (row) => row.in),
    rateColumn("out", "Out", "Messages given to consumers a second", (row) => row.out),
    { ...number("in_today", "In today", "Messages stored since midnight"), format: short },
    { ...number("out_today", "Out today", "Messages given since midnight"), format: short },
    { name: "disk", title: "Disk", hint: "How full it is", numeric: true, cell: diskCell },
    agoColumn("started_ms", "Started", "When the broker has started"),
  ];
  return table(page, {
    id: "brokers", columns, rows: brokers, key: (row) => row.address, sort: "broker",
    filter: brokers.length > 5, totals: brokers.length > 1, caption: "Brokers",
    kind: ({ answers }) => (answers ? "" : "bad"),
    detail: (row) => folding.has(row.address) && figures(row),
    empty: empty("No brokers", "The name servers know of none: a broker registers with those in ",
      h("code", {}, "namesrvAddr"), "."),
  });
}

function brokerCell(row, folding) {
  return [
    fold(folding, row.address, `the figures of ${row.broker}`), " ", row.broker,
    row.id > 0 && [" ", badge(`replica ${row.id}`)], silent(row.answers),
  ];
}

function diskCell({ disk, verdicts }) {
  if (disk == null || disk < 0) return rate(null);
  const text = `${Math.round(disk * 100)} %`;
  const [bad] = verdicts.filter(({ kind }) => kind === "disk");
  return bad ? badge(text, bad.level, textOf(bad)) : text;
}

function figures({ figures: known }) {
  return h("div", { class: "unfolded" }, facts(Object.entries(known)));
}
