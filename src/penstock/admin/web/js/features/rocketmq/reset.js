/** Setting a group to a time: asked for with what it would change. */

import { get, pathOf, post } from "../../core/api.js";
import { h } from "../../core/dom.js";
import { count, localTime } from "../../core/format.js";
import { settings } from "../../core/settings.js";
import { ask } from "../../widgets/dialog.js";
import { button } from "../../widgets/ui.js";
import { done } from "../actions.js";
import { many } from "../consequences.js";

const TO_THE_END = -1;
const PLACES = [["time", "A time"], ["beginning", "The beginning"], ["end", "The end"]];
const QUEUES_MAX = 64; // of a preview; the sums are of all
const PAUSE_MS = 300;

/** The button that sets a group to another place in one of these topics. */
export function resetButton(page, group, topics) {
  if (!settings.isAdmin || !topics.length) return null;
  return button("Reset offsets", { onclick: () => askToReset(page, group, topics) });
}

function askToReset(page, group, topics) {
  const hourAgo = localTime(Date.now() - 3_600_000);
  const wish = { topic: topics[0], place: "time", time: hourAgo, plan: null, problem: "", asked: 0 };
  let draw = () => {};
  const look = () => preview(group, wish, () => draw());
  look();
  return ask({
    title: `Reset offsets of group ${group}?`,
    body: (redraw) => {
      draw = redraw;
      return [fields(wish, topics, () => changed(wish, look, redraw)), outcome(wish)];
    },
    action: "Reset offsets",
    kind: "danger",
    run: () => {
      const time = timeOf(wish);
      if (time === null) throw new Error("Choose a time first.");
      if (!wish.plan) throw new Error("Wait for what it would change.");
      const body = { action: "reset", topic: wish.topic, time_ms: time };
      return done(page, post(pathOf("api", "rocketmq", "groups", group), body),
        `Group ${group} goes on there.`, "", "Nothing was changed.");
    },
  });
}

function changed(wish, look, redraw) {
  wish.plan = null;
  wish.problem = "";
  clearTimeout(wish.timer);
  wish.timer = setTimeout(look, PAUSE_MS);
  redraw();
}

async function preview(group, wish, drawn) {
  const time = timeOf(wish);
  const asked = ++wish.asked;
  if (time === null) return;
  const path = pathOf("api", "rocketmq", "groups", group, "offsets");
  let found = { plan: null, problem: "" };
  try {
    const { queues, message } = await get(path, { topic: wish.topic, time_ms: time });
    found = { plan: queues, problem: message };
  } catch (error) {
    found.problem = error.message;
  }
  if (asked !== wish.asked) return; // the wish is another one meanwhile
  Object.assign(wish, found);
  drawn();
}

/** In ms; null while there is none. */
function timeOf({ place, time }) {
  if (place === "end") return TO_THE_END;
  if (place === "beginning") return 0;
  const ms = new Date(time).getTime();
  return Number.isFinite(ms) && ms >= 0 ? ms : null;
}

function fields(wish, topics, onchange) {
  return [
    topics.length > 1 && h("label", { class: "field" }, h("span", {}, "Topic"),
      h("select", { class: "input", value: wish.topic, onchange: (event) => {
        wish.topic = event.target.value;
        onchange();
      } }, topics.map((topic) => h("option", { key: topic, value: topic }, topic)))),
    h("div", { class: "choice", role: "group", "aria-label": "Go on at" }, PLACES.map(([place, title]) =>
      h("button", { key: place, type: "button", "aria-pressed": String(wish.place === place), onclick: () => {
        wish.place = place;
        onchange();
      } }, title))),
    wish.place === "time" && h("label", { class: "field" }, h("span", {}, "Messages stored since"),
      h("input", {
        class: "input", type: "datetime-local", step: "1", value: wish.time, oninput: (event) => {
          wish.time = event.target.value;
          onchange();
        },
      })),
  ];
}

function outcome({ topic, plan, problem }) {
  const again = plan?.reduce((sum, each) => sum + Math.max(0, each.committed - each.wanted), 0);
  const skipped = plan?.reduce((sum, each) => sum + Math.max(0, each.wanted - each.committed), 0);
  return h("div", { class: "preview" },
    problem && h("p", { class: "dialog-error" }, problem),
    !plan && !problem && h("p", { class: "faint" }, "Looking what it would change"),
    plan && h("p", { role: "status" }, again + skipped === 0 ? `Nothing changes in topic ${topic}.` : [
      again > 0 && `${many(again, "message")} of ${topic} ${again === 1 ? "is" : "are"} consumed again. `,
      skipped > 0 && `${many(skipped, "message")} of ${topic} ${skipped === 1 ? "is" : "are"} skipped.`]),
    plan?.length > 0 && h("div", { class: "table" }, h("div", { class: "table-box" }, h("table", {},
      h("caption", { class: "hidden" }, "What would change"),
      h("thead", {}, h("tr", {}, h("th", {}, "Queue"), ["Now", "Then", "Change"].map((title) =>
        h("th", { class: "number" }, title)))),
      h("tbody", {}, plan.slice(0, QUEUES_MAX).map(planRow))))));
}

function planRow({ broker, queue, committed, wanted }) {
  const change = wanted - committed;
  const sign = change > 0 ? "+" : change < 0 ? "−" : "";
  return h("tr", { key: `${broker} ${queue}` },
    h("th", { scope: "row" }, `${broker} ${queue}`),
    h("td", { class: "number" }, count(committed)),
    h("td", { class: "number" }, count(wanted)),
    h("td", { class: change ? "number" : "number zero" }, sign + count(Math.abs(change))));
}
