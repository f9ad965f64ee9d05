/** The pages that every page links to, and the keys that lead there. */

import { to } from "./router.js";
import { settings } from "./settings.js";

/** Of each page: its name, its title, its address, and the key to press after "g". */
export const LINKS = /** @type {[string, string, () => string, string][]} */ ([
  ["overview", "Overview", to.overview, "o"],
  ["topics", "Topics", to.topics, "t"],
  ["nodes", "Nodes", to.nodes, "n"],
  ["groups", "Groups", to.groups, "r"],
  ["pipelines", "Pipelines", to.pipelines, "p"],
  ["deadletters", "Dead letters", to.deadletters, "d"],
  ["lookup", "Lookup", to.lookup, "l"],
  ["counter", "Counter", to.counter, "c"],
  ["rocketmq", "RocketMQ", to.rocketmq, "m"],
]).filter(([name]) => (name === "rocketmq" ? settings.hasRocketmq : settings.hasNodes !== false));
