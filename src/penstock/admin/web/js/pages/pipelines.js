/** All pipelines that have told the nodes how they are: state, rates, lag, batch time, errors. */

import { get } from "../core/api.js";
import { h } from "../core/dom.js";
import { ago, count, duration, rate } from "../core/format.js";
import { batchTime, lastError, pipelineLink, stateBadge, wayOf } from "../features/pipelines.js";
import { sparkline } from "../widgets/chart.js";
import { warning } from "../widgets/columns.js";
import { table } from "../widgets/table.js";
import { badge, empty, heading, loading } from "../widgets/ui.js";

export default function pipelines(page) {
  page.title = "Pipelines";
  let told = null;

  page.load(async (signal) => {
    told = await get("/api/pipelines", {}, signal);
  });

  return () => {
    if (!told) return [heading({ title: "Pipelines" }), !page.error && loading()];
    return [
      heading({ title: "Pipelines", badges: badge(count(told.pipelines.length)) }),
      warning(told.message),
      listed(page, told.pipelines),
    ];
  };
}

function listed(page, rows) {
  const hasBad = rows.some((row) => row.rows_bad);
  const hasState = rows.some((row) => row.state_rows);
  return table(page, {
    id: "pipelines",
    caption: "Spark's pipelines",
    columns: [
      { name: "name", title: "Pipeline", cell: pipelineLink },
      { name: "state", title: "State", cell: stateBadge },
      { name: "way", title: "Source → sink", cell: wayOf,
        value: ({ source, sink }) => `${source} ${sink}` },
      { name: "read_per_s", title: "In", hint: "Rows a second that it reads, of the last minute",
        numeric: true, total: true, format: rate },
      { name: "trend", title: "Last hour", hint: "Rows a second that it read", plain: true,
        cell: (row) => sparkline(row.trend, { title: `Rows that ${row.name} read` }) },
      { name: "written_per_s", title: "Out", hint: "Rows a second that it writes, of the last minute",
        numeric: true, total: true, format: rate },
      { name: "lag", title: "Lag", numeric: true, total: true,
        hint: "Messages that it has not read yet; before its first batch those of its group's log" },
      { name: "batch_ms", title: "Batch", hint: "Time of its last micro-batch", numeric: true,
        value: batchTime, format: duration, cell: (row) => row.batch < 0 ? h("span", { class: "faint" },
          "no batch yet") : duration(batchTime(row)) },
      rows.some((row) => row.restarts) && { name: "restarts", title: "Restarts", numeric: true,
        hint: "How often it began again since the nodes know of it",
        cell: ({ restarts, started }) => h("span", { title: `The last ${ago(started)}` }, count(restarts)) },
      hasState && { name: "state_rows", title: "State rows", numeric: true, total: true,
        hint: "Rows that its windows, joins and unique rows remember" },
      hasBad && { name: "rows_bad", title: "Bad", numeric: true, total: true,
        hint: "Rows in this run that did not parse" },
    ].filter(Boolean),
    rows,
    key: ({ id }) => id,
    kind: ({ state }) => (state === "failed" || state === "silent" ? "bad" : ""),
    detail: lastError,
    sort: "name",
    filter: rows.length > 5,
    empty: empty("No pipeline has reported yet",
      "One is here as soon as it starts, wherever Spark runs, if it reads from these nodes or writes to ",
      "them. ",
      h("code", { class: "code" }, "penstock pipeline init metrics && penstock pipeline run metrics.toml")),
  });
}
