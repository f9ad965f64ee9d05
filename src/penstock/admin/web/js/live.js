/**
 * The newest figures of everything, as /api/events tells them: all rows first, then what changed.
 *
 *     const live = follow({ topic: "orders" }, redraw);
 *     live.row("orders", "bill")?.depth;
 *     live.stop();
 */

import { urlOf } from "./api.js";
import { settings } from "./settings.js";

const GAP = "\n";

/**
 * Follows the events of a wish ({topic, node, level: "topics"}, each optional) until `stop()`;
 * `changed()` is called after each. `connected` is false while there is no stream; `at` is when
 * the figures were taken (unix seconds, 0 before the first); `message` are the server's warnings.
 *
 * A row has topic, channel, node (empty: all of them), `depth`, `in`, `out`, `in_flight`,
 * `requeues`, `timeouts` (messages, messages a second) and `latencies` ([[quantile, ns]]).
 */
export function follow(wish, changed) {
  const rows = new Map();
  const live = {
    at: 0,
    connected: false,
    message: "",
    row: (topic = "", channel = "", node = "") => rows.get([topic, channel, node].join(GAP)),
    rows: () => rows.values(),
    stop: () => source?.close(),
  };
  if (!settings.historyInterval) return live;
  const source = new EventSource(urlOf("/api/events", wish));

  function take(event) {
    const told = JSON.parse(event.data);
    live.at = told.time;
    live.message = told.message;
    live.connected = true;
    for (const [topic, channel, node] of told.gone) rows.delete([topic, channel, node].join(GAP));
    for (const values of told.rows) rows.set(values.slice(0, 3).join(GAP), rowOf(values, told));
    changed();
  }

  source.addEventListener("state", (event) => {
    rows.clear();
    take(event);
  });
  source.addEventListener("refresh", take);
  source.addEventListener("error", () => {
    live.connected = false;
    changed();
  });
  return live;
}

function rowOf(values, { figures, quantiles }) {
  const row = { topic: values[0], channel: values[1], node: values[2] };
  figures.forEach((figure, at) => (row[figure] = values[3 + at]));
  const latencies = values.slice(3 + figures.length);
  row.latencies = quantiles.map((quantile, at) => [quantile, latencies[at]]);
  return row;
}
