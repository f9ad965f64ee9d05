/** A number that counts up to where it is, as long as nobody wishes for less motion. */

import { h } from "../core/dom.js";
import { count } from "../core/format.js";

const calm = matchMedia("(prefers-reduced-motion: reduce)");
const shown = new WeakMap();

/** `total`, reached from what was shown before within `seconds`. It never counts down. */
export function rolling(total, seconds) {
  return h("div", {
    class: "rolling",
    role: "img",
    "aria-label": count(total),
    onmount: (element) => {
      const state = { element, from: total, to: total, now: total, began: 0, span: 0, frame: 0 };
      shown.set(element, state);
      write(state, total);
      return () => cancelAnimationFrame(state.frame);
    },
    ondraw: (element) => aim(shown.get(element), total, seconds),
  });
}

function aim(state, total, seconds) {
  if (total <= state.to) return;
  cancelAnimationFrame(state.frame);
  Object.assign(state, { from: state.now, to: total, began: performance.now(), span: seconds * 1000 });
  if (calm.matches) write(state, total);
  else state.frame = requestAnimationFrame((time) => roll(state, time));
}

function roll(state, time) {
  const { from, to, began, span } = state;
  const part = Math.min(Math.max((time - began) / span, 0), 1);
  write(state, from + part * (to - from));
  if (part < 1) state.frame = requestAnimationFrame((next) => roll(state, next));
}

function write(state, number) {
  state.now = number;
  const text = count(Math.floor(number));
  if (state.element.textContent !== text) state.element.textContent = text;
}
