/** What the nsqlookupds know beyond the nodes; and the place to create topics and channels. */

import { del, get, pathOf } from "../core/api.js";
import { h } from "../core/dom.js";
import { to } from "../core/router.js";
import { settings } from "../core/settings.js";
import { createForm, done } from "../features/actions.js";
import { many } from "../features/consequences.js";
import { warning } from "../widgets/columns.js";
import { ask } from "../widgets/dialog.js";
import { badge, button, empty, heading, loading, notice, section } from "../widgets/ui.js";

const HAS_LOOKUPDS = settings.lookupds.length > 0;

export default function lookup(page) {
  page.title = "Lookup";
  let told = null;

  if (HAS_LOOKUPDS) {
    page.load(async (signal) => {
      told = await get("/api/topics", { inactive: "true" }, signal);
    });
  }

  return () => [
    heading({ title: "Lookup" }),
    warning(told?.message, page),
    HAS_LOOKUPDS ? lookupds(told?.message ?? page.error?.message ?? "") : notice("",
      "This nsqadmin asks the nodes themselves (", h("code", {}, "--nsqd-http-address"),
      "), without an nsqlookupd: there is nobody who knows of topics that no node has."),
    HAS_LOOKUPDS && inactive(page, told?.topics),
    settings.isAdmin && create(page),
  ];
}

function lookupds(problems) {
  const isSilent = (address) => problems.includes(`//${address}/`);
  return section({ title: "nsqlookupds" },
    h("ul", { class: "names panel" }, settings.lookupds.map((address) =>
      h("li", { key: address }, address, isSilent(address) && [" ", badge("no answer", "bad")]))));
}

/** `topics`: by name, their channels, or null; undefined while they are not known. */
function inactive(page, topics) {
  const found = Object.entries(topics ?? {}).map(([topic, channels]) => [topic, channels ?? []]);
  return section({ title: "Topics with no active producers" },
    !topics && !page.error && loading(),
    topics && found.length === 0 && empty("All topics are on a node", "Nothing to tidy up here."),
    found.length > 0 && [
      h("p", { class: "hint" }, "The nsqlookupds know these topics, but no node has them: ",
        "they wait for a first message, or are left over."),
      h("ul", { class: "tree panel" }, found.map(([topic, channels]) => h("li", { key: topic },
        h("div", { class: "leaf" },
          h("a", { href: to.topic(topic) }, topic), deleteTopic(page, topic, channels)),
        channels.length > 0 && h("ul", {}, channels.map((channel) => h("li", { key: channel },
          h("div", { class: "leaf" }, channel, deleteChannel(page, topic, channel)))))))),
    ]);
}

function deleteTopic(page, topic, channels) {
  return settings.isAdmin && button("Delete", {
    kind: "danger",
    "aria-label": `Delete topic ${topic}`,
    onclick: () => ask({
      title: `Delete topic ${topic}?`,
      body: "The nsqlookupds forget it. No node has it, so no message is lost; a producer that publishes " +
        "to it creates it again.",
      losses: channels.length
        ? [`${many(channels.length, "channel")} that a node would create with it: ${channels.join(", ")}`]
        : [],
      action: "Delete topic",
      kind: "danger",
      run: () => done(page, del(pathOf("api", "topics", topic)), `Topic ${topic} is deleted.`),
    }),
  });
}

function deleteChannel(page, topic, channel) {
  return settings.isAdmin && button("Delete", {
    kind: "danger",
    "aria-label": `Delete channel ${channel} of ${topic}`,
    onclick: () => ask({
      title: `Delete channel ${channel} of ${topic}?`,
      body: "The nsqlookupds forget it. No node has it, so no message is lost; but a node that gets the " +
        "topic does not create the channel with it any more.",
      action: "Delete channel",
      kind: "danger",
      run: () => done(page, del(pathOf("api", "topics", topic, channel)), `Channel ${channel} is deleted.`),
    }),
  });
}

function create(page) {
  return section({ title: "Create a topic or a channel" },
    h("p", { class: "hint" }, HAS_LOOKUPDS
      ? "Before anything is published, so that no consumer misses the beginning: nodes that get the " +
        "topic create these channels with it."
      : "On all nodes."),
    createForm(page));
}
