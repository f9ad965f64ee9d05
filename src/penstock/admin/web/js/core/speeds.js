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
