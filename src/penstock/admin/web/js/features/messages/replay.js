/** Replay: messages of a log are published again, after they were counted, to a topic that one names. */

import { get, post, remark } from "../../core/api.js";
import { h } from "../../core/dom.js";
import { bytes, count } from "../../core/format.js";
import { ask, tell } from "../../widgets/dialog.js";
import { many } from "../consequences.js";

const SUGGESTED_MAX = 500;

/**
 * Asks where to, and replays: `chosen` messages, or all of `range` that match the `wish` of a search.
 * Resolves to whether all of it was done.
 *
 * @param {any} page
 * @param {{topic: string, chosen?: any[], wish?: any, range?: any}} what
 */
export async function askToReplay(page, { topic, chosen, wish, range }) {
  const replay = { topic, chosen, wish, to: "", topics: null, count: 0, bytes: 0, left: null,
    next: range, sent: 0, empty: 0, isCounting: !chosen, isStopped: false, problem: "", draw: () => {} };
  if (chosen) {
    replay.count = chosen.length;
    replay.bytes = chosen.reduce((sum, { size }) => sum + size, 0);
  } else {
    countAll(replay, range);
  }
  suggest(replay);
  const isDone = await ask({
    title: "Replay messages?",
    body: (draw) => {
      replay.draw = draw;
      return view(replay);
    },
    action: "Replay",
    stop: () => (replay.isStopped = true),
    run: () => run(page, replay),
  });
  replay.isStopped = true;
  return isDone;
}

/** The topics there are, for those who do not know the name by heart. */
async function suggest(replay) {
  try {
    replay.topics = (await get("/api/topics")).topics ?? [];
  } catch {
    return; // the name can be typed
  }
  replay.draw();
}

async function countAll(replay, range) {
  try {
    let next = range;
    while (next !== null && !replay.isStopped) {
      const answer = await post("/api/messages/search", { ...replay.wish, from: next, limit: 0 });
      next = answer.next;
      replay.count += answer.found;
      replay.bytes += answer.found_bytes;
      replay.left = answer.left;
      if (answer.message) replay.problem = remark(answer.message);
      replay.draw();
    }
    replay.isCounting = false;
  } catch (error) {
    replay.problem = `They could not be counted: ${error.message}`;
  }
  replay.draw();
}

// --- doing it ------------------------------------------------------------------------------------

async function run(page, replay) {
  if (replay.isCounting) throw new Error("Wait until the messages are counted.");
  if (!replay.to) throw new Error("Name the topic to publish to.");
  if (!replay.count) throw new Error("There is nothing to replay.");
  replay.isStopped = false;
  if (replay.chosen) await sendChosen(replay);
  else await sendMatching(replay);
  page.reload();
  const left = replay.empty ? `; ${many(replay.empty, "empty message")} left out` : "";
  return `${many(replay.sent, "message")} published to ${replay.to}${left}.`;
}

async function sendChosen(replay) {
  const { topic, to, chosen } = replay;
  const places = chosen.map(({ node, offset, id }) => ({ node, offset, id }));
  const answer = await asked({ topic, to, chosen: places });
  replay.sent += answer.sent;
  replay.empty += answer.empty;
  replay.chosen = chosen.filter(({ id }) => answer.unsent.includes(id)); // of another try
  const gone = answer.not_found.length;
  if (gone) tell(`${many(gone, "message")} had left the log meanwhile`, "warn");
  check(replay, answer);
}

/** Goes on where it was stopped, or where a node refused. */
async function sendMatching(replay) {
  while (replay.next !== null) {
    if (replay.isStopped) throw new Error(`Stopped: ${count(replay.sent)} sent. Replay sends the rest.`);
    const { topic, to, wish } = replay;
    const answer = await asked({ ...wish, topic, to, from: replay.next });
    replay.sent += answer.sent;
    replay.empty += answer.empty;
    replay.next = answer.next;
    replay.draw();
    check(replay, answer);
  }
}

/** Throws what a node refused; the rest can be sent again. */
function check({ sent }, { message, stopped, left }) {
  if (!stopped) return;
  throw new Error(`${count(sent)} sent, ${count(left)} left. ${remark(message)}`);
}

async function asked(body) {
  try {
    return await post("/api/messages/replay", body);
  } catch (error) {
    throw new Error(REFUSALS[error.message] ?? error.message);
  }
}

const REFUSALS = {
  INVALID_TO: "No topic can have this name: letters, digits, “.”, “_” and “-”, 64 at most.",
  FORBIDDEN: "You may not publish anything here.",
  TOO_MANY_SEARCHES: "Others search and replay right now: try again in a moment.",
  TOO_MANY_IDS: "These are too many at once: 1,000 messages can be chosen at most.",
};

// --- what is seen --------------------------------------------------------------------------------

function view(replay) {
  const { to, topics, topic, count: number, bytes: size, isCounting, left, problem, sent } = replay;
  const what = isCounting && replay.problem === ""
    ? `Counting: ${many(number, "message")} so far, ${count(left)} still to be looked at`
    : `${many(number, "message")}, ${bytes(size)}`;
  return [
    h("p", { role: "status" }, h("b", {}, sent ? `${count(sent)} of ${count(number)} sent` : what)),
    problem && h("p", { class: "dialog-error" }, problem),
    h("label", { class: "field" }, h("span", {}, "To topic"), h("input", {
      class: "input", type: "text", list: "replay-topics", value: to, required: true, autofocus: true,
      autocomplete: "off", spellcheck: "false", oninput: (event) => {
        replay.to = event.target.value.trim();
        replay.draw();
      },
    })),
    h("datalist", { id: "replay-topics" },
      (topics ?? []).slice(0, SUGGESTED_MAX).map((each) => h("option", { key: each, value: each }))),
    h("p", {}, consequence(to, topics, topic)),
  ];
}

function consequence(to, topics, from) {
  if (to && topics && !topics.includes(to)) {
    return `No node has a topic ${to}: it is created. Messages wait in it until it has a channel.`;
  }
  const again = to === from ? ", also those that had finished them" : "";
  return "They become new messages there, with a new id and time, and every channel gets them" +
    `${again}. The originals stay as they are.`;
}
