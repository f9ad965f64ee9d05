/** Where the numbers of a chart's axes stand, and how they read. */

/** @type {[number, string][]} */
const SUFFIXES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
/** @type {[number, string][]} */
const TIME_UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
const MINUTE_NS = 60e9;
const LONG_STEPS_S = [15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400, 28_800, 86_400];
const DAY_S = 86_400;
const CLOCK_STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 14_400, 28_800,
  DAY_S, 2 * DAY_S, 7 * DAY_S];

/**
 * The round numbers from 0 up to the first at or above `max`, about `wanted` steps of them.
 * Messages and rows come in whole ones; nanoseconds from 15 s on in steps of a clock.
 *
 * @param {"messages"|"rate"|"rows"|"rows/s"|"ns"} unit
 * @returns {{value: number, text: string}[]} at least two, the first is 0
 */
export function valueTicks(max, unit, wanted = 3) {
  const least = max > 0 ? max : unit === "ns" ? 1e6 : 1;
  const step = stepOf(least / wanted, unit);
  const steps = Math.max(1, Math.ceil(least / step - 1e-9));
  return Array.from({ length: steps + 1 }, (_, at) => {
    const value = at * step;
    return { value, text: unit === "ns" ? timeText(value, step * steps) : numberText(value) };
  });
}

function stepOf(rough, unit) {
  if (unit === "ns" && rough > 10e9) {
    const seconds = LONG_STEPS_S.find((each) => each * 1e9 >= rough);
    return seconds ? seconds * 1e9 : Math.ceil(rough / 86_400e9) * 86_400e9;
  }
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((each) => each * power >= rough * (1 - 1e-9)) * power;
  return unit === "messages" || unit === "rows" ? Math.max(1, step) : step;
}

function numberText(value) {
  const [size, suffix] = SUFFIXES.find(([size]) => value >= size) ?? [1, ""];
  return Number((value / size).toPrecision(6)) + (suffix && " " + suffix);
}

/** All numbers of one axis in the same unit: 0, 500 ms, 1000 ms would be hard to compare with 1 s. */
function timeText(value, top) {
  if (value === 0) return "0";
  if (top >= 2 * MINUTE_NS) return `${Number((value / MINUTE_NS).toPrecision(3))} min`;
  const [size, unit] = TIME_UNITS.find(([size]) => top >= size) ?? TIME_UNITS[3];
  return `${Number((value / size).toPrecision(6))} ${unit}`;
}

/**
 * The round times of the local clock between two unix times in seconds, `wanted` at most.
 *
 * @returns {{at: number, text: string}[]} text such as "14:05", with seconds where steps are short, or as
 *   "03-09" where they are days
 */
export function timeTicks(from, to, wanted) {
  const span = to - from;
  const step = CLOCK_STEPS_S.find((each) => span / each <= wanted) ?? CLOCK_STEPS_S.at(-1);
  const offset = new Date(to * 1000).getTimezoneOffset() * 60;
  const ticks = [];
  for (let at = Math.ceil((from - offset) / step) * step + offset; at <= to; at += step) {
    ticks.push({ at, text: step < DAY_S ? clockText(at, step < 60) : dayText(at) });
  }
  return ticks;
}

function clockText(unixSeconds, hasSeconds) {
  const at = new Date(unixSeconds * 1000);
  const parts = [at.getHours(), at.getMinutes(), at.getSeconds()].slice(0, hasSeconds ? 3 : 2);
  return parts.map((part) => String(part).padStart(2, "0")).join(":");
}

/** The local month and day: "03-09". */
export function dayText(unixSeconds) {
  const at = new Date(unixSeconds * 1000);
  return [at.getMonth() + 1, at.getDate()].map((part) => String(part).padStart(2, "0")).join("-");
}

/** The place in ascending `times` that is nearest to `time`; -1 when there are none. */
export function nearest(times, time) {
  let low = 0;
  let high = times.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] < time) low = middle + 1;
    else high = middle;
  }
  return low > 0 && time - times[low - 1] < times[low] - time ? low - 1 : Math.min(low, times.length - 1);
}
