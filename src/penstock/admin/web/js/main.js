/** Starts the pages: shows the one that the address bar names, and another when that changes. */

import { ApiError } from "./api.js";
import { h, render } from "./dom.js";
import { follow } from "./live.js";
import { listen, place } from "./router.js";
import { shell } from "./shell.js";

const AGAIN_S = 3;

const root = document.getElementById("page");
let current = null;
let isDue = false;

/** Draws before the next frame, however often it is asked for until then. */
function redraw() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(draw);
}

function draw() {
  isDue = false;
  document.title = [current.title, "nsqadmin"].filter(Boolean).join(" · ");
  render(root, shell(current, current.view()));
}

/**
 * What a page is given:
 *
 * - `names`, `query`: of the address bar; `query` is what it is now, `queried` is called when it changes;
 * - `redraw()`: shows `view()` anew;
 * - `load(work, seconds)`: runs the async `work(signal)` now, and again every few seconds while the page
 *   can be seen; resolves after the first time. When it fails, `error` is set and what was there stays.
 *   `reload()` runs all of them at once, as after an action;
 * - `follow(wish)`: the newest figures of what live.js calls a wish, drawn whenever they change; `live`
 *   is the same afterwards;
 * - `leave(work)`: runs `work()` when the page is left;
 * - `title`: may be set.
 */
function context(at) {
  const abort = new AbortController();
  const loads = [];
  const page = {
    ...at,
    title: "",
    error: null,
    live: null,
    queried: null,
    view: () => null,
    redraw: () => page === current && redraw(),
    leave: (work) => abort.signal.addEventListener("abort", work),
    close: () => abort.abort(),
    reload: () => Promise.all(loads.map((load) => load())),
    follow(wish) {
      page.live = follow(wish, page.redraw);
      page.leave(page.live.stop);
      return page.live;
    },
    load(work, seconds = AGAIN_S) {
      const run = () => once(page, work, abort.signal);
      const timer = setInterval(() => document.hidden || run(), seconds * 1000);
      page.leave(() => clearInterval(timer));
      loads.push(run);
      return run();
    },
  };
  return page;
}

/** One run at a time: a slow server is not asked again before it has answered. */
async function once(page, work, signal) {
  if (work.isRunning || signal.aborted) return;
  work.isRunning = true;
  try {
    await work(signal);
    if (page.error?.work === work) page.error = null;
  } catch (error) {
    if (signal.aborted) return;
    page.error = Object.assign(error, { work });
    if (!(error instanceof ApiError)) console.error(error);
  } finally {
    work.isRunning = false;
  }
  page.redraw();
}

async function show(isNewPage) {
  const at = place();
  if (!isNewPage) {
    current.query = at.query;
    current.queried?.();
    redraw();
    return;
  }
  current?.close();
  const page = (current = context(at));
  const opened = (await import(`./pages/${at.page}.js`)).default;
  if (page !== current) return;
  page.view = opened(page);
  redraw();
}

listen(show);
document.addEventListener("visibilitychange", () => document.hidden || current?.reload());
show(true);
