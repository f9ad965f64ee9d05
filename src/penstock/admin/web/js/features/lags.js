/** How the lags of groups went in the last hour: the server's history, then what a page has loaded since. */

import { ApiError, get } from "../core/api.js";
import { settings } from "../core/settings.js";

const ASKED_MAX = 60;
const POINTS_MAX = 720;
const APART_S = settings.historyInterval || 3;
const NOTHING = Object.freeze({ times: [], values: [] });

const memories = new WeakMap();

/**
 * A function from a group (of /api/groups) to `{times, values}`: unix seconds and messages. `groups`
 * is what was loaded last. The history of the first groups only is asked for, one after another.
 */
export function lags(page, groups) {
  if (!memories.has(page)) memories.set(page, begun(page));
  const memory = memories.get(page);
  if (memory.groups !== groups) {
    memory.groups = groups;
    for (const group of groups) note(memory, group);
    recall(page, memory);
  }
  return (group) => memory.pasts.get(nameOf(group)) ?? NOTHING;
}

function begun(page) {
  const abort = new AbortController();
  page.leave(() => abort.abort());
  return { groups: null, pasts: new Map(), wanted: [], isAsking: false, signal: abort.signal };
}

function note(memory, group) {
  const name = nameOf(group);
  const now = Date.now() / 1000;
  if (!memory.pasts.has(name)) {
    memory.pasts.set(name, { times: [], values: [] });
    // nsqadmin keeps the past of nodes, whose names are addresses; of brokers a page knows what it has seen
    const hasPast = settings.historyInterval && group.nodes.some(({ node }) => node.includes(":"));
    if (hasPast && memory.pasts.size <= ASKED_MAX) memory.wanted.push(group);
  }
  const { times, values } = memory.pasts.get(name);
  if (now - (times.at(-1) ?? 0) < APART_S) return;
  times.push(now);
  values.push(group.lag);
  if (times.length > POINTS_MAX) [times, values].forEach((each) => each.shift());
}

async function recall(page, memory) {
  if (memory.isAsking) return;
  memory.isAsking = true;
  while (memory.wanted.length && !memory.signal.aborted) {
    const group = memory.wanted.shift();
    const query = { topic: group.topic, channel: "@" + group.group };
    try {
      prepend(memory.pasts.get(nameOf(group)), await get("/api/history", query, memory.signal));
      page.redraw();
    } catch (error) {
      if (!memory.signal.aborted && !(error instanceof ApiError)) throw error; // without a past, then
    }
  }
  memory.isAsking = false;
}

/** The server's newest point counts as of when it was asked: clocks may differ. */
function prepend(past, told) {
  const shift = past.times[0] - told.times.at(-1) - APART_S;
  past.times.unshift(...told.times.map((time) => time + shift));
  past.values.unshift(...told.depth);
}

const nameOf = (group) => [group.topic, group.group, group.kind].join(",");
