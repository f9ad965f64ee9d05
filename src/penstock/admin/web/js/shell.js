/** What stands around every page: the header with its links, warnings, what went wrong. */

import { h } from "./dom.js";
import { to } from "./router.js";
import { settings } from "./settings.js";

const LINKS = [
  ["overview", "Overview", to.overview],
  ["topics", "Topics", to.topics],
  ["nodes", "Nodes", to.nodes],
  ["groups", "Groups", to.groups],
  ["deadletters", "Dead letters", to.deadletters],
  ["lookup", "Lookup", to.lookup],
  ["counter", "Counter", to.counter],
];

/** The whole document of a page whose own part is `content`. */
export function shell(page, content) {
  return [
    h("header", { class: "top" },
      h("a", { class: "logo", href: to.overview() }, "nsqadmin"),
      h("nav", {}, LINKS.map(([name, text, url]) =>
        h("a", { href: url(), "aria-current": page.page === name ? "page" : null }, text)))),
    h("main", {}, page.error && h("p", { class: "error", role: "alert" }, page.error.message), content),
    h("footer", {}, `nsqadmin ${settings.version}`),
  ];
}
