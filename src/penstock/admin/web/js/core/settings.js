/**
 * What the server told this page when it was asked for it.
 *
 * @type {Readonly<{
 *   basePath: string,          "" or such as "/nsq": what every path starts with
 *   version: string,
 *   isAdmin: boolean,          whether this user may change things
 *   lookupds: string[],        HTTP addresses; empty when nodes are named one by one
 *   hasNodes: boolean,         false where there is RocketMQ alone, and nothing of NSQ to look at
 *   hasRocketmq: boolean,      whether it was given RocketMQ's name servers
 *   historyInterval: number,   seconds between looks at all nodes; 0: there is no history
 *   limits: {backlog: number, growth: number, empties_in: number, ever_s: number, near_s: number,
 *            still: number, storm: number, storm_share: number},   from where on something wants attention
 *   graphite: {enabled: boolean, url: string, prefix: string, counterFormat: string,
 *              gaugeFormat: string, interval: number},
 * }>}
 */
export const settings = Object.freeze(JSON.parse(document.getElementById("settings").textContent));
