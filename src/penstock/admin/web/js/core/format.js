/** Figures as people read them. What is not known (null, undefined, NaN) is a dash. */

export const UNKNOWN = "–";

const STEPS = ["", "k", "M", "G", "T", "P"];
const BYTE_STEPS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
/** @type {[number, string][]} */
const DURATIONS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
/** @type {[number, string][]} */
const SPANS = [[86_400, "d"], [3_600, "h"], [60, "m"], [1, "s"]];
const MINUTE = 60;
const HOUR = 3_600;
const DAY = 86_400;

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const isKnown = (number) => Number.isFinite(number);

/** A whole number: "1,234,567". */
export function count(number) {
  return isKnown(number) ? whole.format(number) : UNKNOWN;
}

/** A number where there is little room: "950", "1.23 M". */
export function short(number) {
  return isKnown(number) ? scaled(number, 1_000, STEPS) : UNKNOWN;
}

/** A number a second: "1.2 k/s", "0.3/s". */
export function rate(number) {
  if (!isKnown(number)) return UNKNOWN;
  if (number !== 0 && Math.abs(number) < 0.1) return "<0.1/s";
  return Math.abs(number) < 100 ? `${trimmed(number, 1)}/s` : `${short(Math.round(number))}/s`;
}

/** Bytes, in powers of 1,024: "1.5 MiB". */
export function bytes(number) {
  return isKnown(number) ? scaled(number, 1_024, BYTE_STEPS) : UNKNOWN;
}

/** A short time in nanoseconds: "1.2 ms", "250 µs", "2.5 s", "3m 20s". */
export function duration(nanoseconds) {
  if (!isKnown(nanoseconds)) return UNKNOWN;
  if (Math.abs(nanoseconds) >= 100e9) return seconds(nanoseconds / 1e9);
  const most = Math.abs(nanoseconds);
  const [size, unit] = DURATIONS.find(([size]) => most >= 0.9995 * size) ?? DURATIONS[3]; // 999.9 µs are 1 ms
  return `${significant(nanoseconds / size)} ${unit}`;
}

/** A long time in seconds, its two largest parts: "2h 5m", "3d 4h", "12s". */
export function seconds(number) {
  if (!isKnown(number)) return UNKNOWN;
  let left = Math.round(Math.abs(number));
  const parts = [];
  for (const [size, unit] of SPANS) {
    const part = Math.floor(left / size);
    left -= part * size;
    if (part || parts.length) parts.push(part ? `${part}${unit}` : "");
    if (parts.length === 2) break;
  }
  return (number < 0 ? "-" : "") + (parts.filter(Boolean).join(" ") || "0s");
}

/** How long ago a time in unix seconds is: "just now", "3 min ago", "2 h ago". */
export function ago(unixSeconds, now = Date.now() / 1000) {
  if (!isKnown(unixSeconds)) return UNKNOWN;
  const past = now - unixSeconds;
  if (past < -1) return `in ${seconds(-past)}`;
  if (past < 2) return "just now";
  if (past < MINUTE) return `${Math.floor(past)} s ago`;
  if (past < HOUR) return `${Math.floor(past / MINUTE)} min ago`;
  if (past < DAY) return `${Math.floor(past / HOUR)} h ago`;
  return `${Math.floor(past / DAY)} d ago`;
}

/** The local time of day of unix seconds: "14:03:07". */
export function clock(unixSeconds) {
  if (!isKnown(unixSeconds)) return UNKNOWN;
  const at = new Date(unixSeconds * 1000);
  return [at.getHours(), at.getMinutes(), at.getSeconds()].map((part) => padded(part)).join(":");
}

/** The local date and time of unix nanoseconds, with milliseconds: "2026-03-09 14:03:07.123". */
export function stamp(nanoseconds) {
  if (!isKnown(nanoseconds)) return UNKNOWN;
  const at = new Date(Math.floor(nanoseconds / 1e6));
  const date = [at.getFullYear(), at.getMonth() + 1, at.getDate()].map((part) => padded(part)).join("-");
  return `${date} ${clock(Math.floor(at.getTime() / 1000))}.${padded(at.getMilliseconds(), 3)}`;
}

/** Unix milliseconds as a field of type datetime-local has them, in local time. */
export function localTime(ms) {
  const at = new Date(ms);
  return new Date(ms - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

function scaled(number, base, units) {
  let step = 0;
  let value = number;
  // 999.6 would be rounded to 1000 of this unit: it is 1 of the next
  while (step < units.length - 1 && Math.round(Math.abs(value)) >= base) {
    value /= base;
    step += 1;
  }
  const text = step ? significant(value) : trimmed(value, 2);
  return units[step] ? `${text} ${units[step]}` : text;
}

/** Three digits: 1.23, 12.3, 123; without zeros at the end. */
function significant(value) {
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value) || 1)));
  return trimmed(value, Math.min(digits, 2));
}

function trimmed(value, digits) {
  return String(Number(value.toFixed(digits)));
}

function padded(part, length = 2) {
  return String(part).padStart(length, "0");
}
