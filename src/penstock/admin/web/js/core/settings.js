/**
 * What the server told this page when it was asked for it.
 *
 * @typedef {object} Settings
 * @property {string} basePath  "" or such as "/nsq": what every path starts with
 * @property {string} version NSQ's
 * @property {string} penstockVersion
 * @property {string[]} ranges  how much of the past charts can show
 * @property {boolean} isAdmin  whether this user may change things
 * @property {string[]} lookupds  HTTP addresses; empty when nodes are named one by one
 * @property {boolean} hasNodes  false where there is RocketMQ alone, and nothing of NSQ to look at
 * @property {boolean} hasRocketmq  whether it was given RocketMQ's name servers
 * @property {number} historyInterval  seconds between looks at all nodes; 0: there is no history
 * @property {{backlog: number, growth: number, empties_in: number, ever_s: number, near_s: number,
 *   still: number, storm: number, storm_share: number}} limits  at which something wants attention
 * @property {{enabled: boolean, url: string, prefix: string, counterFormat: string,
 *   gaugeFormat: string, interval: number}} graphite
 */

/** @type {Readonly<Settings>} */
export const settings = Object.freeze(JSON.parse(document.getElementById("settings").textContent));
