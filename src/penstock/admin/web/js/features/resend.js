/** Sending dead letters again, and discarding them: asked for, with where they go. */

import { pathOf, post } from "../core/api.js";
import { h } from "../core/dom.js";
import { count } from "../core/format.js";
import { ask, tell } from "../widgets/dialog.js";
import { many } from "./consequences.js";
import { choice, entry, field } from "./rocketmq/fields.js";

const PACE_MAX = 1_000_000;
const WAYS = [
  ["channel", "The channel that gave each up"],
  ["topic", "The topic of each: every channel gets it"],
  ["other", "Another topic"],
];

/**
 * Asks whether, and where to, letters shall be sent again; resolves to whether they were.
 *
 * @param {any} page
 * @param {{topic: string, node?: string, chosen?: any[], letters: number}} what  the `chosen`
 *   letters of a node, or all of it, or without a node all there are; `letters` is how many
 */
export function resend(page, what) {
  const { letters } = what;
  const wish = { way: "channel", other: "", pace: "" };
  const run = working(page, what, () => ({
    action: "resend",
    to: wish.way === "other" ? named(wish.other.trim()) : undefined,
    to_channel: wish.way === "channel",
    pace: paceOf(wish.pace.trim()),
  }), "sent");
  return ask({
    title: `Resend ${many(letters, "dead letter")}?`,
    body: (draw) => [
      h("p", {}, letters === 1 ? "It becomes a new message and leaves this list."
        : "They become new messages and leave this list."),
      field("To", choice(wish, "way", WAYS, draw)),
      wish.way === "other" && field("Topic", entry(wish, "other", { name: "topic" })),
      wish.way !== "other" && origins(what.chosen),
      field("Letters a second at most (empty: any number)",
        entry(wish, "pace", { name: "pace", inputmode: "numeric" })),
    ],
    action: "Resend",
    ...run,
  });
}

/** Asks whether letters shall be discarded; see `resend`. */
export function discard(page, what) {
  const { topic, letters, chosen } = what;
  return ask({
    title: `Discard ${many(letters, "dead letter")}?`,
    body: letters === 1 ? "It leaves this list. No channel gets it any more."
      : "They leave this list. No channel gets them any more.",
    losses: [`${many(letters, "dead letter")} ${letters === 1 ? "is" : "are"} discarded`],
    typed: chosen ? null : topic,
    action: "Discard",
    kind: "danger",
    ...working(page, what, () => ({ action: "discard" }), "discarded"),
  });
}

/** Repeats the request while letters are left, as one ends after some seconds; may be stopped between two. */
function working(page, what, wishOf, done) {
  const { topic, node, chosen } = what;
  let isStopped = false;
  return {
    stop: () => (isStopped = true),
    run: async () => {
      const whose = chosen ? { ids: chosen.map(({ id }) => id) } : { all: true };
      const body = { node, ...whose, ...wishOf() };
      let sent = 0;
      let missing = 0;
      for (isStopped = false; ;) {
        const answer = await post(pathOf("api", "deadletters", topic), body);
        sent += answer.sent;
        missing ||= answer.not_found.length;
        page.reload();
        if (answer.left && answer.sent && !isStopped) continue;
        const gone = missing && !sent ? `; ${count(missing)} had been dealt with meanwhile` : "";
        const text = `${many(sent, "letter")} ${done}${gone}`;
        if (!answer.message) return text;
        tell(`${text}. ${answer.message.replace("WARNING: ", "")}`, "warn");
        return "";
      }
    },
  };
}

/** Where chosen letters came from. */
function origins(chosen) {
  if (!chosen) return null;
  const numbers = new Map();
  for (const { origin } of chosen) {
    const name = origin && `${origin.topic} / ${origin.channel}`;
    numbers.set(name, (numbers.get(name) ?? 0) + 1);
  }
  return h("p", {}, [...numbers].map(([name, number]) => name === undefined
    ? `${many(number, "letter")} did not die in a channel: choose another topic. `
    : [`${many(number, "letter")} of `, h("b", { class: "name" }, name), ". "]));
}

function named(topic) {
  if (!topic) throw new Error("Name the topic that they go to.");
  return topic;
}

function paceOf(text) {
  if (text === "") return 0;
  if (!/^[1-9][0-9]*$/.test(text) || Number(text) > PACE_MAX) {
    throw new Error(`Letters a second: a whole number from 1 to ${count(PACE_MAX)}, or empty.`);
  }
  return Number(text);
}
