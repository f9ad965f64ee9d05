/** Rewinding a channel: it goes on from a time, after a look at what will be delivered (again). */

import { get, post, remark } from "../../core/api.js";
import { h } from "../../core/dom.js";
import { count, localTime } from "../../core/format.js";
import { to } from "../../core/router.js";
import { settings } from "../../core/settings.js";
import { ask } from "../../widgets/dialog.js";
import { button } from "../../widgets/ui.js";
import { done } from "../actions.js";
import { many } from "../consequences.js";
import { timeOf } from "./place.js";

const PLACES = [["time", "A time"], ["oldest", "The oldest"], ["newest", "The end"]];
const NODES_MAX = 32; // of a preview; the sums are of all
const PAUSE_MS = 300;
const HOUR_MS = 3_600_000;
const FIGURES = ["delivered", "again", "skipped"];

/** The button that lets a channel (ChannelStats) go on from another place of the log. */
export function rewindAction(page, { topic_name: topic, channel_name: channel }) {
  if (!settings.isAdmin) return null;
  return button("Rewind", { onclick: () => askToRewind(page, topic, channel) });
}

function askToRewind(page, topic, channel) {
  const wish = { topic, channel, place: "time", time: localTime(Date.now() - HOUR_MS),
    plan: null, problem: "", asked: 0, draw: () => {} };
  look(wish);
  return ask({
    title: `Rewind channel ${channel}?`,
    body: (draw) => {
      wish.draw = draw;
      return [fields(wish), outcome(wish)];
    },
    action: "Rewind channel",
    kind: "danger",
    run: () => {
      if (!wish.plan?.length) throw new Error("There is nothing to do yet: choose another time.");
      const offsets = Object.fromEntries(wish.plan.map(({ node, offset }) => [node, offset]));
      return done(page, post("/api/rewind", { topic, channel, offsets }),
        `Channel ${channel} goes on from there.`, "", "Nothing was changed.");
    },
  });
}

function placeOf({ place, time }) {
  return place === "time" ? timeOf(time) : place;
}

function changed(wish) {
  Object.assign(wish, { plan: null, problem: "" });
  clearTimeout(wish.timer);
  wish.timer = setTimeout(() => look(wish), PAUSE_MS);
  wish.draw();
}

async function look(wish) {
  const { topic, channel } = wish;
  const asked = ++wish.asked;
  const from = placeOf(wish);
  if (!from) return;
  let found;
  try {
    const { nodes, message } = await get("/api/rewind", { topic, channel, from });
    found = { plan: nodes, problem: remark(message) };
  } catch (error) {
    found = { plan: null, problem: error.message };
  }
  if (asked !== wish.asked) return; // the wish is another one meanwhile
  Object.assign(wish, found);
  wish.draw();
}

function fields(wish) {
  const choose = (place) => {
    wish.place = place;
    changed(wish);
  };
  return [
    h("div", { class: "choice", role: "group", "aria-label": "Go on at" }, PLACES.map(([place, title]) =>
      h("button", {
        key: place,
        type: "button",
        "aria-pressed": String(wish.place === place),
        onclick: () => choose(place),
      }, title))),
    wish.place === "time" && h("label", { class: "field" }, h("span", {}, "Messages published since"),
      h("input", {
        class: "input", type: "datetime-local", step: "1", value: wish.time, oninput: (event) => {
          wish.time = event.target.value;
          changed(wish);
        },
      })),
  ];
}

function outcome(wish) {
  const { plan, problem, topic } = wish;
  const from = placeOf(wish);
  return h("div", { class: "preview" },
    problem && h("p", { class: "dialog-error" }, problem),
    !plan && !problem && h("p", { class: "faint" }, "Looking what it would change"),
    plan?.length > 0 && [
      h("p", { role: "status" }, told(plan)),
      h("p", {}, h("a", { href: to.topic(topic, { tab: "messages", from }), target: "_blank" },
        "See the messages from there on")),
      effects(plan),
    ]);
}

function told(plan) {
  const [delivered, again, skipped] = FIGURES.map((name) => sum(plan, name));
  const next = delivered === 0 ? "Nothing is delivered until something new comes."
    : `${many(delivered, "message")} ${delivered === 1 ? "is" : "are"} delivered` +
      (again ? `, ${count(again)} of them again.` : "; the channel has finished none of them.");
  const lost = skipped
    ? ` ${many(skipped, "message")} that it still needs ${skipped === 1 ? "is" : "are"} skipped.` : "";
  return `${next}${lost} What is in flight cannot be finished then.`;
}

function sum(plan, name) {
  return plan.reduce((total, each) => total + each[name], 0);
}

function effects(plan) {
  return h("div", { class: "table" }, h("div", { class: "table-box" }, h("table", {},
    h("caption", { class: "hidden" }, "What would be delivered"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Node"),
      ["From offset", "Delivered", "Again", "Skipped"].map((title) =>
        h("th", { scope: "col", class: "number" }, title)))),
    h("tbody", {}, plan.slice(0, NODES_MAX).map((each) => h("tr", { key: each.node },
      h("th", { scope: "row" }, each.node),
      ["offset", ...FIGURES].map((name) =>
        h("td", { key: name, class: each[name] ? "number" : "number zero" }, count(each[name])))))))));
}
