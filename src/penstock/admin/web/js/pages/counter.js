/** The messages of all channels, counted up: something to look at from across the room. */

import { get } from "../core/api.js";
import { h } from "../core/dom.js";
import { rate } from "../core/format.js";
import { tally } from "../features/running_total.js";
import { sparkline } from "../widgets/chart.js";
import { warning } from "../widgets/columns.js";
import { rolling } from "../widgets/counting.js";
import { graphs } from "../widgets/graphite.js";
import { loading } from "../widgets/ui.js";

const AGAIN_S = 2;
/** Answers of large clusters are long: after one, nothing is asked for this many times as long. */
const REST = 4;
const POINTS_MAX = 360;

export default function counter(page) {
  page.title = "Counter";
  const told = { sum: tally(), at: 0, due: 0, seconds: AGAIN_S, rates: [], message: "" };
  page.load((signal) => ask(told, signal), AGAIN_S);

  return () => [
    h("h1", { class: "hidden" }, "Counter"),
    warning(told.message, page),
    told.at ? figures(told) : !page.error && loading("Counting"),
    graphs(page, {}),
  ];
}

async function ask(told, signal) {
  const began = performance.now() / 1000;
  if (began < told.due) return;
  const { stats, message } = await get("/api/counter", {}, signal);
  const now = performance.now() / 1000;
  const came = told.sum.take(Object.entries(stats).map(([key, each]) => [key, each.message_count]));
  if (told.at) {
    told.seconds = now - told.at;
    told.rates = [...told.rates, came / told.seconds].slice(-POINTS_MAX);
  }
  Object.assign(told, { at: now, due: now + REST * (now - began), message });
}

function figures({ sum, seconds, rates }) {
  const now = rates.at(-1);
  return h("div", { class: "counter" },
    rolling(sum.total, seconds),
    h("p", { class: "counter-name" }, "messages processed"),
    h("p", { class: "counter-rate" }, now === undefined ? "\u00a0" : rate(now)),
    h("div", { class: "counter-line" },
      sparkline(rates, { title: `The rate since this page was opened, now ${rate(now)}` })),
    h("p", { class: "counter-note" },
      "What came to channels since their nodes started; a message counts once in each channel."));
}
