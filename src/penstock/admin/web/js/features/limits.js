/** Limits, retention and attempts of a topic or a channel: what is set for it, over what the flags say. */

import { get, post, remark } from "../core/api.js";
import { h } from "../core/dom.js";
import { bytes, count } from "../core/format.js";
import { ask, tell } from "../widgets/dialog.js";
import { choice, common, entry, field } from "./rocketmq/fields.js";

const NUMBER_MAX = Number.MAX_SAFE_INTEGER;
const ATTEMPTS_MAX = 65_535;
const DURATION = /^(0|([0-9]+(\.[0-9]+)?(h|m|s|ms))+)$/;
const VARIES = "differs between nodes; empty leaves it so";

/** The settings: by their names, with how a value is shown and how it is read. */
const TOPIC = [
  { name: "max_depth", title: "Messages that may wait", hint: "0: any number",
    shown: none(count), read: whole(NUMBER_MAX) },
  { name: "max_bytes", title: "Bytes that the log may hold", hint: "0: any number",
    shown: none(bytes), read: whole(NUMBER_MAX) },
  { name: "overflow", title: "When it is full", hint: "", shown: String, read: String },
  { name: "retention_time", title: "Keep consumed messages for", hint: "24h, 30m; 0: no rule",
    shown: (value) => (value === "0s" ? "no rule" : value), read: duration },
  { name: "retention_bytes", title: "Keep bytes of consumed messages", hint: "0: no rule",
    shown: none(bytes, "no rule"), read: whole(NUMBER_MAX) },
];
const CHANNEL = [
  { name: "max_attempts", title: "Attempts at a message", hint: "0: any number",
    shown: none(count), read: whole(ATTEMPTS_MAX) },
  { name: "dead_letter_topic", title: "Then it goes to topic", hint: "%s: the topic's name",
    shown: String, read: String },
];
const OVERFLOW = [["", "as the flag says"], ["refuse", "refuse publishes"],
  ["drop-oldest", "drop the oldest"]];

/**
 * Asks for the limits of a topic, or of a channel of it, and changes those that were edited.
 * `changed(answer)` waits for the change and resolves to what is to be said about it.
 */
export async function askForLimits(topic, channel, changed) {
  let told;
  try {
    told = await get("/api/limits", { topic, channel });
  } catch (error) {
    const isGo = error.message === "NOT_OFFERED";
    tell(isGo ? "Go's nsqd sets limits by its flags alone." : error.message, "bad");
    return;
  }
  const fields = channel ? CHANNEL : TOPIC;
  const own = common(told.nodes.map(({ set }) => set), told.nodes[0].set);
  const before = Object.fromEntries(fields.map(({ name }) => [name, String(own[name] ?? "")]));
  const wish = { ...before };
  await ask({
    title: `Limits of ${channel ? `channel ${channel}` : `topic ${topic}`}`,
    body: (draw) => [
      told.message && h("p", {}, remark(told.message)),
      fields.map((each) => limitField(told.nodes, wish, each, draw)),
      h("p", { class: "faint" }, "An empty field is as the node's flags say. What is set survives restarts."),
    ],
    action: "Change limits",
    run: () => {
      const change = {};
      for (const { name, title, read } of fields) {
        const text = wish[name].trim();
        if (text !== before[name]) change[name] = text === "" ? null : read(text, title);
      }
      if (!Object.keys(change).length) return "Nothing was changed.";
      return changed(post("/api/limits", { topic, channel, change }));
    },
  });
}

function limitField(nodes, wish, { name, title, hint, shown }, draw) {
  if (name === "overflow") return field(title, choice(wish, name, OVERFLOW, draw));
  return field(`${title} (${hint})`, entry(wish, name, { name, placeholder: inForce(nodes, name, shown) }));
}

/** What holds where nothing is set. */
function inForce(nodes, name, shown) {
  const flag = `--${name.replaceAll("_", "-")}`;
  const [first, ...others] = nodes;
  if (others.some((each) => each.set[name] !== first.set[name])) return VARIES;
  if (first.set[name] !== null) return `empty: as ${flag} says`;
  if (others.some((each) => each[name] !== first[name])) return `as ${flag} of each node says`;
  return `${shown(first[name])}, as ${flag} says`;
}

function none(shown, nothing = "any number") {
  return (value) => (value === 0 ? nothing : shown(value));
}

function whole(most) {
  return (value, title) => {
    const number = Number(value);
    if (!/^[0-9]+$/.test(value) || number > most) {
      throw new Error(`${title}: a whole number from 0 to ${count(most)}.`);
    }
    return number;
  };
}

function duration(value, title) {
  if (!DURATION.test(value)) throw new Error(`${title}: a duration such as 24h, 30m or 90s; 0 for no rule.`);
  return value;
}
