/** Making, changing and deleting consumer groups of RocketMQ. */

import { pathOf, post } from "../../core/api.js";
import { to } from "../../core/router.js";
import { settings } from "../../core/settings.js";
import { ask } from "../../widgets/dialog.js";
import { button } from "../../widgets/ui.js";
import { deleted, done } from "../actions.js";
import { many } from "../consequences.js";
import { box, brokerField, common, entry, field, named, numberEntry, whole } from "./fields.js";

const LENGTH_MAX = 255;
const RETRIES_MAX = 10_000;
const QUEUES_MAX = 1024;
const NEW = { consumes: true, broadcasts: true, from_min: true, notifies: true, retries: 16, retry_queues: 1,
  broker_id: 0, slow_broker_id: 1 };
const BOXES = [
  ["consumes", "may consume"],
  ["broadcasts", "may broadcast"],
  ["notifies", "tell members when others come and go"],
];
/** @type {[string, string, number, number][]} */
const NUMBERS = [
  ["retries", "Retries of a message at most; −1: without end", -1, RETRIES_MAX],
  ["retry_queues", "Queues of its retry topic", 0, QUEUES_MAX],
  ["broker_id", "Number of the replica to consume from; 0 is the master", 0, 2 ** 31],
  ["slow_broker_id", "Number of the replica while it is far behind", 0, 2 ** 31],
];

/** The button that makes a group; nothing without permission. */
export function createGroupButton(page) {
  return settings.isAdmin && button("Create a group", { kind: "primary", onclick: () => askToCreate(page) });
}

/** The buttons that change and delete a group, which is an object of the API. */
export function groupActions(page, told) {
  if (!settings.isAdmin) return [];
  return [
    button("Change", { onclick: () => askToChange(page, told) }),
    button("Delete", { kind: "danger", onclick: () => askToDelete(page, told) }),
  ];
}

function askToCreate(page) {
  const wish = { group: "", broker: "", ...NEW };
  return ask({
    title: "Create a group",
    body: (redraw) => [
      field("Name", entry(wish, "group", { name: "group", autofocus: true })), settingsOf(wish, redraw),
    ],
    action: "Create group",
    run: () => {
      const name = named(wish.group.trim(), LENGTH_MAX);
      return done(page, post("/api/rocketmq/groups", { group: name, ...bodyOf(wish) }),
        `Group ${name} is created.`, to.rocketGroup(name), "Nothing was created.");
    },
  });
}

function askToChange(page, { group, configs }) {
  const of = (broker) => common(configs.filter((each) => !broker || each.broker === broker), NEW);
  const wish = { broker: "", ...of("") };
  const path = pathOf("api", "rocketmq", "groups", group);
  return ask({
    title: `Change group ${group}`,
    body: (redraw) => settingsOf(wish, redraw, of),
    action: "Change group",
    run: () => done(page, post(path, { action: "change", ...bodyOf(wish) }),
      `Group ${group} is changed.`, "", "Nothing was changed."),
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
  return [
    brokerField(wish, redraw, chosen),
    BOXES.map(([name, title]) => box(wish, name, title, redraw)),
    NUMBERS.map(([name, title, min, max]) => field(title, numberEntry(wish, name, min, max))),
  ];
}

function bodyOf(wish) {
  return {
    brokers: wish.broker ? [wish.broker] : [],
    ...Object.fromEntries(BOXES.map(([name]) => [name, wish[name]])),
    ...Object.fromEntries(NUMBERS.map(([name, title, min, max]) =>
      [name, whole(wish[name], title.split(";")[0], min, max)])),
  };
}

function askToDelete(page, told) {
  const { group } = told;
  const losses = ofGroup(told);
  return ask({
    title: `Delete group ${group}?`,
    body: told.members.length > 0
      ? "Stop its members first: with the first offset that one commits, brokers make the group again."
      : "It is deleted on all brokers, with its retries and its dead letters.",
    losses,
    typed: losses.length ? group : null,
    action: "Delete group",
    kind: "danger",
    run: () => deleted(page, pathOf("api", "rocketmq", "groups", group), `Group ${group} is deleted.`,
      to.rocketmq({ tab: "groups" }), "Nothing was deleted."),
  });
}

/** Of deleting a group. */
export function ofGroup({ queues, lag, members, retries, letters }) {
  return [
    queues.length > 0 && `Its offsets in ${many(queues.length, "queue")} are deleted` +
      (lag > 0 ? `: it has not consumed ${many(lag, "message")} yet` : ""),
    retries > 0 && `${many(retries, "message")} of its retries ${retries === 1 ? "is" : "are"} deleted`,
    letters > 0 && `${many(letters, "dead letter")} ${letters === 1 ? "is" : "are"} deleted`,
    members.length > 0 && `${many(members.length, "member")} ${members.length === 1 ? "is" : "are"} online`,
  ].filter(Boolean);
}
