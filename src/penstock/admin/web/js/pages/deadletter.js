/** The dead letters of one topic: to look at, to send again, to discard, to take away. */

import { get, pathOf, urlOf } from "../core/api.js";
import { h } from "../core/dom.js";
import { ago, count, stamp } from "../core/format.js";
import { to } from "../core/router.js";
import { settings } from "../core/settings.js";
import { browse } from "../features/browse.js";
import { many } from "../features/consequences.js";
import { discard, resend } from "../features/resend.js";
import { warning } from "../widgets/columns.js";
import { messageList, OFFSET } from "../widgets/list.js";
import { badge, button, empty, heading, loading, notice, trail } from "../widgets/ui.js";

const AGED_MS = 10_000; // how often the age of letters is shown again
const FORMS = [
  ["json", "Export JSON", "A line of JSON for each letter, with where it came from"],
  ["raw", "Export raw", "The bodies alone, a line each"],
];

export default function deadletter(page) {
  const [topic] = page.names;
  const state = { page, topic, found: null, message: "" }; // found: as /api/deadletters tells it
  page.title = `${topic}: dead letters`;
  page.load(async (signal) => {
    const { topics, message } = await get("/api/deadletters", {}, signal);
    Object.assign(state, { found: topics.find((each) => each.topic === topic), message });
  });
  state.pages = browse(page, {
    nodes: () => state.found?.nodes.map(({ node }) => node) ?? null,
    start: "newest",
    ask: (wish, signal) => get(pathOf("api", "deadletters", topic), wish, signal),
  });
  return () => view(state);
}

function view(state) {
  const { page, topic, found, message, pages } = state;
  if (found === null) return [top(state), !page.error && loading()];
  if (found === undefined) return [top(state), warning(message), unknown(topic)];
  const letters = (state.letters ??= lettersOf(state)); // when it is known whose they are
  return [
    top(state),
    warning(message),
    found.is_rocketmq && notice("accent", "These are of a RocketMQ consumer group. They can be ",
      "looked at and exported here; RocketMQ's own tools send them again."),
    pages.view((answer, isDescending) => {
      if (!answer.messages.length && answer.next === null) {
        return empty("No letters here", "Those of this node are dealt with.");
      }
      const changes = Math.floor(Date.now() / AGED_MS);
      return letters.view(answer.messages, { isDescending, changes });
    }, (answer) => answer && tools(state, letters.selected(answer.messages))),
  ];
}

function top({ page, topic, found }) {
  const all = found?.letters;
  return [
    trail(["Dead letters", to.deadletters()], [topic, to.deadletter(topic)]),
    heading({
      title: topic,
      badges: found && [
        badge(many(all, "letter"), all ? "warn" : "good"),
        found.is_rocketmq && badge("RocketMQ", "accent"),
      ],
      tools: found && [
        FORMS.map(([form, text, title]) => {
          const href = urlOf(pathOf("api", "deadletters", topic, "export"), { form });
          return h("a", { class: "button", download: true, title, href }, text);
        }),
        mayResend(found) && [
          button("Resend all", { disabled: !all, onclick: () => resend(page, { topic, letters: all }) }),
          button("Discard all", {
            kind: "danger", disabled: !all, onclick: () => discard(page, { topic, letters: all }),
          }),
        ],
      ],
    }),
  ];
}

function mayResend(found) {
  return settings.isAdmin && !found.is_rocketmq;
}

/** What can be done with the letters of the chosen node. */
function tools({ page, topic, found, pages }, chosen) {
  if (!mayResend(found)) return null;
  const node = pages.node();
  if (chosen.length) {
    const wish = { topic, node, chosen, letters: chosen.length };
    return [
      button(`Resend ${count(chosen.length)}`, { onclick: () => resend(page, wish) }),
      button(`Discard ${count(chosen.length)}`, { kind: "danger", onclick: () => discard(page, wish) }),
    ];
  }
  const { letters } = found.nodes.find((each) => each.node === node);
  if (found.nodes.length === 1 || !letters) return null;
  return button(`Resend ${count(letters)} of this node`, {
    onclick: () => resend(page, { topic, node, letters }),
  });
}

// --- the list ------------------------------------------------------------------------------------

const DEAD = { name: "dead", title: "Dead since", cell: deadSince };
const FROM = { name: "origin", title: "From", wide: true, cell: originOf };
const ATTEMPTS = {
  name: "attempts",
  title: "Attempts",
  hint: "In the channel that gave it up",
  numeric: true,
  wide: true,
  cell: ({ origin }) => count(origin?.attempts),
};

function lettersOf({ page, topic, found, pages }) {
  return messageList(page, {
    topic,
    node: pages.node,
    caption: `Dead letters of ${topic}`,
    canSelect: mayResend(found),
    columns: found.is_rocketmq ? [OFFSET, DEAD] : [OFFSET, DEAD, FROM, ATTEMPTS],
    details: ({ id, timestamp, origin }) => [
      ["Id", id],
      ["Published", stamp(timestamp)],
      origin && ["Dead since", stamp(origin.dead_since)],
      origin && ["From", originOf({ origin })],
      origin && ["Id there", origin.id],
      origin && ["Attempts there", String(origin.attempts)],
    ],
  });
}

function deadSince({ origin, timestamp }) {
  const since = origin?.dead_since ?? timestamp;
  return h("span", { title: stamp(since) }, ago(since / 1e9));
}

function originOf({ origin }) {
  if (!origin) {
    const title = "It was published to this topic, and did not die in a channel";
    return h("span", { class: "faint", title }, "not told");
  }
  const { topic, channel } = origin;
  return [
    h("a", { href: to.topic(topic) }, topic),
    " / ",
    h("a", { href: to.channel(topic, channel) }, channel),
  ];
}

function unknown(topic) {
  return empty(`${topic} has no dead letters`,
    "No node that can be asked moves any there, and its name does not end in .dead.");
}
