/** Columns that tables of queues share, and what stands in their cells. Rows are the API's stats. */

import { h } from "../core/dom.js";
import { count, duration, rate } from "../core/format.js";
import { to } from "../core/router.js";
import { lostBadge } from "../features/lost.js";
import { badge, notice, tile } from "./ui.js";

/** A column of whole numbers: `figure` is the key in the row. */
export function number(figure, title, hint = "", isSummed = true) {
  const name = figure.replace(/_count$/, "");
  return { name, title, hint, numeric: true, total: isSummed, value: (row) => row[figure] };
}

/** The host of a row, as a link to its node. */
export function nodeColumn() {
  return {
    name: "node",
    title: "Node",
    value: (row) => `${row.hostname} ${row.node}`,
    cell: (row) => [nodeLink(row), row.paused && [" ", badge("paused", "warn")], " ", lostBadge(row)],
  };
}

/** A link to a node: by its host name, and by its address where that says something else. */
export function nodeLink({ node, hostname = "" }) {
  const port = node.slice(node.lastIndexOf(":"));
  const isSame = !hostname || hostname + port === node;
  return h("a", { href: to.node(node), title: isSame ? null : hostname }, isSame ? node : [
    hostname, " ", h("span", { class: "faint" }, node)]);
}

/** How many messages of a row (of topics or channels, on one node or several) wait in memory alone. */
function inMemory(row, { isGo }) {
  return sum((row.nodes ?? [row]).filter(({ node }) => isGo(node)), "memory_depth");
}

/** What is said beside a backlog of which some is in memory alone; empty where all of it is on disk. */
export function memoryText(row, queues) {
  const held = inMemory(row, queues);
  return held > 0 ? `${count(held)} in memory alone` : "";
}

/** A column of what waits in memory alone; none where no row is of a Go nsqd (memoryQueues). */
export function memoryColumn(rows, queues) {
  const isThere = rows.some((row) => (row.nodes ?? [row]).some(({ node }) => queues.isGo(node)));
  return isThere && {
    name: "memory",
    title: "In memory",
    hint: "Of the backlog, what a Go nsqd keeps in memory alone; all else is on disk",
    numeric: true,
    total: true,
    value: (row) => inMemory(row, queues),
  };
}

/** What channels have: waiting, in flight and deferred now, requeued and timed out so far. */
export function channelColumns(rows, queues) {
  return [
    number("depth", "Backlog", "Messages that wait for a consumer"),
    memoryColumn(rows, queues),
    number("in_flight_count", "In flight", "With a consumer, which has not finished them yet"),
    number("deferred_count", "Deferred", "Waiting for their time"),
    number("requeue_count", "Requeued", "Given back by consumers"),
    number("timeout_count", "Timed out", "Not finished by a consumer in time"),
  ].filter(Boolean);
}

/** A rate in messages a second; `of(row)` is null while it is not known. */
export function rateColumn(name, title, hint, of) {
  const total = (rows) => rate(rows.some((row) => of(row) != null)
    ? rows.reduce((sum, row) => sum + (of(row) ?? 0), 0) : null);
  return { name, title, hint, numeric: true, value: of, format: rate, total };
}

/** A column for each latency percentile that `whole` (the sum over the rows) has. */
export function latencyColumns(whole) {
  return (whole.e2e_processing_latency?.percentiles ?? []).map(({ quantile }) => ({
    name: percentile(quantile),
    title: percentile(quantile),
    hint: "End-to-end processing latency: from publishing to finishing",
    numeric: true,
    value: (row) => latency(row, quantile)?.average ?? 0,
    cell: (row) => latencyText(latency(row, quantile)),
    total: () => latencyText(latency(whole, quantile)),
  }));
}

/** "p99" of 0.99. */
export function percentile(quantile) {
  return `p${Number((quantile * 100).toFixed(3))}`;
}

function latency(row, quantile) {
  return row.e2e_processing_latency?.percentiles?.find((each) => each.quantile === quantile);
}

function latencyText(found) {
  if (!found?.count) return "–";
  const range = `from ${duration(found.min)} to ${duration(found.max)} over the nodes`;
  return h("span", { title: found.min === found.max ? null : range }, duration(found.average));
}

/** The sum of a figure over rows. */
export function sum(rows, figure) {
  return rows.reduce((total, row) => total + (row[figure] ?? 0), 0);
}

/** A tile of the highest percentile of `stats`, when latencies are measured. */
export function latencyTile(stats) {
  const highest = (stats.e2e_processing_latency?.percentiles ?? [])
    .reduce((best, each) => (best && best.quantile >= each.quantile ? best : each), null);
  if (!highest) return null;
  return tile({
    label: `Latency ${percentile(highest.quantile)}`,
    value: highest.count ? duration(highest.average) : null,
    hint: highest.count ? `slowest node ${duration(highest.max)}` : "nothing finished lately",
  });
}

/** That a queue is paused, on all of its nodes or on some; nothing when it is on none. */
export function pausedBadge({ paused, nodes }) {
  if (!paused) return null;
  const some = nodes.filter((each) => each.paused).length;
  const where = some < nodes.length ? ` on ${some} of ${nodes.length} nodes` : "";
  return badge(`paused${where}`, "warn");
}

/**
 * What went wrong beside what is shown: the `message` of an answer. With `page`, without what the
 * head of the page tells already of the same daemon.
 */
export function warning(message, page = null) {
  const told = page?.live?.message ?? "";
  const lines = (message ?? "").replace(/^WARNING: /, "").split(/\n|; /).filter((line) => {
    const address = /\/\/[^/]+\//.exec(line)?.[0];
    return line && !(address && told.includes(address));
  });
  return lines.length > 0 && notice("warn", lines.join("\n"));
}
