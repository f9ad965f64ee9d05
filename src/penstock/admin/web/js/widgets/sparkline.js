/** Charts as small as a word: how a figure went, without axes. */

import { h } from "../core/dom.js";
import { areaPath, linePath } from "./lines.js";

const WIDTH = 100;
const HEIGHT = 24;
const POINTS_MAX = 120;
const paths = new WeakMap();

/**
 * The line of values, from 0 to their greatest; null is a gap. As wide as its place is.
 *
 * @param {(number|null)[]} values  drawn again when it is another list, or has grown
 * @param {{title?: string, tone?: string}} how  title: what a screen reader says; tone "1" to "6"
 */
export function sparkline(values, { title, tone = "1" } = {}) {
  if (!values || values.length < 2) return h("svg", { class: "sparkline", "aria-hidden": "true" });
  let known = paths.get(values);
  if (known?.length !== values.length || known.last !== values.at(-1)) {
    known = { ...pathsOf(values), length: values.length, last: values.at(-1) };
    paths.set(values, known);
  }
  return h("svg", {
    class: `sparkline tone-${tone}`,
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    preserveAspectRatio: "none",
    role: title ? "img" : null,
    "aria-label": title,
    "aria-hidden": title ? null : "true",
  }, h("path", { class: "area", d: known.area }), h("path", { class: "line", d: known.line }));
}

function pathsOf(all) {
  const values = thinned(all);
  const top = values.reduce((a, b) => Math.max(a, b ?? 0), 0) || 1;
  const x = (at) => (at / (values.length - 1)) * WIDTH;
  const y = (value) => HEIGHT - 1 - (value / top) * (HEIGHT - 2);
  return { line: linePath(values, x, y), area: areaPath(values, x, y, HEIGHT) };
}

/** No more values than there is room for: each the mean of some, null where none is known. */
function thinned(values) {
  const size = Math.ceil(values.length / POINTS_MAX);
  if (size === 1) return values;
  return Array.from({ length: Math.ceil(values.length / size) }, (_, at) => {
    const some = values.slice(at * size, (at + 1) * size).filter((value) => value != null);
    return some.length ? some.reduce((a, b) => a + b, 0) / some.length : null;
  });
}
