/** All groups that read logs: RocketMQ's consumer groups, Spark and other readers of the log. */

import { get } from "../core/api.js";
import { count } from "../core/format.js";
import { groupsTable } from "../features/groups.js";
import { warning } from "../widgets/columns.js";
import { badge, heading, loading } from "../widgets/ui.js";

export default function groups(page) {
  page.title = "Groups";
  let told = null;

  page.load(async (signal) => {
    told = await get("/api/groups", {}, signal);
  });

  return () => {
    if (!told) return [heading({ title: "Groups" }), !page.error && loading()];
    return [
      heading({ title: "Groups", badges: badge(count(told.groups.length)) }),
      warning(told.message),
      groupsTable(page, told.groups),
    ];
  };
}
