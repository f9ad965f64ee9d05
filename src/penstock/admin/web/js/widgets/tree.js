/**
 * What is on one node: its topics, in them their channels, in them their consumers. Only what is
 * open is asked for and drawn.
 */

import { h } from "../core/dom.js";
import { to } from "../core/router.js";
import { settings } from "../core/settings.js";
import { fold, folds } from "../core/unfolded.js";
import { tombstoneAction } from "../features/actions.js";
import { clientsTable } from "../features/clients.js";
import { channelColumns, latencyColumns, memoryColumn, number, rateColumn } from "./columns.js";
import { table } from "./table.js";
import { badge, empty, loading } from "./ui.js";

const FEW = 3;
const OPEN_MAX = 32; // as nsqadmin's nodes/node_topics.py has it

/** The names of the topics that are open, of which nsqadmin is to tell the channels. */
export function openTopics(page, topics = []) {
  const folding = foldsOf(page, topics);
  return topics.map((each) => each.topic_name).filter(folding.has).slice(0, OPEN_MAX);
}

function foldsOf(page, topics) {
  return folds(page, topics.length <= FEW ? topics.map((each) => each.topic_name) : []);
}

/**
 * `topics` are those of /api/nodes/:node in brief, `hidden` the names of those that are tombstoned there.
 * `speeds.topic(stats)` are the messages a second that are published to a topic, `speeds.client(stats)`
 * those that a consumer finishes; null while they are not known. `queues` are memoryQueues().
 */
export function tree(page, { node, topics, hidden, speeds, queues }) {
  const folding = foldsOf(page, topics);
  const asked = new Set(openTopics(page, topics));
  const rows = topics.map((each) => ({ ...each, node }));
  return table(page, {
    id: "topics",
    columns: [
      { name: "topic", title: "Topic", value: names,
        cell: (row) => topicCell(row, folding, hidden.has(row.topic_name)) },
      figure("backlog", "Backlog", "Messages that wait in the topic and in its channels",
        (row) => row.depth + row.in_channels.depth),
      number("depth", "In the topic", "Messages that wait in the topic itself"),
      memoryColumn(rows, queues),
      number("message_count", "Messages", "Published since the node has started"),
      rateColumn("in", "In", "Messages published a second", speeds.topic),
      figure("channels", "Channels", "", (row) => row.channel_names.length),
      figure("clients", "Consumers", "", (row) => row.in_channels.client_count),
      ...latencies(topics.find((each) => each.e2e_processing_latency?.percentiles)),
      settings.isAdmin && settings.lookupds.length > 0 && { name: "tombstone", title: "", plain: true,
        cell: (row) => tombstoneAction(page, row.topic_name, node, lossesOf(row)) },
    ].filter(Boolean),
    rows,
    key: (row) => row.topic_name,
    sort: "topic",
    filter: topics.length > FEW,
    totals: topics.length > 1,
    caption: `Topics on ${node}`,
    detail: (row) => folding.has(row.topic_name) && (asked.has(row.topic_name)
      ? channels(page, row, folding, speeds, queues)
      : empty("Too much is open", "Close another topic to see the channels of this one.")),
    empty: empty("No topic is on this node",
      "A topic comes into being when somebody publishes to it here."),
  });
}

function figure(name, title, hint, value) {
  return { name, title, hint, numeric: true, total: true, value };
}

/** A topic as features/consequences.js has it: with one channel that stands for all of them. */
function lossesOf(row) {
  return { ...row, channels: row.channel_names.length ? [row.in_channels] : [] };
}

/** Of several topics together there are none. */
function latencies(measured) {
  return latencyColumns(measured ?? {}).map((column) => ({ ...column, total: false }));
}

function topicCell(row, folding, isHidden) {
  const name = row.topic_name;
  return [
    fold(folding, name, `the channels of ${name}`), " ",
    h("a", { href: to.topic(name) }, name),
    row.paused && [" ", badge("paused", "warn")],
    isHidden && [" ", badge("tombstoned", "warn", "nsqlookupd sends no consumer of this topic here")],
  ];
}

function channels(page, topic, folding, speeds, queues) {
  const rows = topic.channels;
  if (!rows) return loading();
  return table(page, {
    id: `in.${topic.topic_name}`,
    columns: [
      { name: "channel", title: "Channel", value: (row) => row.channel_name,
        cell: (row) => channelCell(row, folding) },
      ...channelColumns(rows, queues),
      number("message_count", "Messages", "That have come to the channel", false),
      number("client_count", "Consumers"),
      ...latencyColumns(topic),
    ],
    rows,
    key: (row) => row.channel_name,
    sort: "channel",
    filter: rows.length > 20,
    totals: rows.length > 1,
    caption: `Channels of ${topic.topic_name}`,
    detail: (row) => folding.has(pathOf(row)) &&
      clientsTable(page, row, speeds.client, `of.${pathOf(row)}`),
    empty: empty("No channels", "Messages wait in the topic until a consumer subscribes."),
  });
}

function channelCell(row, folding) {
  const { topic_name: topic, channel_name: name } = row;
  return [
    fold(folding, pathOf(row), `the consumers of ${name}`), " ",
    h("a", { href: to.channel(topic, name) }, name),
    row.paused && [" ", badge("paused", "warn")],
  ];
}

/** What a topic is found by: its name, and those of its channels. */
function names(topic) {
  return [topic.topic_name, ...topic.channel_names].join(" ");
}

const pathOf = ({ topic_name: topic, channel_name: channel }) => `${topic}/${channel}`;
