/** Under construction. */

import { h } from "../dom.js";

export default function lookup(page) {
  page.title = "lookup";
  return () => h("h1", {}, "lookup ", page.names.join(" / "));
}
