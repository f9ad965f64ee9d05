/** What is the matter with a group or a server, as the API judges it, in few words. */

import { textOf, TITLES } from "../alerts.js";
import { badge } from "../../widgets/ui.js";

/** A badge for each verdict; what it means is its hint. */
export function verdictBadges(verdicts) {
  return verdicts.map((each, at) => [at > 0 && " ", badge(TITLES[each.kind], each.level, textOf(each))]);
}

/** The worst level of them, as the kind of a row: "bad", "warn" or "". */
export function levelOf(verdicts) {
  const levels = verdicts.map(({ level }) => level);
  return ["bad", "warn"].find((level) => levels.includes(level)) ?? "";
}

/** The column of a table whose rows have verdicts. */
export function verdictColumn() {
  return { name: "state", title: "State", hint: "What wants attention, by the rule of the overview",
    early: true, value: ({ verdicts }) => verdicts.map(({ kind }) => TITLES[kind]).join(" "),
    cell: ({ verdicts }) => verdictBadges(verdicts) };
}
