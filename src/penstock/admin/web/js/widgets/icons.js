/** The few pictures there are, drawn with the colour of the words around them. */

import { h } from "../core/dom.js";

const SHAPES = {
  search: "M7 2.5a4.5 4.5 0 1 1 0 9a4.5 4.5 0 0 1 0-9M10.4 10.4 14 14",
  menu: "M2 4h12M2 8h12M2 12h12",
  system: "M2 3h12v8H2zM5.5 13.5h5",
  light:
    "M8 5a3 3 0 1 1 0 6a3 3 0 0 1 0-6M8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15" +
    "M3 3l1.1 1.1M11.9 11.9 13 13M3 13l1.1-1.1M11.9 4.1 13 3",
  dark: "M13.5 9.7A5.8 5.8 0 0 1 6.3 2.5a5.8 5.8 0 1 0 7.2 7.2z",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M5 3l7.5 5L5 13z",
  topic: "M2 4.5h12M2 8h12M2 11.5h7",
  channel: "M3 2.5v4a3 3 0 0 0 3 3h7M10 6.5l3 3-3 3",
  node: "M2.5 2.5h11v4.5h-11zM2.5 9h11v4.5h-11zM5 4.8h.01M5 11.2h.01",
  page: "M4 1.5h5.5L13 5v9.5H4zM9.5 1.5V5H13",
};

/** A picture of 16 by 16: one of SHAPES. It is an ornament: say what it means beside it. */
export function icon(name) {
  return h("svg", { class: "icon", viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" },
    h("path", { d: SHAPES[name] }));
}
