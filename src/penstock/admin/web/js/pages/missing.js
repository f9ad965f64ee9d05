/** An address that no page has. */

import { h } from "../dom.js";
import { to } from "../router.js";

export default function missing(page) {
  page.title = "Not found";
  return () => h("p", {}, "There is no such page. ", h("a", { href: to.overview() }, "To the overview"));
}
