/**
 * The past of something: its last hour, asked once and then kept up with what the page follows, or as much
 * as the address bar says in `range`.
 */

import { chart } from "../widgets/chart.js";
import { notice, section } from "../widgets/ui.js";
import { get } from "./api.js";
import { h } from "./dom.js";
import { setQuery } from "./router.js";
import { settings } from "./settings.js";

const HOUR_S = 3600;
const MINUTE_S = 60;
const FIGURES = ["depth", "in", "out", "in_flight", "requeues", "timeouts", "waiting", "partial"];
const PART_AGAIN_S = 60;
const AGAIN_S = 600;
const LOOKS_MAX = 2;
const GAP = 2.5;
const DAY_S = 24 * HOUR_S;
/** Of the ranges: the words of the title, and of the switch. */
const RANGES = { "1h": ["", "1 h"], "24h": ["The last 24 hours", "24 h"], "7d": ["The last 7 days", "7 days"],
  "30d": ["The last 30 days", "30 days"] };

const asked = new WeakMap(); // the range that a page has asked for

function rangeOf(page) {
  return settings.ranges.includes(page.query.range) ? page.query.range : "1h";
}

/**
 * The last hour of a topic, channel, node, of a topic or channel on a node, or of the cluster. The
 * channel `@name` is a group that reads the log. `page.follow(wish)` comes first, and must cover it.
 *
 * @returns {{topic: string, channel: string, node: string, isMissing: boolean, times: number[],
 *   depth: number[], in: number[], out: number[], in_flight: number[], requeues: number[],
 *   timeouts: number[], waiting: number[], partial: number[],
 *   latencies: {quantile: number, values: number[]}[]}}
 *   times in unix seconds; messages, messages a second, nanoseconds; null is not known. Lists are
 *   others after each change. `waiting` is the depth, of a topic with its channels; `partial` is more
 *   than 0 where last figures of nodes that did not answer are in it. `isMissing`: there is no history of
 *   this, or none at all.
 */
export function past(page, { topic = "", channel = "", node = "" } = {}) {
  const key = { topic, channel, node };
  /** @type {any} */
  const series = { ...key, isMissing: !settings.historyInterval, range: "1h", times: [], latencies: [] };
  for (const figure of FIGURES) series[figure] = [];
  const isPart = Boolean(topic && node);
  let isAsked = false;
  let isThere = false;
  let looks = 0;

  async function ask(signal) {
    const range = isPart ? "1h" : rangeOf(page);
    try {
      const told = await get("/api/history", { ...key, range }, signal);
      Object.assign(series, told, { isMissing: false, range });
    } catch (error) {
      if (error.status !== 404) throw error;
      series.isMissing = true;
    }
    isThere = true;
  }

  // What was made just now has no history yet, and what is gone has one: two looks tell them apart.
  page.listen(() => {
    if (!page.live.at) return;
    const row = page.live.row(topic, channel, isPart ? "" : node);
    if (isAsked) {
      if (isThere && !isPart && series.range === "1h") keepUp(series, page.live.at, row);
      return;
    }
    looks += 1;
    if (!row && looks <= LOOKS_MAX) return;
    isAsked = true;
    page.load(ask, isPart ? PART_AGAIN_S : AGAIN_S);
  });
  return series;
}

/**
 * A past whose newest point is what the page shows now, so that no chart has another value than the figure
 * beside it. `now` has figures by their names; those that are not known stay as they were looked at last.
 */
export function upToNow(past, now) {
  const shown = { ...past };
  if (past.range !== "1h") return shown;
  for (const figure of FIGURES) {
    if (now[figure] != null && past[figure].length) {
      shown[figure] = [...past[figure].slice(0, -1), now[figure]];
    }
  }
  return shown;
}

/** Adds a point at `time`, unless it is there already; a row that is gone has none of its figures. */
function keepUp(series, time, row) {
  const interval = settings.historyInterval;
  const last = series.times.at(-1) ?? time - interval;
  if (row) series.isMissing = false;
  if (series.isMissing || last >= time) return;
  if (time - last > GAP * interval) add(series, last + interval, undefined);
  add(series, time, row);
}

function add(series, time, row) {
  const { times } = series;
  const first = times.findIndex((each) => each > time - HOUR_S);
  const from = first < 0 ? times.length : first;
  const grown = (values, value) => [...values.slice(from), value ?? null];
  const latencies = new Map(row?.latencies);
  for (const { quantile } of series.latencies) if (!latencies.has(quantile)) latencies.set(quantile, null);
  series.latencies = [...latencies].map(([quantile, value]) => {
    const known = series.latencies.find((each) => each.quantile === quantile);
    return { quantile, values: grown(known?.values ?? times.map(() => null), value) };
  });
  for (const figure of FIGURES) series[figure] = grown(series[figure], row?.[figure]);
  series.times = grown(times, time);
}

/** How much of the last hour there is, in seconds, of something with a past. */
function spanOf({ times }) {
  return times.length > 1 ? times.at(-1) - times[0] : 0;
}

/** The section with the charts of a past, and the choice of how much of it. */
export function pastSection(page, past, id = "charts") {
  const range = rangeOf(page);
  if ((asked.get(page) ?? range) !== range) page.reload();
  asked.set(page, range);
  const look = { class: "choice", role: "group", "aria-label": "Time" };
  const tools = settings.historyInterval > 0 && h("div", look,
    settings.ranges.map((name) => h("button", {
      key: name, type: "button", "aria-pressed": String(name === range),
      onclick: () => setQuery({ range: name === "1h" ? null : name }),
    }, RANGES[name][1])));
  return section({ title: hourTitle(past), id, tools }, charts(past));
}

/** The title of a section with charts: "The last hour", or how much of it there is. */
export function hourTitle(past) {
  if (past.range && past.range !== "1h") return dayTitle(past);
  const span = past.isMissing ? 0 : spanOf(past);
  return span ? `The ${lastHour(span)}` : "The last hour";
}

function dayTitle(past) {
  const hours = Math.floor(spanOf(past) / HOUR_S);
  const isPartOfDay = past.range === "24h" && past.times.length > 0 && spanOf(past) < DAY_S - HOUR_S;
  if (isPartOfDay) return hours ? `The last ${hours} h of 24` : "The last hour of 24";
  return RANGES[past.range][0];
}

/** "last hour", or how much of it there is: "last 12 min". */
export function lastHour(seconds) {
  if (seconds >= HOUR_S - MINUTE_S) return "last hour";
  if (seconds < 2 * MINUTE_S) return `last ${Math.max(1, Math.floor(seconds))} s`;
  return `last ${Math.floor(seconds / MINUTE_S)} min`;
}

/** The title of a column of small lines, which show the time that nsqadmin has recorded: "Last 12 min". */
export function lineTitle({ at = 0, since = 0 } = {}) {
  const words = at && since ? lastHour(at - since) : "last hour";
  return words[0].toUpperCase() + words.slice(1);
}

/** The usual charts of a past, side by side; a remark when there is none. */
function charts(past) {
  if (past.isMissing) return notice("", absence());
  if (past.range === "24h" && !past.times.length) {
    return notice("", "The first point comes five minutes after nsqadmin has started.");
  }
  const isGroup = past.channel.startsWith("@");
  return h("div", { class: "charts" }, isGroup ? groupCharts(past) : usualCharts(past));
}

function absence() {
  return settings.historyInterval
    ? "There are no figures of the last hour."
    : "No charts: this nsqadmin keeps no history (--history-interval=0).";
}

function usualCharts(past) {
  const { times, partial } = past;
  return [
    chart({ title: "Backlog", unit: "messages", times, partial, series: [
      { name: "waiting", values: past.waiting },
      { name: "in flight", values: past.in_flight },
    ] }),
    chart({ title: "Traffic", unit: "rate", times, series: [
      { name: "in", values: past.in },
      { name: "out", values: past.out },
    ] }),
    chart({ title: "Retries", unit: "rate", times, series: [
      { name: "requeued", values: past.requeues, tone: "3" },
      { name: "timed out", values: past.timeouts, tone: "4" },
    ] }),
    hasLatency(past) && chart({ title: "Latency", unit: "ns", times, series: latencySeries(past) }),
  ];
}

function groupCharts({ times, depth, out, partial }) {
  return [
    chart({ title: "Lag", unit: "messages", times, partial, series: [{ name: "behind", values: depth }] }),
    chart({ title: "Read", unit: "rate", times, series: [{ name: "read", values: out, tone: "2" }] }),
  ];
}

function hasLatency({ latencies }) {
  return latencies.some(({ values }) => values.some((value) => value > 0));
}

function latencySeries({ latencies }) {
  return latencies.map(({ quantile, values }, at) =>
    ({ name: `p${Number((quantile * 100).toPrecision(6))}`, values, tone: String(at + 4) }));
}
