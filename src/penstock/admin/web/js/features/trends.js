/** How a figure of many topics went in the last hour: only of those looked at, asked one by one. */

import { ApiError, get } from "../core/api.js";
import { settings } from "../core/settings.js";

const ASKED_MAX = 100;
const POINTS_MAX = 720;
const DRAWN_AT_ONCE = 10;
const GAP = 2.5;

/**
 * A function from a topic to the values of the last hour of `figure` ("in", "depth", ...), kept up
 * with what the page follows; an empty list until they are there, null for topics beyond the first
 * hundred and without a history.
 */
export function trends(page, figure) {
  const known = new Map();
  const wanted = [];
  const abort = new AbortController();
  let at = 0;
  let isAsking = false;
  page.leave(() => abort.abort());

  page.listen(() => {
    if (page.live.at === at) return;
    if (at && page.live.at - at > GAP * settings.historyInterval) known.clear(); // nobody looked meanwhile
    at = page.live.at;
    for (const [topic, values] of known) {
      const value = page.live.row(topic)?.[figure] ?? null;
      if (values.length) known.set(topic, [...values.slice(1 - POINTS_MAX), value]);
    }
  });

  async function ask() {
    if (isAsking) return;
    isAsking = true;
    while (wanted.length && !abort.signal.aborted) {
      const topic = wanted.shift();
      try {
        known.set(topic, (await get("/api/history", { topic }, abort.signal))[figure]);
        if (wanted.length % DRAWN_AT_ONCE === 0) page.redraw();
      } catch (error) {
        if (!abort.signal.aborted && !(error instanceof ApiError)) throw error; // no line, then
      }
    }
    isAsking = false;
  }

  return (topic) => {
    const isWanted = known.size < ASKED_MAX && settings.historyInterval && page.live.row(topic);
    if (isWanted && !known.has(topic)) {
      known.set(topic, []);
      wanted.push(topic);
      ask();
    }
    return known.get(topic) ?? null;
  };
}
