/** Parts that the pages of RocketMQ share: kinds of topics, permissions, members, times. */

import { h } from "../../core/dom.js";
import { ago, stamp, UNKNOWN } from "../../core/format.js";
import { setQuery, to } from "../../core/router.js";
import { badge, button } from "../../widgets/ui.js";
import { many } from "../consequences.js";

const KINDS = {
  retry: ["retries", "", "Messages that a group did not get through wait here for their next try"],
  dlq: ["dead letters", "accent", "Messages that a group did not get through as often as it may try"],
  system: ["system", "", "The brokers keep their own records here"],
};
const PERMISSIONS = { 0: ["closed", "bad"], 2: ["write only", "warn"], 4: ["read only", "warn"] };
const TYPES = { CONSUME_PASSIVELY: "push", CONSUME_ACTIVELY: "pull", CONSUME_POP: "pop" };
const NS_PER_MS = 1e6;

/** What a topic is, if it is not an ordinary one. */
export function kindBadge(kind) {
  return KINDS[kind] && badge(...KINDS[kind]);
}

/** Whether a topic can be read and written; nothing where it can be both. */
export function permBadge(perm) {
  if (perm == null) return null;
  const found = PERMISSIONS[perm & 6];
  return found && badge(...found);
}

/** A topic's name as a link, what it is, and what it cannot be used for. */
export function topicCell({ topic, kind, perm }) {
  return [topicLink(topic), [kindBadge(kind), permBadge(perm)].map((mark) => mark && [" ", mark])];
}

export function topicLink(topic, query) {
  return h("a", { href: to.rocketTopic(topic, query) }, topic);
}

export function groupLink(group) {
  return h("a", { href: to.rocketGroup(group) }, group);
}

/** "push", "pull" or "pop"; and whether each member gets everything. */
export function typeOf({ type, model }) {
  const name = TYPES[type] ?? type.toLowerCase();
  return model === "BROADCASTING" ? `${name}, broadcast` : name;
}

/** A version as people write it: "4.9.8" of V4_9_8. */
export function version(name) {
  return /^V\d+(_\d+)*$/.test(name) ? name.slice(1).replaceAll("_", ".") : name;
}

/** A column of the numbers of queues: names, of which 0 is as good as any. */
export function queueColumn() {
  return { name: "queue", title: "Queue", numeric: true, value: (row) => String(row.queue),
    format: (text) => text };
}

/** How long ago a time in ms was, with the time itself as a hint; 0 is never. */
export function agoCell(ms) {
  if (!ms || ms < 0) return UNKNOWN;
  return h("span", { title: stampMs(ms) }, ago(ms / 1000));
}

/** A time in ms with date. */
export function stampMs(ms) {
  return stamp(ms == null ? null : ms * NS_PER_MS);
}

/** A column of times in ms. */
export function agoColumn(name, title, hint) {
  return { name, title, hint, numeric: true, value: (row) => row[name] || null,
    cell: (row) => agoCell(row[name]) };
}

/** RocketMQ's own topics are folded away, where there are some. */
export function systemButton(page, hidden) {
  const isUnfolded = page.query.system === "all";
  return hidden > 0 && button(isUnfolded ? "Hide system topics" : `Show ${many(hidden, "system topic")}`, {
    kind: "quiet", onclick: () => setQuery({ system: isUnfolded ? null : "all" }),
  });
}
