/** An address that no page has. */

import { h } from "../core/dom.js";
import { to } from "../core/router.js";
import { empty, heading } from "../widgets/ui.js";

export default function missing(page) {
  page.title = "Not found";
  return () => [
    heading({ title: "Not found" }),
    empty("There is no such page", h("a", { href: to.overview() }, "To the overview")),
  ];
}
