/** What is the matter with a channel, a group or a server, as the API judges it, in few words. */

import { isDeadLetters, isOfGroup, isSystem } from "../core/inner.js";
import { badge } from "../widgets/ui.js";
import { textOf, TITLES } from "./alerts.js";

const GOOD = ["caught_up", "keeps_up"];

/** A badge for each verdict; what it means is its hint. */
export function verdictBadges(verdicts) {
  return verdicts.map((each, at) => [at > 0 && " ", verdictBadge(each)]);
}

/** The badge of a verdict, of a good one too. */
export function verdictBadge(verdict) {
  const kind = GOOD.includes(verdict.kind) ? "good" : verdict.level;
  return badge(TITLES[verdict.kind], kind, textOf(verdict));
}

/** The worst level of them, as the kind of a row: "bad", "warn" or "". */
export function levelOf(verdicts) {
  const levels = verdicts.map(({ level }) => level);
  return ["bad", "warn"].find((level) => levels.includes(level)) ?? "";
}

/** The column of a table whose rows have verdicts. */
export function verdictColumn() {
  return { name: "state", title: "State", early: true,
    hint: "What wants attention, by the rule of the overview",
    value: ({ verdicts }) => verdicts.map(({ kind }) => TITLES[kind]).join(" "),
    cell: ({ verdicts }) => verdictBadges(verdicts) };
}

/**
 * The verdicts on a topic, or on one of its channels, among those of what a page follows. Their words have
 * the `depth` that the page shows, where it is another one than was judged.
 */
export function verdictsOn(live, topic, channel = null, depth = null) {
  return (live?.attention ?? []).filter(({ kind, names }) => names[0] === topic &&
    (channel === null || (names[1] ?? "") === channel) && !(kind === "unchannelled" && needsNone(topic)))
    .map((each) => (depth === null || each.depth == null ? each : { ...each, depth }));
}

/** Whether a topic is well without a channel: brokers read it, or its letters are told as such. */
function needsNone(topic) {
  return isSystem(topic) || isOfGroup(topic) || isDeadLetters(topic);
}
