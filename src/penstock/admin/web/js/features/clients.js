/** The consumers of a channel: where they run, what they have agreed on, how they get on. */

import { h } from "../core/dom.js";
import { count, seconds } from "../core/format.js";
import { nodeLink, number, rateColumn } from "../widgets/columns.js";
import { table } from "../widgets/table.js";
import { badge, empty } from "../widgets/ui.js";

/**
 * The table of `stats.clients` (ChannelStats); `speed(client)`: messages it finishes a second. A page
 * with several of them gives each an `id`.
 */
export function clientsTable(page, stats, speed, id = "clients") {
  const rows = stats.clients ?? [];
  const columns = [
    { name: "client", title: "Client", hint: "Its address, the host that it names, and its name for itself",
      cell: clientCell, value: (row) => `${row.remote_address} ${row.hostname} ${row.client_id}` },
    { name: "agent", title: "User agent", value: (row) => row.user_agent || row.version },
    { name: "attributes", title: "Attributes",
      value: (row) => attributes(row).map(([text]) => text).join(" "),
      cell: (row) => h("span", { class: "badges" }, attributes(row).map(attribute)) },
    { name: "node", title: "Node", value: (row) => row.node, cell: (row) => nodeLink(row) },
    number("in_flight_count", "In flight", "Messages it has and has not finished yet"),
    { ...number("ready_count", "RDY", "How many messages it takes at a time", false),
      cell: (row) => (row.ready_count || !stats.depth ? count(row.ready_count) : badge("0", "warn")) },
    number("finish_count", "Finished"),
    rateColumn("out", "Out", "Messages it finishes a second", speed),
    number("requeue_count", "Requeued"),
    number("message_count", "Messages", "Sent to it since it has connected"),
    { name: "connected", title: "Connected", hint: "For how long", numeric: true,
      value: (row) => row.connected, format: (ns) => seconds(ns / 1e9) },
  ];
  return table(page, {
    id, columns, rows, key: (row) => `${row.node} ${row.remote_address}`, sort: "client",
    filter: rows.length > 8, totals: rows.length > 1,
    caption: `Consumers of channel ${stats.channel_name}`,
    empty: empty("No consumers", stats.depth
      ? "Messages wait until one connects." : "Messages that come will wait until one connects."),
  });
}

function clientCell({ hostname, client_id: id, remote_address: address }) {
  const names = [hostname, id !== hostname && id !== hostname.split(".")[0] && id].filter(Boolean);
  return [address || hostname, names.map((name) => [" ", h("span", { class: "faint" }, name)])];
}

/** What a consumer has agreed on: [text, title, href] each. */
function attributes(client) {
  const { sample_rate: sampled, topology_zone: zone, topology_region: region } = client;
  return [
    sampled > 0 && [`sampled ${sampled}%`, "Gets this share of the messages"],
    client.tls && ["TLS", tlsDetails(client)],
    client.deflate && ["deflate", "Its messages are compressed"],
    client.snappy && ["snappy", "Its messages are compressed"],
    client.authed &&
      [client.auth_identity || "authenticated", "Who AUTH says it is", client.auth_identity_url],
    zone && [nearness(client), `In zone ${zone}${region ? ` of ${region}` : ""}`],
  ].filter(Boolean);
}

function tlsDetails(client) {
  return [client.tls_version, client.tls_cipher_suite, client.tls_negotiated_protocol]
    .filter(Boolean).join(", ");
}

function nearness(client) {
  const isOwnRegion = client.topology_region === client.node_topology_region;
  if (isOwnRegion && client.topology_zone === client.node_topology_zone) return "own zone";
  return isOwnRegion ? "own region" : "elsewhere";
}

function attribute([text, title, href]) {
  const label = badge(text, "", title);
  return isWebAddress(href) ? h("a", { href, target: "_blank", rel: "noreferrer" }, label) : label;
}

/** Whoever answers AUTH chooses the address: it must not be a script. */
function isWebAddress(href) {
  return /^https?:\/\//i.test(href ?? "");
}
