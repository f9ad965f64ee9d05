/** Under construction. */

import { h } from "../dom.js";

export default function overview(page) {
  page.title = "overview";
  return () => h("h1", {}, "overview ", page.names.join(" / "));
}
