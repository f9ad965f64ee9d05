/**
 * What an operator should look at: found in the figures by thresholds, the worst first.
 *
 * Only arithmetic: it knows neither the page nor the server.
 */

/** From where on something is listed. Messages, messages a second, seconds, shares. */
export const LIMITS = Object.freeze({
  backlog: 1_000,
  growth: 0.02,
  emptiesIn: 3_600,
  storm: 1,
  stormShare: 0.1,
  lag: 1_000,
});

const STEADY_S = 30;
const RATES = ["in", "out", "requeues", "timeouts"];
const GAP = "\n";

/**
 * Rates of rows (as live.js tells them) without the jumps from look to look: means over half a
 * minute, a newer look counting more. `before` is what this returned `seconds` ago, or undefined.
 *
 * @returns {Map<string, {in: number, out: number, requeues: number, timeouts: number}>}
 */
export function steady(before, rows, seconds) {
  const weight = 1 - Math.exp(-seconds / STEADY_S);
  const means = new Map();
  for (const row of rows) {
    const old = before?.get(keyOf(row)) ?? row;
    means.set(keyOf(row), Object.fromEntries(
      RATES.map((rate) => [rate, old[rate] + weight * (row[rate] - old[rate])])));
  }
  return means;
}

function keyOf({ topic, channel, node }) {
  return [topic, channel, node].join(GAP);
}

/**
 * Everything that wants to be looked at.
 *
 * @param {{
 *   rows: object[],       topics, channels and groups, as live.js tells them
 *   rates: Map,           what steady() made of their rates
 *   nodes: {address: string, version: string, isOld: boolean}[],
 *   silent: string[],     nodes that are registered and do not answer
 *   missing: string[],    nodes that were there within the hour
 *   letters: {topic: string, letters: number}[],   dead letters
 *   groups: {topic: string, group: string, lag: number, rate: number}[],
 * }} cluster
 * @returns {{kind: string, level: "bad"|"warn", page: string, names: string[], weight: number, ...}[]}
 *   `kind` is one of "silent", "missing", "old", "unattended", "backlog", "requeues", "timeouts", "paused",
 *   "unchannelled", "letters", "lag"; what else it has are the figures that words are made of
 */
export function attention({ rows, rates, nodes, silent, missing, letters, groups }) {
  const dead = new Set(letters.map(({ topic }) => topic));
  const read = new Set(groups.map(({ topic }) => topic));
  const found = [
    ...silent.map((node) => item("silent", "bad", "node", [node], Infinity)),
    ...missing.filter((node) => !silent.includes(node)).map((node) =>
      item("missing", "bad", "node", [node], Infinity)),
    ...nodes.filter(({ isOld }) => isOld).map(({ address, version }) =>
      item("old", "warn", "node", [address], 0, { version })),
    ...letters.filter(({ letters }) => letters > 0).map(({ topic, letters }) =>
      item("letters", "warn", "deadletter", [topic], letters, { letters })),
    ...groups.filter(({ lag }) => lag >= LIMITS.lag).map(ofGroup),
  ];
  for (const row of rows) {
    if (!row.topic || row.node || row.channel.startsWith("@") || dead.has(row.topic)) continue;
    found.push(...(row.channel ? ofChannel(row, rates.get(keyOf(row)) ?? row) : ofTopic(row, read)));
  }
  return found.sort((a, b) => (a.level > b.level) - (a.level < b.level) || b.weight - a.weight);
}

function item(kind, level, page, names, weight, figures = {}) {
  return { kind, level, page, names, weight, ...figures };
}

function ofGroup({ topic, group, lag, rate }) {
  const level = rate > 0 ? "warn" : "bad";
  return item("lag", level, "groups", [topic, group], lag, { lag, seconds: rate > 0 ? lag / rate : null });
}

function ofTopic({ topic, depth, paused, channels }, read) {
  if (paused) return [item("paused", "warn", "topic", [topic], depth, { depth })];
  if (channels || !depth || read.has(topic)) return [];
  return [item("unchannelled", "warn", "topic", [topic], depth, { depth })];
}

function ofChannel({ topic, channel, depth, clients, paused }, { in: came, out, requeues, timeouts }) {
  const names = [topic, channel];
  const growth = came - out;
  const found = [];
  const add = (kind, level, weight, figures) =>
    found.push(item(kind, level, "channel", names, weight, figures));
  const isDeep = depth >= LIMITS.backlog;
  if (paused) add("paused", "warn", depth, { depth });
  else if (!clients && depth) add("unattended", isDeep ? "bad" : "warn", depth, { depth, growth });
  else if (isDeep) {
    const isGrowing = growth > LIMITS.growth * came;
    const seconds = growth < 0 ? depth / -growth : Infinity;
    if (isGrowing) add("backlog", "bad", depth, { depth, growth, seconds: null });
    else if (seconds > LIMITS.emptiesIn) add("backlog", "warn", depth, { depth, growth, seconds });
  }
  const tried = out + requeues + timeouts;
  for (const [kind, rate] of [["requeues", requeues], ["timeouts", timeouts]]) {
    const share = rate / tried;
    if (rate >= LIMITS.storm && share >= LIMITS.stormShare) add(kind, "warn", rate, { rate, share });
  }
  return found;
}
