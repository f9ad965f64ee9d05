/** Under construction. */

import { h } from "../dom.js";

export default function nodes(page) {
  page.title = "nodes";
  return () => h("h1", {}, "nodes ", page.names.join(" / "));
}
