/** What is unfolded on a page: names in ?open=, with commas between (no topic, channel or group has one). */

import { h } from "./dom.js";
import { setQuery } from "./router.js";

/** `has(name)` and `toggle(name)`; `usual` is what is open as long as nobody opened or closed anything. */
export function folds(page, usual = []) {
  const told = page.query.open?.split(",").filter(Boolean);
  const open = new Set(told ?? usual);
  return {
    has: (name) => open.has(name),
    toggle(name) {
      if (!open.delete(name)) open.add(name);
      setQuery({ open: [...open].join(",") || (usual.length ? "," : "") });
    },
  };
}

/** The button that opens and closes; `what` says of what, to those who cannot see the rest of the row. */
export function fold(folding, name, what) {
  const isOpen = folding.has(name);
  const title = `${isOpen ? "Close" : "Open"} ${what}`;
  return h("button", {
    type: "button",
    class: "fold",
    "aria-expanded": String(isOpen),
    "aria-label": title,
    title,
    onclick: () => folding.toggle(name),
  }, isOpen ? "▾" : "▸");
}
