/** The list of what wants attention (features/attention.js), in words. */

import { h } from "../core/dom.js";
import { ago, count, rate, seconds } from "../core/format.js";
import { to } from "../core/router.js";
import { settings } from "../core/settings.js";
import { badge, button, section } from "../widgets/ui.js";

const AT_FIRST = 8;
/** The words for the kinds of items. */
export const TITLES = {
  silent: "no answer",
  missing: "missing",
  damage: "damage",
  old: "out of date",
  unattended: "no consumers",
  backlog: "backlog",
  requeues: "requeues",
  timeouts: "timeouts",
  paused: "paused",
  unchannelled: "no channel",
  letters: "dead letters",
  lag: "lag",
  pipeline: "pipeline",
  disabled: "disabled",
  disk: "disk",
};
const ADDRESSES = {
  node: to.node,
  topic: to.topic,
  channel: to.channel,
  deadletter: to.deadletter,
  pipeline: to.pipeline,
  rockettopic: to.rocketTopic,
  rocketgroup: to.rocketGroup,
  rocketbroker: () => to.rocketmq({ tab: "servers" }),
  groups: (topic, group) => to.groups({ "groups.find": `${topic} ${group}` }),
};
const { limits: LIMITS } = settings;
const RULES = [
  ["no answer", "a registered node that is silent"],
  ["missing", "a node that was there within the last hour"],
  ["damage", "a topic with damaged files, until the damage is accepted on its page"],
  ["out of date", "a node of an older version than another"],
  ["no consumers", `messages and nobody to take them; red from ${count(LIMITS.backlog)} on`],
  ["backlog", `${count(LIMITS.backlog)} messages; red when they become more, else when it takes ` +
    `more than ${seconds(LIMITS.empties_in)} to empty the channel`],
  ["requeues, timeouts", `${rate(LIMITS.storm)} and ${percent(LIMITS.storm_share)} of what consumers get`],
  ["paused", "a topic or channel, on any node"],
  ["no channel", "a topic whose messages wait for a first channel, and that no group reads"],
  ["dead letters", "any that are still to be dealt with; of RocketMQ's groups any that are kept"],
  ["lag", `a group ${count(LIMITS.lag)} messages behind; red when it reads nothing`],
  ["pipeline", "one that has failed, or tells nothing any more though it has not ended"],
];
const ROCKETMQ_RULES = [
  ["no answer", "a broker or name server that is silent"],
  ["disk", "75 % full, when brokers delete what is old; red from 85 % on, when they delete what is not"],
  ["disabled", "a group that may not consume, while messages wait"],
];
const wide = new WeakSet();

/** A section with the items, the worst first; all of them when asked for. There are `beyond` more. */
export function alerts(page, items, beyond = 0) {
  const shown = wide.has(page) ? items : items.slice(0, AT_FIRST);
  const more = items.length - shown.length;
  return section({ title: "Needs attention", id: "attention", tools: limits() },
    items.length === 0
      ? h("p", { class: "all-well" }, "Nothing needs attention.")
      : h("ul", { class: "alerts" }, shown.map(line)),
    more > 0 && button(`Show ${count(more)} more`, {
      onclick: () => {
        wide.add(page);
        page.redraw();
      },
    }),
    !more && beyond > 0 && h("p", { class: "faint" }, `and ${count(beyond)} topics and channels more`));
}

function line(item) {
  return h("li", { class: item.level, key: [item.kind, item.page, ...item.names].join("\n") },
    badge(TITLES[item.kind], item.level),
    h("a", { href: ADDRESSES[item.page](...item.names) }, item.title ?? item.names.join(" / ")),
    h("span", { class: "alert-text" }, textOf(item)));
}

/** What is the matter, in words. */
export function textOf(item) {
  const { kind, depth, growth, share, seconds: left } = item;
  switch (kind) {
    case "silent": return "is registered and does not answer";
    case "missing": return "was there within the last hour and is not now";
    case "damage": return `on ${item.node}: ${item.first}` +
      (item.places > 1 ? `, and ${count(item.places - 1)} more` : "");
    case "old": return `runs ${item.version}, another node a newer version`;
    case "unattended": return `${waiting(depth)}${growing(growth)}; nobody consumes`;
    case "backlog": return waiting(depth) + (growth === null ? "" // there was one look so far
      : item.level === "bad" ? growing(growth) : outlook(left));
    case "requeues": return `${rate(item.rate)} given back by consumers, ${percent(share)} of what they get`;
    case "timeouts": return `${rate(item.rate)} not finished in time, ${percent(share)} of what they get`;
    case "paused": return depth ? waiting(depth) : "nothing waits";
    case "unchannelled": return `${waiting(depth)} for a first channel`;
    case "letters": return item.last_ms ? `${count(item.letters)} kept, the last ${ago(item.last_ms / 1000)}`
      : `${count(item.letters)} to be dealt with`;
    case "disabled": return `${waiting(depth)}, and the group may not consume`;
    case "disk": return `${percent(item.share)} full: ` + (item.level === "bad"
      ? "messages are deleted that are not old yet" : "messages are deleted before their time");
    case "lag": return `${count(item.lag)} behind, ` +
      (left === null ? "and nothing is read" : `read in ${seconds(left)} at this rate`);
    case "pipeline": return item.pipeline.state === "failed" ? `failed: ${item.pipeline.error}`
      : `has told nothing for ${seconds(item.pipeline.age)}`;
    default: return "";
  }
}

function waiting(depth) {
  return depth === 1 ? "1 message waits" : `${count(depth)} messages wait`;
}

function growing(growth) {
  return growth > 0.05 ? `, growing by ${rate(growth)}` : "";
}

function outlook(left) {
  return left !== null ? `, gone in ${seconds(left)} at this rate` : ", and it does not become less";
}

function percent(share) {
  return `${Math.round(share * 100)} %`;
}

/** The thresholds, for who wants to know why something is listed. */
function limits() {
  const rules = [...RULES, ...(settings.hasRocketmq ? ROCKETMQ_RULES : [])];
  return h("details", { class: "limits" },
    h("summary", {}, "When is something listed?"),
    h("div", { class: "limits-box panel" },
      h("p", {}, "Rates are means over half a minute."),
      h("dl", {}, rules.map(([name, text]) =>
        h("div", { key: name + text }, h("dt", {}, name), h("dd", {}, text))))));
}
