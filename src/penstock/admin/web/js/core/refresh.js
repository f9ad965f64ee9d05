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
const AGAIN_MS = 3_000;

/**
 * Follows the events of a wish ({topic, node, level: "topics" or "overview"}, each optional) until `stop()`;
 * `changed()` is called after each. `connected` is false while there is no stream, `isLost` is true
 * when it broke off; it is opened again, until then the figures stay. `at` is when they were taken
 * (unix seconds, 0 before the first); `message` are the server's warnings. `pause(true)` stops the
 * stream until `pause(false)`. While nobody sees the tab there is no stream either: over HTTP/1.1 a browser
 * has six connections to a server, for all tabs together.
 *
 * A row has topic, channel, node (empty: all of them), `depth`, `in`, `out`, `in_flight`,
 * `requeues`, `timeouts` (messages, messages a second) and `latencies` ([[quantile, ns]]). Those of
 * topics and channels have `clients` (consumers) and `paused` (0 or 1), those of topics how many
 * `channels`, and how many messages are `waiting` in the topic and its channels. `partial` are nodes
 * that do not answer and whose last figures are in the depth; `isPartial` says whether any row has some.
 * `missing` are all these nodes ([{node, at, until, depth}]: their last figures, when they are given up, the
 * messages that waited), `givenUp` those that were. `since` is when the figures begin (unix seconds).
 * `attention` is what is the matter with topics, channels and groups, as features/attention.js has it,
 * with `beyond` as many more. The overview has the rows of the cluster, of its nodes, of groups and of the
 * busiest topics.
 */
export function follow(wish, changed) {
  const rows = new Map();
  let source = null;
  let again = 0;
  let isWanted = true;
  const live = {
    at: 0,
    connected: false,
    isLost: false,
    message: "",
    since: 0,
    isPartial: false,
    missing: [],
    givenUp: [],
    attention: [],
    beyond: 0,
    row: (topic = "", channel = "", node = "") => rows.get([topic, channel, node].join(GAP)),
    rows: () => rows.values(),
    pause(isPaused) {
      isWanted = !isPaused;
      open();
    },
    stop() {
      document.removeEventListener("visibilitychange", open);
      close();
    },
  };

  function take(event) {
    const told = JSON.parse(event.data);
    if (event.type === "state") rows.clear();
    for (const [topic, channel, node] of told.gone) rows.delete([topic, channel, node].join(GAP));
    for (const values of told.rows) rows.set(values.slice(0, 3).join(GAP), rowOf(values, told));
    Object.assign(live, { at: told.time, since: told.since, message: told.message });
    Object.assign(live, { missing: told.missing, givenUp: told.given_up });
    Object.assign(live, { attention: told.attention, beyond: told.attention_more });
    live.isPartial = told.missing.length > 0 && [...rows.values()].some(({ partial }) => partial > 0);
    Object.assign(live, { connected: true, isLost: false });
    changed();
  }

  function lost() {
    Object.assign(live, { connected: false, isLost: true });
    // The browser connects again by itself, but not after an answer that is not a stream of events.
    if (source.readyState === EventSource.CLOSED) again = setTimeout(open, AGAIN_MS);
    changed();
  }

  function open() {
    close();
    if (!isWanted || document.hidden) return;
    source = new EventSource(urlOf("/api/events", wish));
    source.addEventListener("state", take);
    source.addEventListener("refresh", take);
    source.addEventListener("error", lost);
  }

  function close() {
    clearTimeout(again);
    source?.close();
    live.connected = false;
  }

  if (settings.historyInterval) {
    document.addEventListener("visibilitychange", open);
    open();
  } else live.pause = () => {};
  return live;
}

function rowOf(values, { figures, quantiles }) {
  const row = { topic: values[0], channel: values[1], node: values[2] };
  figures.forEach((figure, at) => (row[figure] = values[3 + at]));
  const latencies = values.slice(3 + figures.length);
  row.latencies = quantiles.map((quantile, at) => [quantile, latencies[at]]);
  return row;
}
