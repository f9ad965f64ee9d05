/** Graphite's images, where nsqadmin knows a graphite; their keys are those of Go's nsqadmin. */

import { get } from "../core/api.js";
import { h } from "../core/dom.js";
import { setQuery } from "../core/router.js";
import { settings } from "../core/settings.js";
import { section } from "./ui.js";

const TIMEFRAMES = ["1h", "2h", "12h", "24h", "48h", "168h", "off"];
const DEFAULT = "2h";
const KEPT = "graphite timeframe";
const COUNTERS = new Set(["requeue_count", "timeout_count", "message_count", "gc_runs"]);
const NS_TO_MS = "0.000001";
const SMOOTHED = 45;
const ASKED_AT_ONCE = 6;

const TOPIC_GRAPHS = [["depth", "Depth"], ["message_count", "Messages"]];
const CHANNEL_GRAPHS = [
  ["depth", "Depth"], ["in_flight_count", "In flight"], ["deferred_count", "Deferred"],
  ["requeue_count", "Requeued"], ["timeout_count", "Timed out"], ["message_count", "Messages"],
  ["clients", "Connections"],
];
const NODE_GRAPHS = [
  ["*_bytes", "Heap"], ["gc_pause_*", "Pauses for garbage"], ["gc_runs", "Collections of garbage"],
  ["heap_objects", "Objects"],
];
const ALL_GRAPHS = [["message_count", "Messages of all channels"]];

/** How far back images reach: `?t=`, or what was chosen last in this browser; "off": there are none. */
export function timeframe(page) {
  if (!settings.graphite.enabled) return "off";
  return [page.query.t, remembered()].find((each) => TIMEFRAMES.includes(each)) ?? DEFAULT;
}

function remembered() {
  try {
    return localStorage.getItem(KEPT);
  } catch {
    return null;
  }
}

function remember(frame) {
  try {
    localStorage.setItem(KEPT, frame);
  } catch {
    // storage is refused or full: the address bar has it
  }
}

/** The menu of time frames; null without a graphite. */
export function timeframeMenu(page) {
  if (!settings.graphite.enabled) return null;
  const choose = (event) => {
    remember(event.target.value);
    setQuery({ t: event.target.value });
  };
  return h("label", { class: "timeframe" }, "Graphite ",
    h("select", { class: "input", value: timeframe(page), onchange: choose },
      TIMEFRAMES.map((each) => h("option", { key: each, value: each }, each))));
}

/**
 * The images of a topic, channel or node, or of the whole cluster when none is named, as a section
 * with its menu; null without a graphite.
 *
 * @param {any} page
 * @param {{topic?: string, channel?: string, node?: string, latency?: any}} what  node is such as
 *   "host:4151"; latency: what the API calls e2e_processing_latency
 */
export function graphs(page, what) {
  if (!settings.graphite.enabled) return null;
  const frame = timeframe(page);
  const images = [];
  if (frame !== "off") {
    for (const [key, title] of graphsOf(what)) images.push(image(targets(what, key), key, title, frame));
    const latency = latencyTargets(what);
    if (latency.length) images.push(image(latency, "e2e_processing_latency", "Latency in ms", frame));
  }
  return section({ title: "Graphite", id: "graphite", tools: timeframeMenu(page) },
    h("div", { class: "charts" }, images));
}

/** A small image of one key ("depth", "message_count", ...) for a table; null without a graphite. */
export function smallGraph(page, what, key) {
  const frame = timeframe(page);
  if (frame === "off") return null;
  const url = imageUrl(targets(what, key), frame, {
    width: "120", height: "20", hideGrid: "true", hideLegend: "true", hideAxes: "true",
    fgcolor: "black", margin: "0", colorList: colours(what, key),
  });
  return h("img", { class: "graphite-small", src: url, alt: "", width: 120, height: 20, loading: "lazy" });
}

/**
 * The rates that graphite knows of topics, in messages a second, asked a few at a time: "12.34", or
 * "N/A". `tell(topic, rate)` is called for each, as they come.
 */
export async function rates(topics, tell, signal) {
  const left = [...topics];
  const ask = async () => {
    for (let topic = left.shift(); topic !== undefined && !signal.aborted; topic = left.shift()) {
      const [target] = targets({ topic, node: "*" }, "message_count");
      const answer = await get("/api/graphite", { metric: "rate", target }, signal).catch(() => null);
      tell(topic, answer?.rate ?? "N/A");
    }
  };
  await Promise.all(Array.from({ length: ASKED_AT_ONCE }, ask));
}

// --- what is asked for ---------------------------------------------------------------------------

/**
 * @param {{topic?: string, channel?: string, node?: string, latency?: any}} what
 */
function graphsOf({ topic, channel, node }) {
  if (channel) return CHANNEL_GRAPHS;
  if (topic) return TOPIC_GRAPHS;
  return node ? NODE_GRAPHS : ALL_GRAPHS;
}

/**
 * The series of a key, as graphite names them.
 *
 * @param {{topic?: string, channel?: string, node?: string}} what
 * @param {string} key
 */
export function targets({ topic, channel, node }, key) {
  const prefix = prefixOf(node || "*");
  if (topic) {
    const of = channel ? `${clean(topic)}.channel.${clean(channel)}` : clean(topic);
    return [`sumSeries(${formatted(key, `${prefix}topic.${of}.${key}`)})`];
  }
  if (!node) return [`sumSeries(${formatted(key, `${prefix}topic.*.channel.*.${key}`)})`];
  const name = `${prefix}mem.${key}`;
  return [formatted(key, key === "gc_runs" ? `movingAverage(${name},${SMOOTHED})` : name)];
}

/**
 * @param {{topic?: string, channel?: string, node?: string, latency?: any}} what
 */
function latencyTargets({ topic, channel, node, latency }) {
  const of = channel ? `${topic}.channel.${channel}` : topic;
  return (latency?.percentiles ?? []).map(({ quantile }) => {
    const name = `${prefixOf(node || "*")}topic.${of}.e2e_processing_latency_${quantile * 100}`;
    const series = node ? name : `averageSeries(${name})`;
    return `scale(${formatted("e2e_processing_latency", series)},${NS_TO_MS})`;
  });
}

function prefixOf(host) {
  const prefix = settings.graphite.prefix.replaceAll("%s", () => host.replace(/[.:]/g, "_"));
  return prefix.endsWith(".") ? prefix : prefix + ".";
}

function formatted(key, name) {
  const { counterFormat, gaugeFormat } = settings.graphite;
  return (COUNTERS.has(key) ? counterFormat : gaugeFormat).replaceAll("%s", () => name);
}

/** What statsdaemon makes of names. */
function clean(name) {
  return name.replaceAll(" ", "_").replaceAll("/", "-").replace(/[^a-zA-Z0-9\-_.]/g, "");
}

/**
 * @param {{topic?: string, channel?: string, node?: string, latency?: any}} what
 * @param {string} key
 */
function colours({ topic, node }, key) {
  if (topic) return key === "depth" || key === "deferred_count" ? "red" : "blue";
  return node ? "red,green,blue,purple" : "green";
}

function image(series, key, title, frame) {
  const { interval } = settings.graphite;
  const scaled = COUNTERS.has(key) ? series.map((each) => `scale(${each},${1 / interval})`) : series;
  const what = key === "e2e_processing_latency" ? { node: key } : { topic: key };
  const look = { width: "800", height: "450", fgcolor: "999999", colorList: colours(what, key) };
  const url = imageUrl(scaled, frame, look);
  const img = h("img", { class: "graphite", src: url, alt: title, loading: "lazy" });
  return h("figure", { class: "chart", key: title },
    h("figcaption", {}, h("span", { class: "chart-title" }, title)),
    h("a", { href: url, target: "_blank" }, img));
}

function imageUrl(series, frame, look) {
  const { url, interval } = settings.graphite;
  const query = new URLSearchParams({
    ...look, bgcolor: "ff000000", yMin: "0", lineMode: "connected", drawNullAsZero: "false",
    from: `-${frame}`, until: "-1min",
  });
  for (const each of series) query.append("target", `summarize(${each},"${interval}sec","avg")`);
  // The same address would be the same image for ever.
  query.set("_uniq", String(Math.floor(Date.now() / 1000 / (interval || 1))));
  return `${url}/render?${query}`;
}
