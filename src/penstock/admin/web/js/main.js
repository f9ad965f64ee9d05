/** Starts the pages: shows the one that the address bar names, and another when that changes. */

import { ApiError } from "./core/api.js";
import { render } from "./core/dom.js";
import { listenToKeys } from "./core/keys.js";
import { follow } from "./core/refresh.js";
import { listen, place } from "./core/router.js";
import { shell } from "./core/shell.js";
import { notice } from "./widgets/ui.js";

const AGAIN_S = 3;
const RESTS = 2; // as many times as long as the answer took
const RESTS_MS_MAX = 15_000;

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
  render(root, shell(current, drawn(current)));
}

/** What the page shows; a mistake in a page is told, and the header still leads elsewhere. */
function drawn(page) {
  try {
    return page.view();
  } catch (error) {
    console.error(error);
    return notice("bad", `This page cannot be shown: ${error.message}`);
  }
}

/**
 * What a page is given:
 *
 * - `names`, `query`: of the address bar; `query` is what it is now;
 * - `redraw()`: shows `view()` again;
 * - `load(work, seconds)`: runs the async `work(signal)` now, and again every few seconds while the page
 *   can be seen (0: only by `reload()`), less often what takes long; resolves after the first time.
 *   When it fails, `error` is set and what was there stays;
 *   `error.since` is when it last succeeded, `taken` when any did (unix seconds, 0: never).
 *   `reload()` runs all of them at once, as after an action; after `await rest(true)` nothing is being
 *   loaded, nor will be before `rest(false)`: as long as what the page shows is being deleted;
 * - `follow(wish)`: the newest figures of a wish (core/refresh.js), drawn whenever they change; `live`
 *   is the same afterwards; `listen(work)` runs `work()` before each drawing with newer figures;
 * - `pause(true)`: figures stand still until `pause(false)`; `isPaused`;
 * - `leave(work)`: runs `work()` when the page is left;
 * - `title`: may be set.
 */
function context(at) {
  const abort = new AbortController();
  const loads = [];
  const works = [];
  const listeners = [];
  const page = {
    ...at,
    title: "",
    error: null,
    taken: 0,
    isPaused: false,
    isResting: false,
    live: null,
    view: () => null,
    redraw: () => page === current && redraw(),
    leave: (work) => abort.signal.addEventListener("abort", work),
    close: () => abort.abort(),
    reload: () => Promise.all(loads.map((load) => load(true))),
    listen: (work) => listeners.push(work),
    follow(wish) {
      let wasLost = false;
      page.live = follow(wish, () => {
        if (page.live.isLost && !wasLost) page.reload(); // the answers say why
        wasLost = page.live.isLost;
        listeners.forEach((work) => work());
        page.redraw();
      });
      page.leave(page.live.stop);
      return page.live;
    },
    pause(isPaused) {
      page.isPaused = isPaused;
      page.live?.pause(isPaused);
      if (!isPaused) page.reload();
      page.redraw();
    },
    rest(isResting) {
      page.isResting = isResting;
      return Promise.all(works.map((work) => work.run));
    },
    load(work, seconds = AGAIN_S) {
      const run = (isAnew) => once(page, work, abort.signal, isAnew);
      const isEarly = () => document.hidden || page.isPaused || performance.now() < work.due;
      const timer = seconds && setInterval(() => isEarly() || run(), seconds * 1000);
      page.leave(() => clearInterval(timer));
      loads.push(run);
      works.push(work);
      return run();
    },
  };
  return page;
}

/**
 * One run at a time: a slow server is not asked again before it has answered. `isAnew`: what is
 * running may have been answered before a change, so there is another run after it.
 */
async function once(page, work, signal, isAnew = false) {
  if (work.run) {
    await work.run;
    if (!isAnew) return;
  }
  if (signal.aborted || page.isResting) return;
  const began = performance.now();
  work.run ??= attempt(page, work, signal).finally(() => {
    work.run = null;
    const now = performance.now();
    work.due = now + Math.min(RESTS * (now - began), RESTS_MS_MAX);
  });
  await work.run;
}

async function attempt(page, work, signal) {
  try {
    await work(signal);
    page.taken = work.taken = Date.now() / 1000;
    if (page.error?.work === work) page.error = null;
  } catch (error) {
    if (signal.aborted) return;
    page.error = Object.assign(error, { work, since: work.taken ?? 0 });
    if (!(error instanceof ApiError)) console.error(error);
  }
  page.redraw();
}

async function show(isNewPage) {
  const at = place();
  if (!isNewPage) {
    current.query = at.query;
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
listenToKeys(() => current);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && current && !current.isPaused) current.reload();
});
show(true);
