/** All groups of both dialects: RocketMQ's consumer groups, and readers of the log such as Spark. */

import { get } from "../core/api.js";
import { count } from "../core/format.js";
import { settings } from "../core/settings.js";
import { groupsTable } from "../features/groups.js";
import { warning } from "../widgets/columns.js";
import { badge, heading, loading } from "../widgets/ui.js";

/** Brokers are asked for the members of each group. */
const ROCKETMQ_AGAIN_S = 10;

export default function groups(page) {
  page.title = "Groups";
  let told = null;

  page.load(async (signal) => {
    told = await get("/api/groups", {}, signal);
  }, settings.hasRocketmq ? ROCKETMQ_AGAIN_S : undefined);

  return () => {
    if (!told) return [heading({ title: "Groups" }), !page.error && loading()];
    return [
      heading({ title: "Groups", badges: badge(count(told.groups.length)) }),
      warning(told.message),
      groupsTable(page, told.groups),
    ];
  };
}
