/** The address bar: which page is shown, of what, and how. It holds all that a link should keep. */

import { pathOf, urlOf } from "./api.js";
import { isOfGroup } from "./inner.js";
import { settings } from "./settings.js";

const PAGES = {
  "": "overview",
  topics: "topics",
  nodes: "nodes",
  groups: "groups",
  pipelines: "pipelines",
  deadletters: "deadletters",
  counter: "counter",
  lookup: "lookup",
  rocketmq: "rocketmq",
};
const OF_ONE = {
  "topics/1": "topic",
  "topics/2": "channel",
  "nodes/1": "node",
  "pipelines/1": "pipeline",
  "deadletters/1": "deadletter",
};
const OF_ROCKETMQ = { topics: "rockettopic", groups: "rocketgroup" };

/** What the address bar says: the page's name, the names in its path, and its query as an object. */
export function place() {
  const path = location.pathname.slice(settings.basePath.length).replace(/^\/|\/$/g, "");
  const [first, ...names] = path.split("/").map(decoded);
  return { ...pageOf(first, names), query: Object.fromEntries(new URLSearchParams(location.search)) };
}

function pageOf(first, names) {
  if (first === "rocketmq" && names.length === 2) {
    return { page: OF_ROCKETMQ[names[0]] ?? "missing", names: names.slice(1) };
  }
  if (!first && settings.hasNodes === false) return { page: "rocketmq", names };
  const page = names.length ? OF_ONE[`${first}/${names.length}`] : PAGES[first];
  return { page: page ?? "missing", names };
}

function decoded(part) {
  try {
    return decodeURIComponent(part).replace(/^~(?=\.\.?$)/, "");
  } catch {
    return part;
  }
}

/** Addresses of pages, for links. */
export const to = {
  overview: () => settings.basePath || "/",
  topics: (query) => urlOf("/topics", query),
  // retries and dead letters have no page but RocketMQ's
  topic: (topic, query) => (settings.hasRocketmq && isOfGroup(topic) ? to.rocketTopic(topic, query)
    : urlOf(pathOf("topics", topic), query)),
  channel: (topic, channel, query) => urlOf(pathOf("topics", topic, channel), query),
  nodes: (query) => urlOf("/nodes", query),
  node: (node, query) => urlOf(pathOf("nodes", node), query),
  groups: (query) => urlOf("/groups", query),
  pipelines: () => urlOf("/pipelines"),
  pipeline: (id) => urlOf(pathOf("pipelines", id)),
  deadletters: () => urlOf("/deadletters"),
  deadletter: (topic, query) => urlOf(pathOf("deadletters", topic), query),
  counter: () => urlOf("/counter"),
  lookup: () => urlOf("/lookup"),
  rocketmq: (query) => urlOf("/rocketmq", query),
  rocketTopic: (topic, query) => urlOf(pathOf("rocketmq", "topics", topic), query),
  rocketGroup: (group, query) => urlOf(pathOf("rocketmq", "groups", group), query),
};

/** @type {(isNewPage: boolean) => void} */
let changed = () => {};
let path = location.pathname;

/** Calls `listener(isNewPage)` whenever the address changes; by its query alone it is the same page. */
export function listen(listener) {
  changed = (isNewPage) => {
    path = location.pathname;
    listener(isNewPage);
  };
  addEventListener("popstate", () => changed(location.pathname !== path));
  document.addEventListener("click", follow);
}

/** Goes to an address that `to` made. */
export function go(url) {
  history.pushState(null, "", url);
  scrollTo(0, 0);
  changed(true);
}

/** Changes parts of the query of this page; what is empty or null goes. Nothing is loaded again. */
export function setQuery(parts) {
  history.replaceState(null, "", withQuery(parts));
  changed(false);
}

/** The same, as a step that back takes back: to another tab, to the next messages. */
export function step(parts) {
  history.pushState(null, "", withQuery(parts));
  changed(false);
}

function withQuery(parts) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(parts)) {
    if (value === "" || value == null) query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  return location.pathname + (text ? "?" + text : "");
}

function follow(event) {
  const link = event.target.closest("a[href]");
  const isElsewhere = event.button || event.metaKey || event.ctrlKey || event.shiftKey;
  if (!link || event.defaultPrevented || isElsewhere) return;
  const isOurs = link.origin === location.origin && (link.pathname + "/").startsWith(settings.basePath + "/");
  const isFile = link.hasAttribute("download") || /\/(api|static|render)\//.test(link.pathname);
  if (!isOurs || link.target || isFile) return;
  event.preventDefault();
  if (link.href !== location.href) go(link.href);
}
