/** Sending dead letters again: asked for, with where they go. */

import { pathOf, post } from "../core/api.js";
import { h } from "../core/dom.js";
import { count } from "../core/format.js";
import { ask, tell } from "../widgets/dialog.js";
import { many } from "./consequences.js";

/**
 * Asks whether, and to which topic, letters shall be sent again; resolves to whether they were.
 *
 * @param {any} page
 * @param {{topic: string, node?: string, chosen?: any[], letters: number}} what  the `chosen`
 *   letters of a node, or all of it, or without a node all there are; `letters` is how many
 */
export function resend(page, { topic, node, chosen, letters }) {
  let other = "";
  return ask({
    title: `Resend ${many(letters, "dead letter")}?`,
    body: (draw) => [
      h("p", {}, destination(other, { chosen, node, letters })),
      h("p", {}, letters === 1 ? "It becomes a new message there and leaves this list."
        : "They become new messages there and leave this list."),
      topicField(other, (text) => {
        other = text;
        draw();
      }),
    ],
    action: "Resend",
    run: async () => {
      const whose = chosen ? { ids: chosen.map(({ id }) => id) } : { all: true };
      const body = { action: "resend", node, ...whose, to: other || undefined };
      const done = await post(pathOf("api", "deadletters", topic), body);
      page.reload();
      if (done.message) tell(`${outcome(done)}. ${done.message.replace("WARNING: ", "")}`, "warn");
      return done.message ? "" : outcome(done);
    },
  });
}

function topicField(value, changed) {
  return h("label", { class: "field" }, h("span", {}, "To another topic"), h("input", {
    class: "input",
    type: "text",
    value,
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "empty: where each came from",
    oninput: (event) => changed(event.target.value.trim()),
  }));
}

function destination(other, { chosen, node, letters }) {
  if (other) return goingTo(other, letters);
  if (chosen) return origins(chosen);
  return `Each letter ${node ? `of ${node} ` : ""}goes to the topic it came from, where every ` +
    "channel gets it, also those that had finished it.";
}

function goingTo(topic, number) {
  const name = h("b", { class: "name" }, topic);
  return [`${many(number, "letter")} to `, name, ", where every channel gets it. "];
}

/** Of chosen letters it is known where they came from. */
function origins(chosen) {
  const numbers = new Map();
  for (const { origin } of chosen) {
    numbers.set(origin?.topic, (numbers.get(origin?.topic) ?? 0) + 1);
  }
  return [...numbers].map(([topic, number]) => topic === undefined
    ? `${many(number, "letter")} did not die in a channel: name a topic for it. `
    : goingTo(topic, number));
}

function outcome({ sent, not_found: missing }) {
  const gone = missing.length ? `; ${count(missing.length)} had been dealt with meanwhile` : "";
  return `${many(sent, "letter")} sent${gone}`;
}
