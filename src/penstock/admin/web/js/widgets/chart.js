/**
 * Charts of lines over time, as SVG. All charts of a page share the time under the pointer.
 *
 * A chart draws itself inside its element, at its own width, and only when its data, its width or the
 * pointer are others than before: a page that is drawn often costs it nothing.
 */

import { h, render } from "../core/dom.js";
import { clock, count, duration, rate } from "../core/format.js";
import { dayText, nearest, timeTicks, valueTicks } from "./axis.js";
import { areaPath, linePath, runs } from "./lines.js";

export { sparkline } from "./sparkline.js";

const UNITS = {
  messages: { name: "messages", text: count },
  rate: { name: "messages/s", text: rate },
  rows: { name: "rows", text: count },
  "rows/s": { name: "rows/s", text: rate },
  ns: { name: "", text: duration },
};
const HEIGHT = 150;
const SPAN_MIN_S = 60;
const ABOVE = 8;
const BELOW = 20;
const RIGHT = 10;
const LETTER = 6.2;
const TIME_ROOM = 64;
const LINE_ROOM = 36;
const FAR = 10;
const DAY_S = 86_400;

const shown = new Map();
let pointed = null;
let isDue = false;

/**
 * Lines over time.
 *
 * @param {object} spec  drawn again when a list is another one, or has grown
 * @param {string} spec.title
 * @param {"messages"|"rate"|"rows"|"rows/s"|"ns"} spec.unit
 * @param {number[]} spec.times  unix seconds, ascending
 * @param {{name: string, values: (number|null)[], tone?: string}[]} spec.series  one value for each time,
 *   null for a gap; tone is "1" to "6"
 * @param {number[]} [spec.partial]  more than 0 where the values are not all of that time: a grey ground
 * @param {number} [spec.height]  of the plot, in pixels
 */
export function chart(spec) {
  return h("figure", {
    class: "chart",
    key: `chart ${spec.title}`,
    onmount: begin,
    ondraw: (element) => show(shown.get(element), spec),
  });
}

function begin(element) {
  const state = { element, spec: null, end: 0, width: 0, hidden: new Set(), plot: null };
  shown.set(element, state);
  const observer = new ResizeObserver(([entry]) => {
    const width = Math.floor(entry.contentRect.width);
    if (width === state.width) return;
    state.width = width;
    state.plot = null;
    draw(state);
  });
  observer.observe(element);
  return () => {
    observer.disconnect();
    shown.delete(element);
    if (!shown.size) pointed = null;
  };
}

function show(state, spec) {
  const isSame = isSameAs(state.spec, spec) && state.end === spec.times.at(-1);
  if (isSame) return;
  state.spec = spec;
  state.end = spec.times.at(-1);
  state.plot = null;
  draw(state);
}

function isSameAs(old, now) {
  return old?.times === now.times && old.series.length === now.series.length &&
    old.series.every((series, at) => series.values === now.series[at].values);
}

/** Lets all charts show the values at a time, before the next frame. */
function point(time) {
  if (pointed === time) return;
  pointed = time;
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    shown.forEach(draw);
  });
}

function draw(state) {
  const { spec } = state;
  state.plot ??= state.width ? plotOf(state) : null;
  const at = pointed === null ? -1 : placeOf(spec.times, pointed);
  render(state.element,
    h("figcaption", {},
      h("span", { class: "chart-title" }, spec.title, " ",
        h("small", {}, at < 0 ? UNITS[spec.unit].name : moment(spec.times, at))),
      h("span", { class: "legend" }, spec.series.map((series, number) =>
        legend(state, series, toneOf(series, number), at < 0 ? lastPlace(series.values) : at)))),
    state.plot && picture(state, at));
}

/** Where a time stands in `times`; -1 when it is not within them. */
function placeOf(times, time) {
  const at = nearest(times, time);
  const slack = times.length > 1 ? 2 * (times.at(-1) - times.at(-2)) : SPAN_MIN_S;
  return at >= 0 && Math.abs(times[at] - time) <= slack ? at : -1;
}

/** The time of a point, with its day where the points are of several. */
function moment(times, at) {
  const day = times.at(-1) - times[0] > DAY_S ? `${dayText(times[at])} ` : "";
  return day + clock(times[at]);
}

function lastPlace(values) {
  return values.findLastIndex((value) => value != null);
}

function toneOf(series, number) {
  return series.tone ?? String(number + 1);
}

function legend(state, series, tone, at) {
  const isHidden = state.hidden.has(series.name);
  const content = [
    h("i", { class: `swatch tone-${tone}` }),
    h("span", { class: "legend-name" }, series.name),
    h("b", {}, UNITS[state.spec.unit].text(series.values[at])),
  ];
  const look = { class: "legend-item", key: series.name };
  if (state.spec.series.length === 1) return h("span", look, content);
  return h("button", {
    ...look,
    type: "button",
    title: isHidden ? `show ${series.name}` : `hide ${series.name}`,
    "aria-pressed": String(!isHidden),
    onclick: () => {
      if (!state.hidden.delete(series.name)) state.hidden.add(series.name);
      state.plot = null;
      draw(state);
    },
  }, content);
}

/** Everything but the crosshair: where things are, and the paths. */
function plotOf({ spec, width, hidden }) {
  const height = spec.height ?? HEIGHT;
  const lines = spec.series
    .map((series, number) => ({ ...series, tone: toneOf(series, number) }))
    .filter(({ name }) => !hidden.has(name));
  const max = lines.flatMap(({ values }) => values).reduce((a, b) => Math.max(a, b ?? 0), 0);
  const ticks = valueTicks(max, spec.unit, Math.max(2, Math.floor(height / LINE_ROOM)));
  const left = Math.ceil(LETTER * Math.max(...ticks.map(({ text }) => text.length))) + 8;
  const right = width - RIGHT;
  const ground = height - BELOW;
  const end = spec.times.at(-1) ?? 0;
  const start = Math.min(spec.times[0] ?? 0, end - SPAN_MIN_S);
  const top = ticks.at(-1).value;
  const x = (time) => left + ((time - start) / (end - start)) * (right - left);
  const y = (value) => ground - (value / top) * (ground - ABOVE);
  const xAt = (at) => x(spec.times[at]);
  return {
    width, height, left, right, ground, x, y, start, end, ticks,
    partial: runs((spec.partial ?? []).map((each) => each || null))
      .map(([first, last]) => [xAt(first), Math.max(xAt(last), xAt(first) + 2)]),
    isEmpty: spec.times.length > 0 && !spec.series.some(({ values }) => lastPlace(values) >= 0),
    times: timeTicks(start, end, Math.max(1, Math.floor((right - left) / TIME_ROOM))),
    lines: lines.map((line) => ({
      ...line,
      path: linePath(line.values, xAt, y),
      area: spec.series.length === 1 ? areaPath(line.values, xAt, y, ground) : "",
    })),
  };
}

function picture(state, at) {
  const { plot, spec } = state;
  const { width, height } = plot;
  return h("svg", {
    class: "plot",
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    tabindex: "0",
    "aria-label": told(spec, at),
    onpointermove: (event) => point(timeAt(state, event)),
    onpointerdown: (event) => point(timeAt(state, event)),
    onpointerleave: () => point(null),
    onblur: () => point(null),
    onkeydown: (event) => step(state, event),
  },
  plot.partial.map(([from, to]) => h("rect", { key: `partial ${from}`, class: "partial",
    x: from, y: ABOVE, width: to - from, height: plot.ground - ABOVE })),
  axes(plot),
  plot.isEmpty ? emptiness(plot) : plot.lines.map(shape),
  at >= 0 && !plot.isEmpty && crosshair(plot, spec.times[at], at));
}

function emptiness({ left, right, height }) {
  return h("text", { class: "chart-empty", x: (left + right) / 2, y: height / 2 - 4 }, "no figures yet");
}

function shape({ name, tone, area, path }) {
  return h("g", { key: name, class: `tone-${tone}` },
    area && h("path", { class: "area", d: area }),
    h("path", { class: "line", d: path }));
}

function axes({ width, ground, left, right, x, y, ticks, times }) {
  return h("g", { class: "axes" },
    ticks.map(({ value, text }) => h("g", { key: text },
      h("line", { x1: left, x2: right, y1: crisp(y(value)), y2: crisp(y(value)) }),
      h("text", { class: "value", x: left - 6, y: y(value) + 3.5 }, text))),
    times.filter(({ at }) => x(at) >= left).map(({ at, text }) => {
      const place = Math.min(x(at), width - (text.length * LETTER) / 2);
      return h("text", { key: at, class: "time", x: place, y: ground + 15 }, text);
    }));
}

function crosshair({ x, y, ground, lines }, time, at) {
  const place = crisp(x(time));
  return h("g", { class: "crosshair", key: "crosshair" },
    h("line", { x1: place, x2: place, y1: ABOVE, y2: ground }),
    lines.filter(({ values }) => values[at] != null).map(({ name, tone, values }) =>
      h("circle", { key: name, class: `tone-${tone}`, cx: x(time), cy: y(values[at]), r: 3.5 })));
}

/** In the middle of a pixel: a line of one pixel is sharp there. */
function crisp(pixels) {
  return Math.round(pixels) + 0.5;
}

function timeAt({ plot, spec }, event) {
  const x = event.clientX - event.currentTarget.getBoundingClientRect().left;
  const time = plot.start + ((x - plot.left) / (plot.right - plot.left)) * (plot.end - plot.start);
  return spec.times[nearest(spec.times, time)] ?? null;
}

function step({ spec: { times } }, event) {
  const last = times.length - 1;
  const at = pointed === null ? last : nearest(times, pointed);
  const far = event.shiftKey ? FAR : 1;
  const places = { ArrowLeft: at - far, ArrowRight: at + far, Home: 0, End: last };
  if (event.key === "Escape") point(null);
  else if (event.key in places && last >= 0) point(times[Math.min(Math.max(places[event.key], 0), last)]);
  else return;
  event.preventDefault();
}

/** What the chart says to those who cannot see it: the values at a place, or the newest. */
function told({ title, unit, times, series, partial = [] }, at) {
  const when = at < 0 ? "now" : `at ${moment(times, at)}`;
  const values = series.map(({ name, values }) =>
    `${name} ${UNITS[unit].text(values[at < 0 ? lastPlace(values) : at])}`);
  const place = at < 0 ? lastPlace(partial) : at;
  const mark = partial[place] > 0 ? ", partial: a node does not answer" : "";
  return `${title}, ${when}: ${values.join(", ")}${mark}`;
}
