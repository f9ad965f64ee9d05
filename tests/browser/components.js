/** A page with every shared component, served in place of a real page: see test_components.py. */

import { h } from "../core/dom.js";
import { ask, tell } from "../widgets/dialog.js";
import { table } from "../widgets/table.js";
import { button, heading, tabOf, tabs } from "../widgets/ui.js";

const TABS = [{ name: "rows", title: "Rows" }, { name: "other", title: "Other", count: 2 }];
const COLUMNS = [
  { name: "name", title: "Name", cell: (row) => h("a", { href: `#${row.name}` }, row.name) },
  { name: "depth", title: "Depth", numeric: true, total: true },
  { name: "remark", title: "Remark", value: () => "so long that no phone has the room to show all of it" },
  { name: "delay", title: "Delay", numeric: true, format: (value) => (value == null ? "none" : `${value} ms`) },
];

export default function components(page) {
  page.title = "Components";
  const rows = Array.from({ length: Number(page.query.rows ?? 5) }, (_, at) =>
    ({ name: `row-${at + 1}`, depth: (at * 7) % 5, delay: at === 2 ? null : at * 10 }));
  const question = (more) => () => ask({
    title: "Delete orders?", losses: ["12 messages are deleted"], action: "Delete", kind: "danger",
    run: async () => "orders is deleted", ...more,
  });
  let attempts = 0;
  const refuse = async () => {
    attempts += 1;
    if (attempts === 1) throw new Error("FORBIDDEN");
    return "done at the second attempt";
  };
  return () => [
    heading({ title: "Components" }),
    tabs(page, TABS),
    button("Delete", { onclick: question({}) }),
    button("Delete typed", { onclick: question({ typed: "orders" }) }),
    button("Refused", { onclick: question({ run: refuse }) }),
    button("Tell", { onclick: () => tell("<b>five</b> told") }),
    tabOf(page, TABS) === "rows" && table(page, {
      id: "rows", columns: COLUMNS, rows, key: (row) => row.name, sort: "-depth", filter: true, totals: true, caption: "Rows",
    }),
  ];
}
