/** Under construction. */

import { h } from "../dom.js";

export default function deadletter(page) {
  page.title = "deadletter";
  return () => h("h1", {}, "deadletter ", page.names.join(" / "));
}
