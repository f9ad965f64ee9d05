/** All nodes: what they are, what is on them, and which of them do not answer. */

import { get } from "../core/api.js";
import { h } from "../core/dom.js";
import { ago, clock, count, rate } from "../core/format.js";
import { to } from "../core/router.js";
import { settings } from "../core/settings.js";
import { fold, folds } from "../core/unfolded.js";
import { copies, copiesSection } from "../features/copies.js";
import { staleKind } from "../features/lost.js";
import { machineColumns, machines, portsText, reasons, versions } from "../features/machines.js";
import { addressOf, isSilent } from "../features/nodes.js";
import { warning } from "../widgets/columns.js";
import { table } from "../widgets/table.js";
import { badge, classes, empty, heading, loading } from "../widgets/ui.js";

const AGAIN_S = 5;
const TOPICS_SHOWN = 100;

export default function nodes(page) {
  page.title = "Nodes";
  const live = page.follow({ level: "topics" });
  const seen = new Map(); // address -> the node as it was last seen, and when
  const under = machines();
  let told = null;
  page.load(under.load, AGAIN_S);
  const pairs = copies();
  page.load(pairs.load, AGAIN_S);

  page.load(async (signal) => {
    told = await get("/api/nodes", {}, signal);
    const now = Date.now() / 1000;
    for (const node of told.nodes ?? []) seen.set(addressOf(node), { node, at: now });
    page.title = `Nodes (${count(told.nodes?.length ?? 0)})`;
  }, AGAIN_S);

  return () => {
    const title = { title: "Nodes", badges: told && badge(count(told.nodes?.length ?? 0)) };
    if (!told) return [heading(title), !page.error && loading()];
    return [
      heading(title),
      warning(told.message, page),
      nodeTable(page, rowsOf(told.nodes ?? [], seen, live, under)),
      copiesSection(page, pairs.all()),
    ];
  };
}

/**
 * The nodes that are there, those that were when this page was opened, and those that nsqadmin has
 * seen within the hour, of which nothing but the address and the backlog is known.
 */
function rowsOf(nodes, seen, live, under) {
  const listed = new Set(nodes.map(addressOf));
  const away = new Map(live.missing.map((each) => [each.node, each]));
  const lost = [...away.keys()].filter((address) => !seen.has(address)).map((address) => [address, {}]);
  return [...seen, ...lost].map(([address, { node, at }]) => ({
    ...node,
    address,
    topics: node?.topics ?? [],
    lookupds: node?.remote_addresses ?? [],
    figures: live.row("", "", address),
    isGone: !listed.has(address),
    seenAt: at,
    lost: away.get(address),
    machine: listed.has(address) && !away.has(address) ? under.of(address) : null,
    isSilent: isSilent(live, address),
  }));
}

function nodeTable(page, rows) {
  const folding = folds(page);
  const has = (what) => rows.some((row) => row[what]);
  const figure = (name, title, hint, format = count) => ({
    name, title, hint, format, numeric: true, total: true, value: (row) => row.figures?.[name],
  });
  return table(page, {
    id: "nodes",
    columns: [
      { name: "node", title: "Node", hint: "Broadcast address and HTTP port", value: (row) => row.address,
        cell: (row) => nameCell(row, folding) },
      ...machineColumns(),
      { name: "topics", title: "Topics", numeric: true, total: true,
        value: (row) => (row.version ? row.topics.length : null), cell: topicsCell },
      figure("depth", "Backlog", "Messages that wait in its topics and channels"),
      figure("in", "In", "Messages published to it a second", rate),
      figure("out", "Out", "Messages that consumers finish a second", rate),
      figure("in_flight", "In flight", "Messages that consumers have and have not finished"),
      { name: "hostname", title: "Host name" },
      { name: "ports", title: "Ports", value: (row) => portsText(row.machine, row) },
      { name: "version", title: "Version", cell: versionCell },
      has("topology_region") && { name: "topology_region", title: "Region" },
      has("topology_zone") && { name: "topology_zone", title: "Zone" },
      settings.lookupds.length > 0 && { name: "lookupds", title: "nsqlookupds", numeric: true,
        hint: "How many nsqlookupds it is registered with", value: (row) => row.lookupds.length,
        cell: lookupdsCell },
    ].filter(Boolean),
    rows,
    key: (row) => row.address,
    sort: "hostname",
    filter: rows.length > 5,
    totals: rows.length > 1,
    kind: (row) => classes(kindOf(row), row.figures && staleKind(row)),
    detail: (row) => folding.has(row.address) && detail(row),
    empty: empty("There is no node", "An nsqd is here as soon as it is registered: start it with ",
      h("code", {}, "--lookupd-tcp-address"), "."),
  });
}

function kindOf({ isGone, isSilent: isMute, machine, out_of_date: isOld }) {
  if (isGone || isMute || (machine && machine.health !== "OK")) return "bad";
  return isOld || (machine && reasons(machine).length > 0) ? "warn" : "";
}

function nameCell(row, folding) {
  return [
    fold(folding, row.address, `what is known of ${row.address}`), " ",
    h("a", { href: to.node(row.address) }, row.address),
    row.isGone && [" ", badge("gone", "bad", "Not in the list of nodes any more; " +
      (row.seenAt ? `seen last ${ago(row.seenAt)}` : "it was within the last hour"))],
    !row.isGone && row.isSilent &&
      [" ", badge("no answer", "bad", "It is registered, but does not answer")],
    row.lost && row.figures && [" ", badge(`as of ${clock(row.lost.at)}`, "",
      `Its last figures, counted on until ${clock(row.lost.until)}`)],
  ];
}

function versionCell({ version, machine, out_of_date: isOld }) {
  return [versions(version, machine),
    isOld && [" ", badge("out of date", "warn", "Another node is of a newer version")]];
}

function lookupdsCell({ lookupds, isGone }) {
  if (isGone) return count(null);
  const all = settings.lookupds.length;
  if (lookupds.length >= all) return count(lookupds.length);
  return badge(`${count(lookupds.length)} of ${count(all)}`, "warn", "Not all nsqlookupds know it");
}

function topicsCell({ topics, version }) {
  if (!version) return count(null);
  const hidden = topics.filter(({ tombstoned }) => tombstoned).length;
  return [hidden > 0 && [badge(`${count(hidden)} tombstoned`, "warn"), " "], count(topics.length)];
}

function detail({ address, topics, lookupds }) {
  const first = [...topics].sort((a, b) => b.tombstoned - a.tombstoned).slice(0, TOPICS_SHOWN);
  return h("div", { class: "unfolded" },
    lookupds.length > 0 && h("p", {}, "Registered with ", lookupds.join(", "), "."),
    topics.length === 0 ? h("p", {}, "It has no topic.") : h("ul", { class: "names" },
      first.map(({ topic, tombstoned }) => h("li", { key: topic },
        h("a", { href: to.topic(topic) }, topic),
        tombstoned && [" ", badge("tombstoned", "warn", "nsqlookupd sends no consumer of it here")])),
      topics.length > first.length && h("li", {},
        h("a", { href: to.node(address) }, `and ${count(topics.length - first.length)} more`))));
}
