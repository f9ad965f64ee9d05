/** Topics with dead letters: what consumers have given up, and somebody should look at. */

import { get } from "../core/api.js";
import { h } from "../core/dom.js";
import { count } from "../core/format.js";
import { to } from "../core/router.js";
import { nodeLink, warning } from "../widgets/columns.js";
import { table } from "../widgets/table.js";
import { badge, empty, heading } from "../widgets/ui.js";

const LIMIT_ATTEMPTS = [
  "curl -X POST '127.0.0.1:4151/channel/config?topic=orders&channel=bill' \\",
  "  -d '{\"max_attempts\":5}'",
].join("\n");
const COLUMNS = [
  { name: "topic", title: "Topic", cell: topicLink },
  { name: "letters", title: "Letters", hint: "Not sent again yet", numeric: true, total: true },
  {
    name: "nodes",
    title: "On",
    value: ({ nodes }) => nodes.map(({ node }) => node).join(" "),
    cell: ({ nodes }) => h("span", { class: "parts" }, nodes.map(lettersOfNode)),
  },
];

export default function deadletters(page) {
  page.title = "Dead letters";
  let found = null;
  page.load(async (signal) => (found = await get("/api/deadletters", {}, signal)));
  return () => [
    heading({ title: "Dead letters" }),
    found && warning(found.message),
    (found || !page.error) && table(page, {
      id: "topics",
      caption: "Topics with dead letters",
      columns: COLUMNS,
      rows: found?.topics,
      key: ({ topic }) => topic,
      sort: "-letters",
      filter: found?.topics.length > 1,
      totals: found?.topics.length > 1,
      empty: explanation(),
    }),
  ];
}

function topicLink({ topic, is_rocketmq: isRocketmq }) {
  return [
    h("a", { href: to.deadletter(topic) }, topic),
    isRocketmq && [" ", badge("RocketMQ", "accent", "Of a RocketMQ consumer group")],
  ];
}

function lettersOfNode({ node, letters }) {
  return h("span", { key: node },
    nodeLink({ node }), h("span", { class: "faint" }, ` ${count(letters)}`));
}

function explanation() {
  return empty("No topic has dead letters",
    "Once a channel has a limit of attempts, messages beyond it are moved to <topic>.dead:",
    h("pre", { class: "code" }, LIMIT_ATTEMPTS),
    "nsqd --max-attempts=5 sets it for all channels. ",
    "Those of RocketMQ's consumer groups are in topics named %DLQ%<group>.");
}
