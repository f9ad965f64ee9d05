/** Under construction. */

import { h } from "../dom.js";

export default function topics(page) {
  page.title = "topics";
  return () => h("h1", {}, "topics ", page.names.join(" / "));
}
