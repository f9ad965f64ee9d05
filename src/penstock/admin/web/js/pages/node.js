/** Under construction. */

import { h } from "../dom.js";

export default function node(page) {
  page.title = "node";
  return () => h("h1", {}, "node ", page.names.join(" / "));
}
