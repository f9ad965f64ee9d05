/**
 * How a reader of a log keeps pace with it: arithmetic alone.
 *
 * Lags are messages, times seconds, rates messages a second; what is not known is null.
 */

const WINDOW_S = 300;
const POINTS_MIN = 3;
const SPAN_MIN_S = 5;
const NEAR_S = 5;
const NOTICED_A_MINUTE = 0.01;

/**
 * How fast a lag changes: the slope of the line through its newest points (of five minutes), so
 * that a reader which commits in batches does not seem to turn with each of them.
 *
 * @param {number[]} times unix seconds, ascending
 * @param {(number|null)[]} lags
 * @returns {number|null} messages a second, more than 0 when the lag grows
 */
export function slope(times, lags) {
  const last = times.at(-1);
  const points = times.map((time, at) => [time - last, lags[at]])
    .filter(([time, lag]) => time >= -WINDOW_S && lag != null && Number.isFinite(lag));
  if (points.length < POINTS_MIN || -points[0][0] < SPAN_MIN_S) return null;
  const [time, lag] = [0, 1].map((at) => points.reduce((sum, point) => sum + point[at], 0) / points.length);
  let [both, alone] = [0, 0];
  for (const [x, y] of points) {
    both += (x - time) * (y - lag);
    alone += (x - time) ** 2;
  }
  return both / alone;
}

/**
 * What will become of a lag.
 *
 * - `done`: there is none;
 * - `near`: less than five seconds of what is read;
 * - `stopped`: nothing is read;
 * - `growing`: the reader falls behind;
 * - `shrinking`: gone in `seconds` when all goes on like this;
 * - `level`: it neither grows nor shrinks by 1 % a minute;
 * - `reading`: not known which of the three; gone in `seconds` if nothing new came;
 * - `unknown`.
 *
 * @param {{lag: number|null, rate: number|null, change: number|null}} reader `change`: as `slope` tells it
 * @returns {{state: string, seconds: number|null}}
 */
export function outlook({ lag, rate, change }) {
  if (lag == null || rate == null) return { state: "unknown", seconds: null };
  if (lag <= 0) return { state: "done", seconds: 0 };
  if (lag <= rate * NEAR_S) return { state: "near", seconds: lag / rate };
  const isNoticed = change != null && Math.abs(change) * 60 >= Math.max(lag * NOTICED_A_MINUTE, 1);
  if (isNoticed && change < 0) return { state: "shrinking", seconds: lag / -change };
  if (rate <= 0) return { state: "stopped", seconds: null };
  if (change == null) return { state: "reading", seconds: lag / rate };
  return { state: isNoticed ? "growing" : "level", seconds: null };
}
