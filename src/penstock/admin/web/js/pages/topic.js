/** Under construction. */

import { h } from "../dom.js";

export default function topic(page) {
  page.title = "topic";
  return () => h("h1", {}, "topic ", page.names.join(" / "));
}
