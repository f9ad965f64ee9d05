/** What became of a message: its state in each group, its trace, and handing it to a member now. */

import { get, post } from "../../core/api.js";
import { h } from "../../core/dom.js";
import { count } from "../../core/format.js";
import { settings } from "../../core/settings.js";
import { ask, tell } from "../../widgets/dialog.js";
import { badge, button, notice } from "../../widgets/ui.js";
import { choice, field } from "./fields.js";
import { groupLink, stampMs } from "./parts.js";

const STATES = {
  consumed: ["consumed", "good", "The group has committed an offset behind it"],
  filtered: ["filtered", "", "The group has gone past it: none of its tags is the message's"],
  waits: ["waits", "warn", "The group has not committed an offset behind it"],
  unknown: ["unknown", "", "Members that pull need not tell brokers what they have consumed"],
};
const ENDS = { COMMIT_MESSAGE: "committed", ROLLBACK_MESSAGE: "rolled back", UNKNOW: "not known yet" };

/** @returns {(message: any) => object} the part of an opened message; asked for when its button is pressed */
export function fates(page, topic) {
  const known = new Map(); // by the broker's id
  return (message) => view(page, topic, known, message);
}

function view(page, topic, known, message) {
  const fate = known.get(message.offset_id);
  const again = () => load(page, topic, known, message);
  if (!fate) return h("div", { class: "fate" }, button("What became of it?", { onclick: again }));
  return h("div", { class: "fate" },
    fate.problems.map((problem) => notice("warn", problem)),
    fate.groups && groupsPart(topic, message, fate.groups),
    fate.trace && tracePart(fate.trace),
    button("Look again", { kind: "quiet", onclick: again }));
}

async function load(page, topic, known, { offset_id: id, unique }) {
  /** @type {any[]} */
  const [groups, trace] = await Promise.allSettled([
    get("/api/rocketmq/tracks", { topic, id }), get("/api/rocketmq/trace", { id: unique }),
  ]);
  const problems = [groups, trace].map(({ value, reason }) => reason?.message ?? value.message);
  known.set(id, { groups: groups.value?.groups, trace: trace.value, problems: problems.filter(Boolean) });
  page.redraw();
}

// --- groups --------------------------------------------------------------------------------------

function groupsPart(topic, message, groups) {
  return [
    h("h2", {}, "In its groups"),
    groups.length === 0 ? h("p", { class: "faint" }, "No group reads the topic on its broker.")
      : h("ul", { class: "fate-list" }, groups.map((each) => h("li", { key: each.group },
        groupLink(each.group), badge(...STATES[each.state]),
        settings.isAdmin && each.members.length > 0 && button("Consume directly", {
          onclick: () => consume(topic, message, each),
        })))),
  ];
}

/** Has one member handle it. */
function consume(topic, { offset_id: id, unique }, { group, members }) {
  const wish = { client: members[0] };
  return ask({
    title: `Have group ${group} consume this message now?`,
    body: (redraw) => [
      h("p", {}, `One member is given message ${unique} and handles it, even if the group has consumed it ` +
        "before. No offset moves; what fails is not tried again."),
      field("Member", choice(wish, "client", members.map((each) => [each, each]), redraw)),
    ],
    action: "Consume directly",
    run: async () => {
      const body = { action: "consume", topic, ids: [id], group, client: wish.client };
      const { result, remark, spent_ms: spent } = await post("/api/rocketmq/messages", body);
      const took = `It took ${count(spent)} ms.`;
      if (result === "CR_SUCCESS") return `The member has consumed it. ${took}`;
      tell(`The member answered ${result}${remark ? `: ${remark}` : ""}. ${took}`, "warn");
      return "";
    },
  });
}

// --- the trace -----------------------------------------------------------------------------------

function tracePart({ sent, ended, consumed }) {
  const rows = [
    ...sent.map((each) => [each, "sent by", each.store_host && `to ${each.store_host}`]),
    ...ended.map((each) => [each, "ended by", ENDS[each.state] ?? each.state]),
    ...consumed.map((each) => [each, "handled by", each.retries > 0 && `try ${count(each.retries + 1)}`]),
  ];
  if (!rows.length) {
    return [h("h2", {}, "Trace"), h("p", { class: "faint" },
      "No client has reported it. Clients send traces if they are configured to, and brokers keep them ",
      "for a while.")];
  }
  return [
    h("h2", {}, "Trace"),
    h("ul", { class: "fate-list" }, rows.map(([each, what, more], at) => h("li", { key: at },
      h("span", { class: "faint" }, stampMs(each.time_ms || null)),
      h("span", {}, what, " ", each.group ? groupOf(each, what) : "a group", " at ", each.client),
      more && h("span", { class: "faint" }, more),
      outcome(each, what)))),
  ];
}

function groupOf({ group }, what) {
  return what === "handled by" ? groupLink(group) : group;
}

function outcome({ ok, cost_ms: cost }, what) {
  if (what === "ended by") return null;
  if (ok === null) return badge("under way", "", "It was begun, and nobody has told how it ended");
  return badge(`${ok ? "done" : "failed"} in ${count(cost)} ms`, ok ? "good" : "bad");
}
