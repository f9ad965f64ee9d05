/** The palette: goes to any topic, channel, node or page by typing a part of its name. */

import { get, pathOf } from "../core/api.js";
import { h, render } from "../core/dom.js";
import { LINKS } from "../core/links.js";
import { go, to } from "../core/router.js";
import { settings } from "../core/settings.js";
import { opened } from "../widgets/dialog.js";
import { icon } from "../widgets/icons.js";
import { keys } from "../widgets/ui.js";
import { addressOf } from "./nodes.js";

const SHOWN_MAX = 60;
const ASKED_MAX = 3;
const PAUSE_MS = 120;
const KINDS = ["page", "topic", "channel", "node"];
const GROUPS = ["%RETRY%", "%DLQ%"];

let isOpen = false;

/** Opens the palette over a page; what the page's live figures know of channels is found as well. */
export async function openPalette(page) {
  if (isOpen) return;
  isOpen = true;
  const state = { wish: "", at: 0, places: new Map(), found: [], problem: "", isLoading: true };
  const dialog = document.createElement("dialog");
  dialog.className = "palette";
  dialog.setAttribute("aria-label", "Search");
  const draw = () => {
    state.found = matches([...state.places.values()], state.wish);
    state.at = Math.min(state.at, Math.max(state.found.length - 1, 0));
    render(dialog, view(state, { type, press, choose }));
  };

  function type(wish) {
    Object.assign(state, { wish, at: 0 });
    draw();
    askForChannels(state, draw);
  }

  function choose(place, isElsewhere) {
    dialog.close();
    if (isElsewhere) open(place.href);
    else go(place.href);
  }

  function press(event) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
    if (step) {
      event.preventDefault();
      const end = state.found.length - 1;
      const next = state.at + step;
      state.at = Math.abs(step) === 1 && end > 0 ? (next + end + 1) % (end + 1) : clamped(next, end);
      draw();
      dialog.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter" && state.found[state.at]) {
      event.preventDefault();
      choose(state.found[state.at], event.ctrlKey || event.metaKey);
    }
  }

  addPages(state.places);
  addLive(state.places, page);
  addNames(state).then(() => {
    if (!isOpen) return;
    draw();
    askForChannels(state, draw);
  });
  draw();
  await opened(dialog);
  isOpen = false;
}

function clamped(at, end) {
  return Math.max(0, Math.min(at, end));
}

// --- what there is to go to ----------------------------------------------------------------------

function add(places, kind, name, href, where = "") {
  places.set(`${kind} ${name}`, { kind, name, href, where });
}

function addPages(places) {
  for (const [, title, url, key] of LINKS) add(places, "page", title, url(), `g ${key}`);
}

function addChannel(places, topic, channel) {
  add(places, "channel", `${topic}/${channel}`, to.channel(topic, channel));
}

function addLive(places, page) {
  for (const { topic, channel, node } of page.live?.rows() ?? []) {
    if (node || !topic || channel.startsWith("@")) continue;
    if (channel) addChannel(places, topic, channel);
    else add(places, "topic", topic, to.topic(topic));
  }
}

async function addNames(state) {
  const asked = [
    ...(settings.hasNodes === false ? [] : addNodes(state)),
    settings.hasRocketmq && addRocketmq(state),
  ];
  /** @type {any[]} */
  const ended = await Promise.allSettled(asked);
  const problem = ended.find(({ reason }) => reason);
  Object.assign(state, { isLoading: false, problem: problem?.reason.message ?? "" });
}

/** RocketMQ's topics are apart from NSQ's of the same name: they have other pages. */
async function addRocketmq({ places }) {
  const { topics } = await get("/api/rocketmq/topics", { names: "true" });
  for (const topic of topics) {
    places.set(`rocketmq ${topic}`,
      { kind: "topic", name: topic, href: to.rocketTopic(topic), where: "RocketMQ topic" });
    const prefix = GROUPS.find((each) => topic.startsWith(each));
    const group = prefix && topic.slice(prefix.length);
    if (group) {
      places.set(`group ${group}`,
        { kind: "channel", name: group, href: to.rocketGroup(group), where: "RocketMQ group" });
    }
  }
}

function addNodes(state) {
  const topics = get("/api/topics").then(({ topics }) => {
    for (const topic of topics ?? []) add(state.places, "topic", topic, to.topic(topic));
  });
  const nodes = get("/api/nodes", { topics: "false" }).then(({ nodes }) => {
    for (const node of nodes ?? []) {
      const address = addressOf(node);
      add(state.places, "node", address, to.node(address), node.hostname);
    }
  });
  return [topics, nodes];
}

const isNsqTopic = ({ kind, where }) => kind === "topic" && !where;

/** No list names all channels: those of the topics that match best are asked for when typing pauses. */
function askForChannels(state, draw) {
  clearTimeout(state.timer);
  const names = state.wish.split("/")[0];
  if (!names.trim()) return;
  state.asked ??= new Set();
  state.timer = setTimeout(async () => {
    const topics = matches([...state.places.values()], names).filter(isNsqTopic);
    const next = topics.slice(0, ASKED_MAX).map(({ name }) => name).filter((name) => !state.asked.has(name));
    next.forEach((name) => state.asked.add(name));
    await Promise.allSettled(next.map(async (topic) => {
      const { channels } = await get(pathOf("api", "topics", topic));
      for (const { channel_name: channel } of channels ?? []) addChannel(state.places, topic, channel);
    }));
    if (isOpen && next.length) draw();
  }, PAUSE_MS);
}

// --- what of it is meant -------------------------------------------------------------------------

/** The places whose names have every word of `wish`, the best ones first. */
export function matches(places, wish) {
  const words = wish.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [];
  for (const place of places) {
    const name = place.name.toLowerCase();
    if (words.every((word) => name.includes(word))) found.push([rank(name, words[0] ?? ""), place]);
  }
  found.sort(([a, one], [b, two]) =>
    a - b
    || KINDS.indexOf(one.kind) - KINDS.indexOf(two.kind)
    || (words.length ? one.name.length - two.name.length : 0)
    || (one.kind === "page" ? 0 : one.name.localeCompare(two.name)));
  return found.slice(0, SHOWN_MAX).map(([, place]) => place);
}

/** 0: this is the name, 1: it begins so, 2: a word in it does, 3: it is somewhere in it. */
function rank(name, word) {
  if (name === word) return 0;
  const at = name.indexOf(word);
  if (at === 0) return 1;
  return /[^a-z0-9]/.test(name[at - 1]) ? 2 : 3;
}

// --- what is seen --------------------------------------------------------------------------------

function view(state, { type, press, choose }) {
  const { found, at, wish } = state;
  return [
    h("input", {
      class: "palette-input", type: "text", value: wish, placeholder: "Go to a topic, channel, node or page",
      autofocus: true, autocomplete: "off", spellcheck: "false", "aria-label": "Go to", role: "combobox",
      "aria-expanded": String(found.length > 0), "aria-autocomplete": "list",
      "aria-controls": found.length ? "palette-list" : null,
      "aria-activedescendant": found.length ? `place-${at}` : null,
      oninput: (event) => type(event.target.value), onkeydown: press,
    }),
    found.length > 0 && h("ul", {
      class: "palette-list", id: "palette-list", role: "listbox", "aria-label": "Places",
    }, found.map((place, index) => h("li", {
      class: "palette-item", id: `place-${index}`, role: "option", "aria-selected": String(index === at),
      onclick: (event) => choose(place, event.ctrlKey || event.metaKey),
    },
    icon(place.kind),
    h("span", { class: "name" }, marked(place.name, wish)),
    h("span", { class: "where" }, place.where || place.kind)))),
    found.length === 0 && h("p", { class: "palette-none", role: "status" },
      state.isLoading ? "Loading names" : `Nothing is called “${wish}”`),
    h("div", { class: "palette-foot" },
      state.problem && h("span", { class: "warn" }, `Not all names are known: ${state.problem}`),
      h("span", {}, keys("↑", "↓"), " choose"),
      h("span", {}, keys("Enter"), " go"),
      h("span", {}, keys("Ctrl", "Enter"), " in a new tab"),
      h("span", {}, keys("Esc"), " close")),
  ];
}

/** The name, with the first word of the wish marked in it. */
function marked(name, wish) {
  const word = wish.trim().split(/\s+/)[0].toLowerCase();
  const at = word ? name.toLowerCase().indexOf(word) : -1;
  if (at < 0) return name;
  const end = at + word.length;
  return [name.slice(0, at), h("mark", {}, name.slice(at, end)), name.slice(end)];
}
