/** Under construction. */

import { h } from "../dom.js";

export default function deadletters(page) {
  page.title = "deadletters";
  return () => h("h1", {}, "deadletters ", page.names.join(" / "));
}
