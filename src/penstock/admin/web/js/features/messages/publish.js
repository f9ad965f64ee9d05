/** Publishing one message by hand, to try a topic and its consumers out. */

import { post } from "../../core/api.js";
import { h } from "../../core/dom.js";
import { bytes, count } from "../../core/format.js";
import { settings } from "../../core/settings.js";
import { ask } from "../../widgets/dialog.js";
import { button } from "../../widgets/ui.js";
import { done } from "../actions.js";
import { many } from "../consequences.js";
import { menu } from "./place.js";

const BYTES_MAX = 64 * 1024; // as the server has it
const ANY = "";

/** The button that publishes a message to a topic (TopicStats) that some node has. */
export function publishAction(page, stats) {
  if (!settings.isAdmin || !stats.nodes.length) return null;
  return button("Publish", { onclick: () => askToPublish(page, stats) });
}

function askToPublish(page, { topic_name: topic, nodes, channels }) {
  const wish = { text: "", node: ANY };
  const names = (channels ?? []).length;
  return ask({
    title: `Publish a message to ${topic}?`,
    body: (draw) => [
      h("p", {}, names ? `It is a real message: ${many(names, "channel")} ${names === 1 ? "gets" : "get"} it.`
        : "It is a real message, and waits in the topic until there is a channel."),
      nodes.length > 1 && menu("Node", [[ANY, "Any"], ...nodes.map(({ node }) => [node, node])], wish.node,
        (node) => {
          wish.node = node;
          draw();
        }),
      h("label", { class: "field" }, h("span", {}, "Message"), h("textarea", {
        class: "input", rows: "6", value: wish.text, spellcheck: "false", autofocus: true,
        oninput: (event) => {
          wish.text = event.target.value;
          draw();
        },
      })),
      h("p", { class: "faint" }, sizeOf(wish.text)),
    ],
    action: "Publish",
    run: () => {
      if (!wish.text) throw new Error("Type the message first: NSQ has no empty ones.");
      if (lengthOf(wish.text) > BYTES_MAX) {
        throw new Error(`${bytes(BYTES_MAX)} at most can be published here.`);
      }
      return done(page, post("/api/messages/publish", { topic, ...wish }),
        `Published to ${topic}.`, "", "Nothing was published.");
    },
  });
}

function lengthOf(text) {
  return new TextEncoder().encode(text).length;
}

function sizeOf(text) {
  return `${count(lengthOf(text))} of ${count(BYTES_MAX)} bytes`;
}
