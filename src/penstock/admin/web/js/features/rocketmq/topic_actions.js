/** Making, changing and deleting topics of RocketMQ. What is lost is counted before it is. */

import { pathOf, post } from "../../core/api.js";
import { to } from "../../core/router.js";
import { settings } from "../../core/settings.js";
import { ask } from "../../widgets/dialog.js";
import { button } from "../../widgets/ui.js";
import { deleted, done } from "../actions.js";
import { held, many } from "../consequences.js";
import { brokerField, choice, common, entry, field, named, numberEntry, VARIES, whole } from "./fields.js";

const LENGTH_MAX = 127;
const QUEUES_MAX = 1024;
const NEW = { write: 8, read: 8, perm: "6" };
const PERMISSIONS = [["6", "read and write"], ["4", "read only"], ["2", "write only"], ["0", "closed"]];

/** The button that makes a topic; nothing without permission. */
export function createTopicButton(page) {
  return settings.isAdmin && button("Create a topic", { kind: "primary", onclick: () => askToCreate(page) });
}

/** The buttons that change and delete a topic; `told` is of the API, `channels` are NSQ's. */
export function topicActions(page, told, channels) {
  if (!settings.isAdmin || told.kind === "system") return [];
  return [
    button("Change", { onclick: () => askToChange(page, told) }),
    button("Delete", { kind: "danger", onclick: () => askToDelete(page, told, channels) }),
  ];
}

function askToCreate(page) {
  const wish = { topic: "", broker: "", ...NEW };
  return ask({
    title: "Create a topic",
    body: (redraw) => [
      field("Name", entry(wish, "topic", { name: "topic", autofocus: true })), settingsOf(wish, redraw),
    ],
    action: "Create topic",
    run: () => {
      const name = named(wish.topic.trim(), LENGTH_MAX);
      return done(page, post("/api/rocketmq/topics", { topic: name, ...bodyOf(wish) }),
        `Topic ${name} is created.`, to.rocketTopic(name), "Nothing was created.");
    },
  });
}

function askToChange(page, { topic, brokers }) {
  const rows = brokers.map(({ broker, write_queues: write, read_queues: read, perm }) =>
    ({ broker, write, read, perm: String(perm & 6) }));
  const of = (broker) => common(rows.filter((each) => !broker || each.broker === broker), NEW);
  /** @type {any} */
  const wish = { topic, broker: "", ...of("") };
  const path = pathOf("api", "rocketmq", "topics", topic);
  return ask({
    title: `Change topic ${topic}`,
    body: (redraw) => [settingsOf(wish, redraw, of),
      "A queue that is not written to any more should still be read until it is empty: take the write " +
      "queue away first, and the read queue when nothing is left in it."],
    action: "Change topic",
    run: () => done(page, post(path, { action: "change", ...bodyOf(wish) }),
      `Topic ${topic} is changed.`, "", "Nothing was changed."),
  });
}

/**
 * @param {any} wish
 * @param {() => void} redraw
 * @param {(broker: string) => object} [of]  the settings to begin with, of the broker that is chosen
 */
function settingsOf(wish, redraw, of = () => ({})) {
  const chosen = () => {
    Object.assign(wish, of(wish.broker));
    redraw();
  };
  const permissions = wish.perm === null ? [[null, VARIES], ...PERMISSIONS] : PERMISSIONS;
  return [
    brokerField(wish, redraw, chosen),
    field("Queues that are written to, on each broker", numberEntry(wish, "write", 0, QUEUES_MAX)),
    field("Queues that are read, on each broker", numberEntry(wish, "read", 0, QUEUES_MAX)),
    field("Permission", choice(wish, "perm", permissions, redraw)),
  ];
}

function bodyOf({ broker, write, read, perm }) {
  return {
    brokers: broker ? [broker] : [],
    write_queues: whole(write, "Queues that are written to", 0, QUEUES_MAX),
    read_queues: whole(read, "Queues that are read", 0, QUEUES_MAX),
    perm: perm === null ? null : Number(perm),
  };
}

function askToDelete(page, told, channels) {
  const { topic } = told;
  const losses = ofTopic(told, channels);
  return ask({
    title: `Delete topic ${topic}?`,
    body: "It is deleted on all its brokers, and the name servers forget it. Where brokers create topics " +
      "by themselves, a producer that goes on makes it again.",
    losses,
    typed: losses.length ? topic : null,
    action: "Delete topic",
    kind: "danger",
    run: () => deleted(page, pathOf("api", "rocketmq", "topics", topic), `Topic ${topic} is deleted.`,
      to.rocketmq({ tab: "topics" }), "Nothing was deleted."),
  });
}

/** Of deleting a topic, with NSQ's channels where one of our nodes has it. */
export function ofTopic({ queues, groups, brokers }, channels) {
  const kept = sum(queues, (each) => each.max - each.min);
  const lag = sum(groups, (each) => each.lag);
  const members = sum(groups, (each) => each.members);
  const waiting = held(...channels);
  return [
    kept > 0 && `${many(kept, "message")} on ${many(brokers.length, "broker")} ${are(kept)} deleted`,
    groups.length > 0 && many(groups.length, "group") +
      (groups.length === 1 ? " loses its" : " lose their") +
      ` offsets${lag > 0 ? `, with ${many(lag, "message")} not consumed yet` : ""}`,
    members > 0 && `${many(members, "consumer")} ${members === 1 ? "gets" : "get"} nothing of it any more`,
    channels.length > 0 && `NSQ's ${many(channels.length, "channel")} ${are(channels.length)} deleted` +
      (waiting > 0 ? `, with ${many(waiting, "message")}` : ""),
  ].filter(Boolean);
}

function sum(list, figure) {
  return list.reduce((total, each) => total + (figure(each) || 0), 0);
}

function are(number) {
  return number === 1 ? "is" : "are";
}
