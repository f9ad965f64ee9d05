/** A consumer group of RocketMQ: its members, and how far it is in each queue. */

import { get, pathOf } from "../core/api.js";
import { h } from "../core/dom.js";
import { count, rate } from "../core/format.js";
import { to } from "../core/router.js";
import { many } from "../features/consequences.js";
import {
  agoCell, agoColumn, queueColumn, stampMs, topicLink, typeOf, version,
} from "../features/rocketmq/parts.js";
import { groupActions } from "../features/rocketmq/group_actions.js";
import { resetButton } from "../features/rocketmq/reset.js";
import { verdictBadges } from "../features/verdicts.js";
import { number, rateColumn, warning } from "../widgets/columns.js";
import { table } from "../widgets/table.js";
import { badge, empty, facts, heading, loading, section, tile, tiles, trail } from "../widgets/ui.js";

const AGAIN_S = 5;

export default function rocketgroup(page) {
  const [name] = page.names;
  page.title = name;
  const state = { page, name, told: null, isUnknown: false };

  page.load(async (signal) => {
    try {
      state.told = await get(pathOf("api", "rocketmq", "groups", name), {}, signal);
      state.isUnknown = false;
    } catch (error) {
      if (error.status !== 404) throw error;
      Object.assign(state, { told: null, isUnknown: true });
    }
  }, AGAIN_S);

  return () => {
    const { told } = state;
    if (!told) return [head(state), state.isUnknown ? unknown(name) : !page.error && loading()];
    return [head(state), warning(told.message), figures(told), members(state), queues(state), about(told)];
  };
}

function head({ page, name, told }) {
  return [
    trail(["RocketMQ", to.rocketmq({ tab: "groups" })], [name, to.rocketGroup(name)]),
    heading({
      kind: "Group",
      title: name,
      badges: told && [
        told.members.length === 0 && badge("offline", "", "It has no member"),
        verdictBadges(told.verdicts),
        told.model === "BROADCASTING" && badge("broadcast", "accent", "Each member gets every message"),
      ],
      tools: told && [resetButton(page, name, topicsOf(told)), groupActions(page, told)],
    }),
  ];
}

/** The topics in which a group has offsets; its retries are not for people to move. */
function topicsOf({ queues: all, subscriptions }) {
  const names = [...all, ...subscriptions].map(({ topic }) => topic);
  return [...new Set(names)].filter((topic) => !topic.startsWith("%RETRY%")).sort();
}

function unknown(name) {
  return empty(`There is no group ${name}`, "No broker knows it. See ",
    h("a", { href: to.rocketmq({ tab: "groups" }) }, "all groups"), ".");
}

function figures(told) {
  const oldest = told.queues.filter(({ lag, last_ms: ms }) => lag > 0 && ms > 0).map((each) => each.last_ms);
  return tiles(
    tile({ label: "Lag", value: count(told.lag), hint: `in ${many(told.queues.length, "queue")}` }),
    tile({ label: "Members", value: count(told.members.length), hint: told.type && typeOf(told) }),
    tile({ label: "Out", value: rate(told.tps), hint: "given to it by brokers" }),
    told.letters > 0 && tile({ label: "Dead letters", value: count(told.letters), kind: "warn",
      href: to.rocketTopic(`%DLQ%${told.group}`, { tab: "messages" }), hint: "kept of what it gave up" }),
    oldest.length > 0 && tile({ label: "Furthest behind", value: agoCell(Math.min(...oldest)),
      hint: "since its last message there was stored" }));
}

// --- members -------------------------------------------------------------------------------------

function members({ page, name, told }) {
  const sum = (figure) => (row) => row.topics?.reduce((total, each) => total + each[figure], 0);
  const columns = [
    { name: "client", title: "Client", cell: ({ client, orderly }) =>
      [client, orderly && [" ", badge("in order", "", "Handles each queue one message after the other")]] },
    { name: "address", title: "Address" },
    { name: "language", title: "Language", value: (row) => row.language.toLowerCase() },
    { name: "version", title: "Version", value: (row) => version(row.version) },
    number("queues", "Queues", "That it holds; unknown of one that does not say"),
    rateColumn("ok", "Handled", "Messages a second, as it says itself", sum("ok_rate")),
    rateColumn("failed", "Failed", "Messages a second, as it says itself", sum("failed_rate")),
    agoColumn("started_ms", "Started"),
  ];
  return section({ title: "Members", id: "members" }, table(page, {
    id: "members", columns, rows: told.members, key: (row) => row.client, sort: "client",
    filter: told.members.length > 8, totals: told.members.length > 1, caption: `Members of ${name}`,
    empty: empty("Nobody is there", told.lag > 0 ? "Messages wait until a member connects."
      : "Messages that come will wait until a member connects."),
  }));
}

// --- queues --------------------------------------------------------------------------------------

function queues({ page, name, told }) {
  const columns = [
    { name: "topic", title: "Topic", cell: ({ topic }) => topicLink(topic) },
    { name: "broker", title: "Broker" },
    queueColumn(),
    number("committed", "Committed", "The offset of the message that is consumed next", false),
    number("end", "End", "The offset that the next message will have", false),
    number("lag", "Lag"),
    agoColumn("last_ms", "Consumed up to", "When the message was stored that it has consumed last"),
    { name: "holder", title: "Held by", value: (row) => row.held?.client ?? "", cell: holder },
    { name: "cached", title: "Cached", hint: "Messages that the member has pulled and not finished",
      numeric: true, total: true, value: (row) => row.held?.cached },
  ];
  return section({ title: "Queues", id: "queues" }, table(page, {
    id: "queues", columns, rows: told.queues, sort: "-lag",
    key: ({ topic, broker, queue }) => `${topic} ${broker} ${queue}`,
    filter: told.queues.length > 8, totals: told.queues.length > 1,
    caption: `Queues of ${name}`,
    kind: ({ lag, held }) => (lag > 0 && !held && told.members.length > 0 ? "warn" : ""),
    empty: empty("No offsets", "The group has not committed an offset in any queue yet."),
  }));
}

function holder({ held, lag }) {
  if (!held) return lag > 0 ? badge("nobody", "warn") : "";
  return h("span", { title: `Pulled last: ${stampMs(held.pulled_ms || null)}` },
    held.client, held.locked && [" ", badge("locked", "accent", "Nobody else can consume it meanwhile")]);
}

// --- settings ------------------------------------------------------------------------------------

function about({ subscriptions, from_where: fromWhere, configs }) {
  const start = fromWhere.replace("CONSUME_FROM_", "").toLowerCase().replaceAll("_", " ");
  const retries = [...new Set(configs.map((each) => count(each.retries)))].join(", ");
  const wishes = subscriptions.map(({ topic, expression, type }) => [topic,
    [h("code", {}, expression), type !== "TAG" && ` (${type})`]]);
  const stopped = configs.filter(({ consumes }) => !consumes).map(({ broker }) => broker);
  return section({ title: "Subscriptions and settings", id: "about" }, facts([
    ...wishes,
    ["A new queue is begun at", start],
    ["Retries at most", retries],
    ["May broadcast", configs.some(({ broadcasts }) => !broadcasts) ? "no" : null],
    stopped.length > 0 && ["Must not consume from", badge(stopped.join(", "), "warn")],
  ]));
}
