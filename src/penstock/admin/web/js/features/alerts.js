/** The list of what wants attention (features/attention.js), in words. */

import { h } from "../core/dom.js";
import { ago, clock, count, rate, seconds } from "../core/format.js";
import { to } from "../core/router.js";
import { settings } from "../core/settings.js";
import { badge, button, section } from "../widgets/ui.js";

const AT_FIRST = 8;
/** The words for the kinds of items. */
export const TITLES = {
  silent: "no answer",
  missing: "missing",
  given_up: "given up",
  damage: "damage",
  old: "out of date",
  unattended: "no consumers",
  unknown: "backlog",
  growing: "falling behind",
  stopped: "stands still",
  level: "stays behind",
  catching_up: "catching up",
  keeps_up: "keeps up",
  caught_up: "caught up",
  requeues: "requeues",
  timeouts: "timeouts",
  paused: "paused",
  unchannelled: "no channel",
  letters: "dead letters",
  pipeline: "pipeline",
  disabled: "disabled",
  disk: "disk",
  fenced: "fenced",
  not_following: "does not follow",
  copy_gone: "copy gone",
  copy_behind: "copy behind",
  uncopied: "refuses",
  without_copies: "without copies",
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
const WHATS = {
  node: "Node",
  topic: "Topic",
  channel: "Channel",
  deadletter: "Topic",
  pipeline: "Pipeline",
  rockettopic: "RocketMQ topic",
  rocketgroup: "RocketMQ group",
  rocketbroker: "RocketMQ server",
};
const GROUPS = { rocketmq: "RocketMQ group", log: "NSQ log reader" };
const { limits: LIMITS } = settings;
const RULES = [
  ["no answer", "a registered node that is silent"],
  ["missing", "a node that was there within the last hour; its last figures are counted on until then"],
  ["given up", "a node that did not answer for an hour: what waited there is counted no more"],
  ["damage", "a topic with damaged files, until the damage is accepted on its page"],
  ["out of date", "a node of an older version than another"],
  ["no consumers", `messages and nobody to take them; red from ${count(LIMITS.backlog)} on`],
  ["falling behind", `a channel or group with ${count(LIMITS.backlog)} messages that become more, by ` +
    `${percent(LIMITS.growth)} of what comes`],
  ["stands still", `${count(LIMITS.backlog)} messages and nothing is read`],
  ["stays behind", `${count(LIMITS.backlog)} messages that become neither more nor less; fewer than ` +
    `${seconds(LIMITS.near_s)} of what is read do not count`],
  ["catching up", `it takes more than ${seconds(LIMITS.empties_in)}`],
  ["requeues, timeouts", `${rate(LIMITS.storm)} and ${percent(LIMITS.storm_share)} of what consumers get`],
  ["paused", "a topic or channel, on any node"],
  ["no channel", "a topic whose messages wait for a first channel, and that no group reads"],
  ["dead letters", "any that are still to be dealt with; of RocketMQ's groups any that are kept"],
  ["failed, silent", "a pipeline that has failed, or tells nothing any more though it has not ended"],
  ["fenced", "a node that takes nothing, since another was promoted after it"],
  ["copy behind", "a second copy that has not had all for 10 s, or lacks 64 MiB"],
  ["copy gone, does not follow", "a second copy that does not ask its primary any more, or cannot follow it"],
  ["without copies, refuses", "a primary with fewer copies than an OK is to wait for"],
];
const ROCKETMQ_RULES = [
  ["no answer", "a broker or name server that is silent"],
  ["disk", "75 %: brokers delete expired files; red at 85 %: they delete files that have not expired"],
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
    badge(item.pipeline?.state ?? TITLES[item.kind], item.level),
    h("span", { class: "alert-what" }, whatOf(item)),
    h("a", { href: ADDRESSES[item.page](...item.names) }, titleOf(item)),
    h("span", { class: "alert-text" }, textOf(item)));
}

/** What kind of thing it is, and of which dialect where both have some. */
function whatOf({ page, dialect }) {
  return page === "groups" ? GROUPS[dialect] ?? "Group" : WHATS[page];
}

/** Its name, behind that of the topics that it is of. */
function titleOf({ title, names, topics = [] }) {
  return title ?? [topics.join(", "), ...names].filter(Boolean).join(" / ");
}

/** What is the matter, in words. */
export function textOf(item) {
  const { kind, depth, growth, share, seconds: left } = item;
  switch (kind) {
    case "silent": return `is registered and does not answer${countedOn(item)}`;
    case "missing": return `was there within the last hour and is not now${countedOn(item)}`;
    case "given_up": return `silent since ${clock(item.at)}: the ${waitingThere(item)} counted no more`;
    case "damage": return `on ${item.node}: ${item.first}` +
      (item.places > 1 ? `, and ${count(item.places - 1)} more` : "");
    case "old": return `runs ${item.version}, another node a newer version`;
    case "unattended": return `${waiting(depth)}${growing(growth)}; nobody consumes`;
    case "growing": return waiting(depth) + growing(growth);
    case "stopped": return `${waiting(depth)}${growing(growth)}; nothing is read`;
    case "level": return `${waiting(depth)}, and they do not become less`;
    case "catching_up": return `${waiting(depth)}, gone in ${seconds(left)} at this rate`;
    case "unknown": return waiting(depth) + (left == null ? ""
      : `, gone in ${seconds(left)} if nothing new comes`);
    case "keeps_up": return `${waiting(depth)}: less than ${seconds(LIMITS.near_s)} of what is read`;
    case "caught_up": return "nothing waits";
    case "requeues": return `${rate(item.rate)} given back by consumers, ${percent(share)} of what they get`;
    case "timeouts": return `${rate(item.rate)} not finished in time, ${percent(share)} of what they get`;
    case "paused": return depth ? waiting(depth) : "nothing waits";
    case "unchannelled": return `${waiting(depth)} for a first channel`;
    case "letters": return item.last_ms ? `${count(item.letters)} kept, the last ${ago(item.last_ms / 1000)}`
      : `${count(item.letters)} to be dealt with`;
    case "disabled": return `${waiting(depth)}, and the group may not consume`;
    case "disk": return `${percent(item.share)} full: ` + (item.level === "bad"
      ? "messages are deleted that are not old yet" : "messages are deleted before their time");
    case "pipeline": return item.pipeline.state === "failed" ? `failed: ${item.pipeline.error}`
      : `has told nothing for ${seconds(item.pipeline.age)}`;
    default: return item.copy ? copyText(item) : "";
  }
}

/** What is the matter with a node and its second copies. */
function copyText({ kind, copy }) {
  const { primary, replicas_acked: wanted, lag_messages: messages, lag_seconds: late } = copy;
  const only = Object.values(copy.only_here).reduce((sum, each) => sum + each, 0);
  switch (kind) {
    case "fenced": return `takes nothing: ${primary || "another node"} was promoted after it` +
      (only ? `; ${count(only)} messages are only here` : "");
    case "not_following": return `a copy of ${primary} that cannot follow: ${copy.error}`;
    case "copy_gone": return primary ? `a copy of ${primary} that does not ask for news any more`
      : "was one of a pair within the last hour, and does not answer";
    case "copy_behind": return `a copy of ${primary} that lacks ${count(messages)} messages` +
      (late ? `, ${seconds(late)} behind` : "");
    case "uncopied": return `refuses publishes: ${tooFew(wanted)}`;
    default: return `says OK without copies: ${tooFew(wanted)}`;
  }
}

function tooFew(wanted) {
  return wanted === 1 ? "no copy follows" : `fewer than ${count(wanted)} copies follow`;
}

function waiting(depth) {
  return depth === 1 ? "1 message waits" : `${count(depth)} messages wait`;
}

function growing(growth) {
  return growth > 0.05 ? `, growing by ${rate(growth)}` : "";
}

/** Until when the last figures of a node that does not answer are in the sums. */
function countedOn({ at, until, depth }) {
  if (!at) return "";
  return `; last seen at ${clock(at)}` +
    (depth ? `, its ${waitingThere({ depth })} counted on until ${clock(until)}` : "");
}

function waitingThere({ depth }) {
  return depth === 1 ? "1 message that waited there is" : `${count(depth)} messages that waited there are`;
}

function percent(share) {
  return `${Math.round(share * 100)} %`;
}

/** The thresholds, which explain why something is listed. */
function limits() {
  const rules = [...RULES, ...(settings.hasRocketmq ? ROCKETMQ_RULES : [])];
  return h("details", { class: "limits" },
    h("summary", {}, "When is something listed?"),
    h("div", { class: "limits-box panel" },
      h("p", {}, "Rates are means over half a minute, of a group's lag over five."),
      h("dl", {}, rules.map(([name, text]) =>
        h("div", { key: name + text }, h("dt", {}, name), h("dd", {}, text))))));
}
