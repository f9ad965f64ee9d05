/** Nodes as the API describes them. */

/** How nsqadmin calls a node (of /api/nodes): broadcast address and HTTP port. */
export function addressOf({ broadcast_address: host, http_port: port }) {
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/** Whether the node did not answer the last look: its figures are old, or the warnings name it. */
export function isSilent(live, address) {
  return live.missing.some(({ node }) => node === address) ||
    (!live.row("", "", address) && live.message.includes(`//${address}/`));
}
