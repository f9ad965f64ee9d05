/** The tab with messages of a RocketMQ topic: the newest, or those with a key, an id, a place, a time. */

import { get, post } from "../../core/api.js";
import { h } from "../../core/dom.js";
import { count, localTime } from "../../core/format.js";
import { step } from "../../core/router.js";
import { settings } from "../../core/settings.js";
import { ask, tell } from "../../widgets/dialog.js";
import { filterBox, messageList } from "../../widgets/list.js";
import { badge, button, empty, loading, notice } from "../../widgets/ui.js";
import { many } from "../consequences.js";
import { fates } from "./fate.js";
import { stampMs } from "./parts.js";

const WAYS = { newest: "Newest", key: "Key", id: "Id", offset: "Offset", time: "Time" };
const FIELDS = ["key", "id", "broker", "queue", "offset", "begin", "end"];
const COLUMNS = [
  { name: "place", title: "Queue offset", cell: ({ broker, queue, place }) =>
    h("span", { title: `${broker}, queue ${queue}` }, `${queue}: ${count(place)}`) },
  { name: "time", title: "Stored", wide: true, cell: ({ stored_ms: ms }) => stampMs(ms) },
  { name: "tags", title: "Tag", cell: ({ tags }) => tags && badge(tags) },
  { name: "keys", title: "Keys", wide: true, cell: ({ keys }) => keys.join(" ") },
];

/** @returns {() => object} the view; `topic` is the page's state: its `name`, and `told` of the API */
export function rocketMessages(page, topic) {
  const state = { page, topic, typed: {}, way: wayOf(page.query), asked: null, told: null, problem: "" };
  const list = messageList(page, {
    topic: topic.name, node: () => "", caption: `Messages of ${topic.name}`, columns: COLUMNS, details,
    more: fates(page, topic.name),
    canSelect: settings.isAdmin,
  });
  return () => {
    look(state);
    return h("div", { class: "browse" },
      tools(state),
      state.problem && notice("warn", state.problem.replace(/^WARNING: /, "")),
      !state.told ? !state.problem && loading() : state.told.messages.length === 0 ? nothing(state)
        : [list.view(state.told.messages), foot(state, list)]);
  };
}

function wayOf(query) {
  const way = ["key", "id", "offset"].find((name) => query[name]);
  return way ?? (query.begin || query.end ? "time" : "newest");
}

function wishOf({ page: { query }, topic: { name } }) {
  return { topic: name, ...Object.fromEntries(FIELDS.map((field) => [field, query[field]])) };
}

/** Asks for what the address bar says, once. */
async function look(state, isAgain = false) {
  const wish = wishOf(state);
  const asked = JSON.stringify(wish);
  if (asked === state.asked && !isAgain) return;
  Object.assign(state, { asked, problem: "", way: wayOf(state.page.query) });
  if (!isAgain) state.told = null;
  let found = {};
  try {
    const told = await get("/api/rocketmq/messages", wish);
    found = { told: { ...told, messages: told.messages.map(listed) }, problem: told.message };
  } catch (error) {
    found = { problem: error.message };
  }
  if (asked !== state.asked) return;
  Object.assign(state, found);
  state.page.redraw();
}

/** As widgets/list.js knows messages: by an id that no other has, which the address has for an open one. */
function listed(message) {
  return { ...message, unique: message.id, id: message.offset_id, offset: message.offset_id,
    place: message.offset };
}

function details({ unique, offset_id: offsetId, origin, topic, keys, tags, properties, ...message }) {
  return [
    ["Message id", unique],
    ["Id of the broker", offsetId],
    ["Sent to", origin !== topic && origin],
    ["Keys", keys.join(" ")],
    ["Tag", tags],
    ["Stored", `${stampMs(message.stored_ms)} by ${message.broker}, ${message.store_host}`],
    ["Born", `${stampMs(message.born_ms)} at ${message.born_host}`],
    ["Tried before", message.reconsume_times > 0 && count(message.reconsume_times)],
    ...Object.entries(properties).filter(([name]) => !["KEYS", "TAGS", "UNIQ_KEY"].includes(name)),
  ].filter((pair) => pair[1]);
}

// --- what is looked for --------------------------------------------------------------------------

function tools(state) {
  const { page, way } = state;
  const choose = (name) => {
    state.way = name;
    if (name === "newest") go(state, {});
    else page.redraw();
  };
  return h("div", { class: "table-tools" },
    h("div", { class: "choice", role: "group", "aria-label": "Find by" },
      Object.entries(WAYS).map(([name, title]) => h("button", {
        key: name, type: "button", "aria-pressed": String(way === name), onclick: () => choose(name),
      }, title))),
    way === "newest" ? button("Look again", { onclick: () => look(state, true) }) : form(state),
    state.told?.messages.length > 1 && filterBox(page));
}

function form(state) {
  const submit = (event) => {
    event.preventDefault();
    /** @type {Record<string, any>} */
    const given = Object.fromEntries(new FormData(event.target).entries());
    for (const name of ["begin", "end"]) if (given[name]) given[name] = new Date(given[name]).getTime();
    go(state, given);
  };
  return h("form", { class: "form", key: state.way, onsubmit: submit },
    PARTS[state.way](state), button("Find", { kind: "primary", type: "submit" }));
}

const PARTS = {
  key: (state) => input(state, "key", "Key", { required: true }),
  id: (state) => input(state, "id", "Message id", { required: true }),
  offset: (state) => [queueFields(state),
    input(state, "offset", "Offset", { required: true, inputmode: "numeric", pattern: "[0-9]{1,18}" })],
  time: (state) => [timeField(state, "begin", "From", Date.now() - 3_600_000), timeField(state, "end", "to")],
};

function queueFields({ topic: { told }, page: { query } }) {
  const brokers = told.brokers.map(({ broker }) => broker);
  const queues = Math.max(...told.queues.map(({ queue }) => queue + 1), 1);
  return [
    brokers.length > 1 && pick("broker", "Broker", ["", ...brokers], query.broker),
    pick("queue", "Queue", ["", ...Array.from({ length: queues }, (_, each) => String(each))], query.queue),
  ];
}

function pick(name, title, values, chosen = "") {
  return h("label", { class: "pick" }, `${title} `,
    h("select", { class: "input", name }, values.map((value) =>
      h("option", { key: value, value, selected: value === chosen }, value || "any"))));
}

function input({ page: { query } }, name, title, more) {
  return h("input", { class: "input", type: "text", name, placeholder: title, "aria-label": title,
    autocomplete: "off", spellcheck: "false", onmount: (element) => void (element.value = query[name] ?? ""),
    ...more });
}

function timeField({ page: { query } }, name, title, otherwise = null) {
  const ms = query[name] ? Number(query[name]) : otherwise;
  return h("label", { class: "pick" }, `${title} `, h("input", { class: "input", type: "datetime-local",
    step: "1", name, onmount: (element) => void (element.value = ms ? localTime(ms) : "") }));
}

function go(state, given) {
  const parts = Object.fromEntries(FIELDS.map((name) => [name, given[name] ?? null]));
  step({ ...parts, open: null, find: null });
  look(state, true);
}

function nothing({ topic: { name }, way }) {
  if (way === "newest") return empty("The topic is empty", "Nothing is kept of it at present.");
  return empty(`Nothing in ${name} was found so`, way === "key"
    ? "A key is what the producer gave the message, whole and in the same case." : "");
}

// --- what is done with them ----------------------------------------------------------------------

function foot(state, list) {
  const { messages, next_ms: next } = state.told;
  const chosen = list.selected(messages);
  const title = chosen.length ? `Send ${many(chosen.length, "message")} again` : "Send again";
  return h("div", { class: "pager" },
    settings.isAdmin && button(title, { disabled: !chosen.length, onclick: () => resend(state, chosen) }),
    h("span", { class: "faint" }, many(messages.length, "message")),
    next != null && button("Later ›", {
      onclick: () => go(state, { ...wishOf(state), begin: String(next) }),
    }));
}

function resend({ topic: { name, told } }, chosen) {
  const target = told.group ? `group ${told.group} alone, as a first try`
    : `topic ${name}, where every group gets it`;
  return ask({
    title: `Send ${many(chosen.length, "message")} again?`,
    body: `A copy goes to ${target}. What is here stays: brokers delete no single message.`,
    action: "Send again",
    run: async () => {
      const body = { action: "resend", topic: name, ids: chosen.map(({ offset_id: id }) => id) };
      const { sent, not_found: missing, message } = await post("/api/rocketmq/messages", body);
      const gone = missing.length ? `; ${many(missing.length, "message")} not found any more` : "";
      const text = `${many(sent.length, "message")} sent${gone}`;
      if (!message && !missing.length) return `${text}.`;
      tell(`${text}. ${message.replace("WARNING: ", "")}`, "warn");
      return "";
    },
  });
}
