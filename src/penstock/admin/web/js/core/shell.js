/** What stands around every page: the header with its links and the status, warnings, what went wrong. */

import { partialText } from "../features/lost.js";
import { openPalette } from "../features/search.js";
import { icon } from "../widgets/icons.js";
import { badge, button, classes, notice } from "../widgets/ui.js";
import { h } from "./dom.js";
import { clock } from "./format.js";
import { showKeys } from "./keys.js";
import { LINKS } from "./links.js";
import { to } from "./router.js";
import { settings } from "./settings.js";
import { nextTheme, theme } from "./theme.js";

const UNDER = { topic: "topics", channel: "topics", node: "nodes", pipeline: "pipelines",
  deadletter: "deadletters", rockettopic: "rocketmq", rocketgroup: "rocketmq" };

/** The whole document of a page whose own part is `content`. */
export function shell(page, content) {
  return [
    h("a", { class: "skip", href: "#main", onclick: toMain }, "To the content"),
    header(page),
    // with a key for each page: nothing of another page's elements, and of what these hold, is left
    h("main", { id: "main", tabindex: "-1", key: [page.page, ...page.names].join("/") },
      warnings(page), content),
    h("footer", { class: "foot" },
      h("span", {}, `nsqadmin ${settings.version} · Penstock ${settings.penstockVersion}`),
      themeButton(page),
      button("Keys", { kind: "quiet", onclick: () => showKeys(), title: "Key: ?" })),
  ];
}

function header(page) {
  const here = UNDER[page.page] ?? page.page;
  return h("header", { class: "top" },
    h("a", { class: "logo", href: to.overview() }, mark(), "nsqadmin"),
    h("nav", { id: "menu", popover: "auto", "aria-label": "Pages", onclick: closeMenu },
      LINKS.map(([name, text, url, key]) =>
        h("a", { href: url(), title: `Keys: g ${key}`, "aria-current": here === name ? "page" : null },
          text))),
    h("div", { class: "top-tools" },
      !settings.isAdmin && badge("read-only", "", "You may look. --admin-user names who may change things"),
      status(page),
      searchButton(page),
      themeButton(page),
      button(icon("menu"), {
        class: "button quiet menu-button", popovertarget: "menu", "aria-label": "Pages",
      })));
}

function searchButton(page) {
  return button([icon("search"), h("span", {}, "Search"), h("kbd", {}, "/")], {
    class: "search-button", title: "Keys: / or Ctrl K", "aria-label": "Search",
    onclick: () => openPalette(page),
  });
}

function themeButton(page) {
  const label = `Theme: ${theme()}`;
  const choose = () => {
    nextTheme();
    page.redraw();
  };
  return button(icon(theme()), {
    class: "button quiet theme", title: label, "aria-label": label, onclick: choose,
  });
}

/** A pipe and what flows out of it. */
function mark() {
  return h("svg", { class: "mark", viewBox: "0 0 20 20", width: 20, height: 20, "aria-hidden": "true" },
    h("path", { d: "M3 5h7a5 5 0 0 1 5 5v5" }),
    h("path", { d: "M3 10h5a2 2 0 0 1 2 2v3", class: "inner" }));
}

function closeMenu(event) {
  const menu = event.currentTarget;
  if (event.target.closest("a") && menu.matches(":popover-open")) menu.hidePopover();
}

function toMain(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

// --- the status ----------------------------------------------------------------------------------

/** How fresh the figures are: [kind, words, hint]. */
function freshness(page) {
  const { live } = page;
  const at = Math.max(live?.at ?? 0, page.taken);
  const time = at ? clock(at) : "";
  if (page.isPaused) return ["paused", `Paused ${time}`, "The figures stand still. Key: p"];
  if (page.error && page.error.status === 0) return ["bad", "Not reached", page.error.message];
  if (live?.isLost) return ["warn", "Reconnecting", "The stream of figures broke off; it is opened again"];
  if (!settings.historyInterval) {
    return ["", time, "When the figures were taken. There is no history: --history-interval is 0"];
  }
  const hint = `Live: nsqadmin looks at all nodes every ${settings.historyInterval} s`;
  if (live?.connected) return ["good", time, hint];
  return ["", time, "When the figures were taken"];
}

function status(page) {
  const [kind, words, hint] = freshness(page);
  const action = page.isPaused ? "Go on" : "Pause";
  return h("button", {
    type: "button", class: classes("status", kind), title: `${hint}. Click: ${action.toLowerCase()} (key: p)`,
    "aria-label": `${words || "No figures yet"}. ${action}`, onclick: () => page.pause(!page.isPaused),
  }, h("span", { class: "dot" }), h("span", { class: "status-text" }, words),
  !settings.historyInterval && !page.isPaused && h("span", { class: "status-note" }, "history off"));
}

/** What the pages tell beside what they show: nothing of it hides the rest. */
function warnings(page) {
  const { error } = page;
  const told = page.live?.message ?? "";
  const partial = page.live && partialText(page.live);
  return h("div", { class: "warnings" },
    error && notice("bad",
      error.since > 0 && h("b", {}, `Not updated since ${clock(error.since)}. `),
      error.message, error.status === 0 && ". It is asked again every few seconds."),
    told && notice("warn", told.replace(/^WARNING: /, "")),
    partial && notice("warn", partial));
}
