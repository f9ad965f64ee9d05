/** What the keyboard does on every page, and the help that explains it. */

import { openPalette } from "../features/search.js";
import { opened } from "../widgets/dialog.js";
import { button, keys } from "../widgets/ui.js";
import { h, render } from "./dom.js";
import { LINKS } from "./links.js";
import { go } from "./router.js";
import { nextTheme } from "./theme.js";

const SECOND_KEY_MS = 1_500;

/** Listens to the keyboard, on behalf of the page that `current()` tells. */
export function listenToKeys(current) {
  let wentAt = -Infinity;
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      openPalette(current());
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    const link = performance.now() - wentAt < SECOND_KEY_MS && LINKS.find((each) => each[3] === event.key);
    wentAt = event.key === "g" ? performance.now() : -Infinity;
    const action = link ? () => go(link[2]()) : ACTIONS[event.key];
    if (!action || action(current()) === false) return;
    event.preventDefault();
  });
}

const ACTIONS = {
  "/": openPalette,
  "?": showKeys,
  f: focusFilter,
  p: (page) => page.pause(!page.isPaused),
  r: (page) => page.reload(),
  j: () => step(1),
  k: () => step(-1),
  T: (page) => {
    nextTheme();
    page.redraw();
  },
};

function focusFilter() {
  const box = /** @type {HTMLElement|null} */ (document.querySelector("main input[type=search]"));
  box?.focus();
  return box !== null;
}

function isTyping(element) {
  return element.isContentEditable || /^(INPUT|SELECT|TEXTAREA)$/.test(element.tagName);
}

/** To the first link of the next row of a table, or of the one before. */
function step(by) {
  const rows = [...document.querySelectorAll("main .table tbody tr")];
  const links = rows.map((row) => row.querySelector("a")).filter(Boolean);
  if (!links.length) return false;
  const row = document.activeElement?.closest("main .table tbody tr");
  const at = links.findIndex((link) => row?.contains(link));
  const next = links[Math.max(0, Math.min(at + by, links.length - 1))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
  return true;
}

/** Shows what keys there are. */
export function showKeys() {
  const dialog = document.createElement("dialog");
  dialog.setAttribute("aria-labelledby", "keys-title");
  const row = (names, text) => [h("dt", {}, keys(...names)), h("dd", {}, text)];
  render(dialog, h("div", { class: "dialog" },
    h("h2", { id: "keys-title" }, "Keys"),
    h("dl", { class: "key-list" },
      row(["/"], "Search topics, channels, nodes, pages; Ctrl K too"),
      LINKS.map(([, title, , key]) => row(["g", key], title)),
      row(["f"], "Filter the first table"),
      row(["j"], "Next row; k: the one before"),
      row(["p"], "Let the figures stand still, or go on"),
      row(["r"], "Ask for the figures now"),
      row(["T"], "Theme: system, light, dark"),
      row(["?"], "These keys"),
      row(["Esc"], "Close a dialog, clear a filter")),
    h("div", { class: "dialog-foot" }, button("Close", { autofocus: true, onclick: () => dialog.close() }))));
  return opened(dialog);
}
