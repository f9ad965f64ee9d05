/**
 * What an administrator can do to topics and channels. Every action asks first, and names what is
 * lost in figures; whoever may not change things has no buttons here, and the server refuses too.
 *
 * `stats` are TopicStats or ChannelStats of the API.
 */

import { ApiError, del, pathOf, post } from "../core/api.js";
import { h } from "../core/dom.js";
import { count } from "../core/format.js";
import { go, to } from "../core/router.js";
import { settings } from "../core/settings.js";
import { ask, tell } from "../widgets/dialog.js";
import { button } from "../widgets/ui.js";
import { askForLimits } from "./limits.js";
import { heldByTopic, held, many, ofChannel, ofEmptying, ofTopic } from "./consequences.js";

const NAME = /^[.a-zA-Z0-9_-]+(#ephemeral)?$/;
const NAME_LENGTH_MAX = 64;
const NOTHING_DONE = "Nothing was done: it cannot be found out which nodes have it.";

/** The buttons of a topic: pause or unpause, empty, delete. `readers`: how many groups read it. */
export function topicActions(page, stats, readers = 0) {
  const name = stats.topic_name;
  const act = (action) => post(pathOf("api", "topics", name), { action });
  if (!settings.isAdmin) return [];
  const isAnywhere = stats.nodes.length > 0;
  const channels = stats.channels ?? [];
  const consumers = channels.reduce((sum, each) => sum + each.client_count, 0);
  return [
    ...pauseButtons(page, stats, {
      what: `topic ${name}`,
      pause: "Producers notice nothing: what they publish waits in the topic. Its channels get " +
        `nothing new until it is unpaused; their consumers (${count(consumers)}) go on with what ` +
        `the channels already hold (${many(held(...channels), "message")}).`,
      unpause: `${many(channels.length, "channel")} ${channels.length === 1 ? "gets" : "get"} what ` +
        "is published from now on" +
        (stats.depth ? `, and ${many(stats.depth, "message")} from the topic.` : "."),
      act,
    }),
    isAnywhere && button("Empty", {
      onclick: () => ask({
        title: `Empty topic ${name}?`,
        body: "This deletes what waits in the topic itself. Its channels keep what they already " +
          "have. " + (stats.depth ? "" : "Nothing waits in the topic now."),
        losses: ofEmptying(stats),
        action: "Empty topic",
        kind: "danger",
        run: () => done(page, act("empty"), `Topic ${name} is empty.`),
      }),
    }),
    isAnywhere && limitsButton(page, name),
    button("Delete", { kind: "danger", onclick: () => askToDeleteTopic(page, stats, readers) }),
  ];
}

/** The button that accepts a topic's damage on this number of nodes, which ends the alarm. */
export function acceptAction(page, name, nodes) {
  if (!settings.isAdmin) return null;
  return button("Accept damage", {
    onclick: () => ask({
      title: `Accept the damage of topic ${name}?`,
      body: "Lost messages do not come back. From then on, messages that all channels have finished are " +
        "deleted again, and the nodes are healthy. Copies of damaged bytes stay in the folder quarantine " +
        "of the topic's folder.",
      losses: [],
      action: "Accept damage",
      kind: "primary",
      run: () => done(page, post(pathOf("api", "topics", name), { action: "accept_damage" }),
        `Damage on ${many(nodes, "node")} is accepted.`),
    }),
  });
}

function askToDeleteTopic(page, stats, readers) {
  const name = stats.topic_name;
  ask({
    title: `Delete topic ${name}?`,
    body: "It is deleted everywhere, with its channels and with what is kept for replay. " +
      "A producer that publishes to it creates it again, without channels.",
    losses: ofTopic(stats, readers),
    typed: heldByTopic(stats) ? name : null,
    action: "Delete topic",
    kind: "danger",
    run: () =>
      deleted(page, pathOf("api", "topics", name), `Topic ${name} is deleted.`, to.topics()),
  });
}

/** The buttons of a channel: pause or unpause, empty, delete. */
export function channelActions(page, stats) {
  const { topic_name: topic, channel_name: name, client_count: consumers } = stats;
  const path = pathOf("api", "topics", topic, name);
  const act = (action) => post(path, { action });
  if (!settings.isAdmin) return [];
  return [
    ...pauseButtons(page, stats, {
      what: `channel ${name}`,
      pause: `Consumers (${count(consumers)}) stay connected and get nothing until it is unpaused; ` +
        "what is in flight can still be finished. Producers and other channels notice nothing: " +
        "messages wait here.",
      unpause: `Consumers (${count(consumers)}) get messages again` +
        (stats.depth ? `, first the ${count(stats.depth)} that have waited.` : "."),
      act,
    }),
    button("Empty", {
      onclick: () => ask({
        title: `Empty channel ${name}?`,
        body: "No consumer gets these messages any more: what waits, what is deferred, and what is " +
          "in flight, which cannot be finished then. " + (held(stats) ? "" : "There are none now."),
        losses: ofEmptying(stats),
        action: "Empty channel",
        kind: "danger",
        run: () => done(page, act("empty"), `Channel ${name} is empty.`),
      }),
    }),
    limitsButton(page, topic, name),
    button("Delete", {
      kind: "danger",
      onclick: () => ask({
        title: `Delete channel ${name}?`,
        body: `It is deleted on all nodes of topic ${topic}. A consumer that connects again ` +
          "creates it again, empty: it gets what is published after that.",
        losses: ofChannel(stats),
        typed: held(stats) ? name : null,
        action: "Delete channel",
        kind: "danger",
        run: () => deleted(page, path, `Channel ${name} is deleted.`, to.topic(topic)),
      }),
    }),
  ];
}

function limitsButton(page, topic, channel = "") {
  const changed = (answer) => done(page, answer, `Limits of ${channel || topic} are changed.`);
  return button("Limits", { onclick: () => askForLimits(topic, channel, changed) });
}

/** Pause or unpause; both where some nodes are paused and others are not. */
function pauseButtons(page, stats, { what, pause, unpause, act }) {
  const asked = (action, title, body, result) => button(title, {
    onclick: () => ask({
      title: `${title} ${what}?`,
      body,
      losses: [],
      action: title,
      kind: "primary",
      run: () => done(page, act(action), `${capital(what)} is ${result}.`),
    }),
  });
  return [
    stats.nodes.some((each) => !each.paused) && asked("pause", "Pause", pause, "paused"),
    stats.nodes.some((each) => each.paused) && asked("unpause", "Unpause", unpause, "unpaused"),
  ];
}

/**
 * The button that takes a topic from a node: consumers are not sent there any more, and the topic
 * is deleted there. `stats` is what the node has of it (TopicStats), when that is known. Without
 * nsqlookupds there is nobody to tell consumers, and no button.
 */
export function tombstoneAction(page, topic, node, stats = null) {
  if (!settings.isAdmin || !settings.lookupds.length) return null;
  return button("Tombstone", {
    kind: "quiet",
    title: `Send consumers of ${topic} elsewhere, and delete it on ${node}`,
    onclick: () => ask({
      title: `Tombstone topic ${topic} on ${node}?`,
      body: "nsqlookupd does not send consumers of the topic to this node any more, and the topic " +
        "is deleted there. Let producers publish elsewhere first: one that publishes there creates " +
        "it again.",
      losses: stats ? ofTopic(stats) : [`All messages of the topic on ${node} are deleted`],
      typed: stats && !heldByTopic(stats) ? null : topic,
      action: "Tombstone",
      kind: "danger",
      run: () => done(page, del(pathOf("api", "nodes", node), { topic }),
        `Topic ${topic} is gone from ${node}.`, "",
        "No consumer is sent there any more, but the node could not be told to delete the topic."),
    }),
  });
}

const forms = new WeakMap();

/** The fields that create a topic, with a channel or without; with `topic`, a channel of it. */
export function createForm(page, { topic = "" } = {}) {
  if (!settings.isAdmin) return null;
  if (!forms.has(page)) forms.set(page, { topic: "", channel: "", isRunning: false, error: "" });
  const form = forms.get(page);
  const names = topic ? [form.channel] : [form.topic, form.channel];
  const wrong = names.filter(Boolean).map(whatIsWrong).find(Boolean) ?? "";
  const isReady = Boolean(names[0]) && !wrong && !form.isRunning;
  const submit = (event) => {
    event.preventDefault();
    if (isReady) create(page, form, topic);
  };
  return h("form", { class: "form", onsubmit: submit },
    !topic && field(page, form, "topic", "Topic"),
    field(page, form, "channel", topic ? "New channel" : "Channel (optional)"),
    button("Create", { kind: topic ? "" : "primary", disabled: !isReady, type: "submit" }),
    (wrong || form.error) && h("p", { class: "field-error", role: "alert" }, wrong || form.error));
}

function field(page, form, name, label) {
  return h("input", {
    name,
    class: "input",
    type: "text",
    value: form[name],
    placeholder: label,
    "aria-label": label,
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
    oninput: (event) => {
      form[name] = event.target.value;
      form.error = "";
      page.redraw();
    },
  });
}

function whatIsWrong(name) {
  if (name.length > NAME_LENGTH_MAX) return `A name has ${NAME_LENGTH_MAX} characters at most.`;
  if (NAME.test(name)) return "";
  return "A name has letters, digits, “.”, “_” and “-”, and may end with “#ephemeral”.";
}

async function create(page, form, topic) {
  form.isRunning = true;
  page.redraw();
  try {
    tellIf(await created(page, topic || form.topic, form.channel));
    form.topic = form.channel = "";
  } catch (error) {
    form.error = error.message;
  }
  form.isRunning = false;
  page.redraw();
}

/** The button that creates a topic, or a channel of it, which is not there; null where it cannot be. */
export function createAction(page, topic, channel = "") {
  if (!settings.isAdmin || whatIsWrong(topic) || (channel && whatIsWrong(channel))) return null;
  return button(channel ? "Create the channel" : "Create the topic", {
    onclick: () => created(page, topic, channel).then(tellIf, (error) => tell(error.message, "bad")),
  });
}

function created(page, topic, channel) {
  const what = channel ? `Channel ${channel} of topic ${topic}` : `Topic ${topic}`;
  return done(page, post("/api/topics", { topic, channel }), `${what} is created.`);
}

function tellIf(text) {
  if (text) tell(text, "good");
}

/**
 * Waits for an action, then shows what became of it: goes to `next` or loads the page again. Returns
 * what to say about it, or nothing when only a part was done and a warning said so. Throws an Error
 * whose message a person understands; `unreached` is how it begins when no daemon could be asked.
 */
export async function done(page, action, text, next = "", unreached = NOTHING_DONE) {
  let answer;
  try {
    answer = await action;
  } catch (error) {
    throw error instanceof ApiError ? new Error(explained(error, unreached)) : error;
  }
  if (next) go(next);
  else await page.reload();
  if (!answer.message) return text;
  tell(`Not all of it was done. ${answer.message}`, "warn");
  return "";
}

/** Deletes what the page shows, which does not ask for it meanwhile, and goes to `next`; see `done`. */
export async function deleted(page, path, text, next, unreached = NOTHING_DONE) {
  await page.rest(true);
  try {
    return await done(page, del(path), text, next, unreached);
  } finally {
    page.rest(false);
  }
}

function explained({ status, message }, unreached) {
  const detail = message.replace(/^UPSTREAM_ERROR: /, "");
  if (message === "FORBIDDEN") {
    return "You may not change anything here. nsqadmin allows it to users named by --admin-user, " +
      "and reads your name in the request header that --acl-http-header names.";
  }
  if (status === 0) return `${message}: it is not known whether anything was done.`;
  if (status === 502) return `${unreached} ${detail}`;
  if (status === 409) return `It is there already (${message}).`;
  if (status === 404) return `It is not there any more (${message}).`;
  return `nsqadmin refused (${status}): ${message}`;
}

function capital(text) {
  return text[0].toUpperCase() + text.slice(1);
}
