/** One pipeline: how it is, how it was in the last hour, and what it does. */

import { get, pathOf } from "../core/api.js";
import { h } from "../core/dom.js";
import { ago, bytes, count, duration, rate, seconds, short } from "../core/format.js";
import { hourTitle } from "../core/last_hour.js";
import { to } from "../core/router.js";
import { batchTime, stateBadge } from "../features/pipelines.js";
import { chart } from "../widgets/chart.js";
import { nodeLink, warning } from "../widgets/columns.js";
import { empty, facts, heading, loading, notice, section, tile, tiles, trail } from "../widgets/ui.js";

export default function pipeline(page) {
  const [id] = page.names;
  page.title = "Pipeline";
  let told = null;
  let isUnknown = false;

  page.load(async (signal) => {
    try {
      told = await get(pathOf("api", "pipelines", id), {}, signal);
      isUnknown = false;
    } catch (error) {
      if (error.status !== 404) throw error;
      isUnknown = true;
    }
    page.title = told?.name ?? "Pipeline";
  });

  return () => {
    if (isUnknown && !told) return [top(null, id), unknown()];
    if (!told) return [top(null, id), !page.error && loading()];
    return [
      top(told, id),
      warning(told.message),
      isUnknown && notice("warn", "The nodes have forgotten it: these are its last figures."),
      told.error && lastError(told),
      figures(told),
      section({ title: hourTitle(told.history ?? { times: [] }), id: "charts" }, charts(upToNow(told))),
      section({ title: "What it does", id: "about" }, described(told)),
    ];
  };
}

function top(told, id) {
  const name = told?.name ?? id;
  return [
    trail(["Pipelines", to.pipelines()], [name, to.pipeline(id)]),
    heading({ title: name, badges: told && stateBadge(told) }),
  ];
}

function unknown() {
  return empty("No node knows this pipeline",
    "Nodes forget one that tells nothing for a day, and all of them when they restart.");
}

function lastError({ state, error, error_at }) {
  const since = { running: " It has run since.", stopped: " It has run since.",
    starting: " It has begun again since." }[state];
  return notice(since ? "warn" : "bad",
    h("b", {}, `${since ? "Last error" : "Error"}, ${ago(error_at)}. `), error,
    since);
}

function figures(told) {
  const isFirst = told.batch < 0;
  return tiles(
    tile({ label: "In", value: rate(told.read_per_s), hint: `${short(told.rows_read)} rows in this run` }),
    tile({ label: "Out", value: rate(told.written_per_s),
      hint: `${short(told.rows_written)} rows in this run` }),
    tile({ label: "Lag", value: count(told.lag),
      hint: told.lag === null ? "known with the first batch" : "messages not read yet" }),
    tile({ label: "Batch time", value: isFirst ? null : duration(batchTime(told)),
      hint: isFirst ? "no batch yet" : `batch ${count(told.batch)}, ${count(told.batch_rows)} rows` }),
    tile({ label: "State", value: count(told.state_rows),
      hint: told.state_rows ? `rows, ${bytes(told.state_bytes)}` : "rows remembered" }),
    tile({ label: "Restarts", value: count(told.restarts), kind: told.restarts ? "warn" : "",
      hint: told.restarts ? `the last ${ago(told.started)}` : "since the nodes know of it" }),
    tile({ label: "Did not parse", value: count(told.rows_bad), kind: told.rows_bad ? "warn" : "",
      hint: "rows in this run" }));
}

/** Its past, whose newest point is what the figures above say. */
function upToNow({ history, ...told }) {
  if (!history?.times.length) return history;
  const now = { ...told, batch_ms: told.batch < 0 ? null : told.batch_ms };
  const shown = Object.entries(history).map(([name, values]) =>
    [name, name === "times" ? values : [...values.slice(0, -1), now[name]]]);
  return Object.fromEntries(shown);
}

function charts(history) {
  if (!history) return notice("", "No charts: this nsqadmin keeps no history (--history-interval=0).");
  const { times } = history;
  const ns = (values) => values.map((ms) => ms === null ? null : ms * 1e6);
  return h("div", { class: "charts" },
    chart({ title: "Traffic", unit: "rows/s", times, series: [
      { name: "in", values: history.read_per_s },
      { name: "out", values: history.written_per_s },
    ] }),
    chart({ title: "Lag", unit: "messages", times, series: [{ name: "behind", values: history.lag }] }),
    chart({ title: "Batch time", unit: "ns", times, series: [
      { name: "last batch", values: ns(history.batch_ms), tone: "2" }] }),
    chart({ title: "State", unit: "rows", times, series: [
      { name: "remembered", values: history.state_rows, tone: "3" }] }));
}

function described(told) {
  const known = (names, shown) => (names.length ? names.flatMap((name, at) =>
    at ? [", ", shown(name)] : [shown(name)]) : null);
  const topics = [...new Set(told.groups.map(([topic]) => topic))];
  const groups = [...new Set(told.groups.map(([, group]) => group))];
  return [
    facts([
      ["Source", told.source],
      ["Sink", told.sink],
      ["Reads", known(topics, (topic) => h("a", { href: to.topic(topic) }, topic))],
      ["Group", known(groups, (group) =>
        h("a", { href: to.groups({ "groups.find": group }) }, group))],
      ["This run began", told.started ? `${ago(told.started)}, ${count(told.batches)} batches` : null],
      ["Last report", `${seconds(told.age)} ago`],
      ["Nodes", known(told.nodes, (node) => nodeLink({ node }))],
      ["Query", h("span", { class: "mono" }, told.id)],
    ]),
    told.sql && h("pre", { class: "sql", tabindex: "0", "aria-label": "SQL" }, dedented(told.sql)),
  ];
}

/** SQL of a file is indented with the file's. */
function dedented(sql) {
  const lines = sql.replace(/^\s*\n|\s+$/g, "").split("\n");
  const indents = lines.filter((line) => line.trim()).map((line) => line.search(/\S/));
  return lines.map((line) => line.slice(Math.min(...indents))).join("\n");
}
