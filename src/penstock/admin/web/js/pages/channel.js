/** Under construction. */

import { h } from "../dom.js";

export default function channel(page) {
  page.title = "channel";
  return () => h("h1", {}, "channel ", page.names.join(" / "));
}
