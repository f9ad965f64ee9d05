/**
 * A grand total of counters that never goes back: only arithmetic.
 *
 * Each counter counts for itself. One that is less than before began at 0, and what it has counted
 * since then is added; one that is away for a while is taken up where it was.
 */
export function tally() {
  const known = new Map();
  let total = 0;
  return {
    /** Takes what the counters are now, [[key, count], ...]; returns by how much the total grew. */
    take(counters) {
      const before = total;
      for (const [key, count] of counters) {
        const last = known.get(key) ?? 0;
        total += count < last ? count : count - last;
        known.set(key, count);
      }
      return total - before;
    },
    get total() {
      return total;
    },
  };
}
