/** Under construction. */

import { h } from "../dom.js";

export default function groups(page) {
  page.title = "groups";
  return () => h("h1", {}, "groups ", page.names.join(" / "));
}
