/** Rates of counters that only the page's own loads tell: of each node, of each consumer. */

const STEADY_S = 12;

/**
 * Remembers what counters were, to tell how fast they grow. One that went back begins at 0.
 *
 *     const speeds = measure();
 *     speeds.take([["127.0.0.1:4151", 1200]]);
 *     speeds.of("127.0.0.1:4151");   // messages a second over the last loads, null at first
 */
export function measure(now = () => performance.now() / 1000) {
  let counters = new Map();
  return {
    /** Pairs of a key and its count, of all that are there now. */
    take(pairs) {
      const at = now();
      const kept = counters;
      counters = new Map();
      for (const [key, value] of pairs) {
        const past = kept.get(key)?.filter((point) => at - point.at < STEADY_S) ?? [];
        const isGrowing = past.every((point) => point.value <= value);
        counters.set(key, [...(isGrowing ? past : []), { at, value }]);
      }
    },
    of(key) {
      const past = counters.get(key) ?? [];
      if (past.length < 2) return null;
      const [first, last] = [past[0], past.at(-1)];
      return last.at > first.at ? (last.value - first.value) / (last.at - first.at) : null;
    },
  };
}

/**
 * How fast messages come to topics and channels and leave them. All of it is measured between the page's own
 * loads, node by node, so that a sum and its parts are of the same moment.
 *
 *     const flows = flow();
 *     flows.take(queuesOf(stats));
 *     flows.of("in", row);           // messages a second of a row (node, topic or channel), null at first
 *     flows.sum("out", rows, 0);     // of several; what is known of none is the last argument
 */
export function flow(now) {
  const speeds = measure(now);
  const key = (figure, { node, channel_name: channel = "" }) => [figure, node, channel].join("\n");
  return {
    take(rows) {
      speeds.take(rows.flatMap((row) =>
        Object.entries(COUNTERS).map(([figure, of]) => [key(figure, row), of(row)])));
    },
    of: (figure, row) => speeds.of(key(figure, row)),
    sum(figure, rows, unknown = null) {
      const known = rows.map((row) => this.of(figure, row)).filter((each) => each != null);
      return known.length ? known.reduce((sum, each) => sum + each, 0) : unknown;
    },
  };
}

/** The topics and channels of a topic's stats on each node. */
export function queuesOf(stats) {
  return (stats?.nodes ?? []).flatMap((node) => [node, ...(node.channels ?? [])]);
}

const COUNTERS = {
  in: (row) => row.message_count,
  out: (row) => row.message_count - row.depth - (row.in_flight_count ?? 0) - (row.deferred_count ?? 0),
  requeues: (row) => row.requeue_count ?? 0,
  timeouts: (row) => row.timeout_count ?? 0,
};
