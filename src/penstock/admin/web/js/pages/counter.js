/** Under construction. */

import { h } from "../dom.js";

export default function counter(page) {
  page.title = "counter";
  return () => h("h1", {}, "counter ", page.names.join(" / "));
}
