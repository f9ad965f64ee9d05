/** Questions before something is done, and short remarks after it. */

import { h, render } from "../core/dom.js";
import { button, classes } from "./ui.js";

const TOLD_MS = { good: 5_000, warn: 10_000, bad: 15_000 };
const TOASTS_MAX = 4;

/**
 * Asks before something is done, in a modal dialog; resolves to whether it was done.
 *
 * `body` is text, a vnode, or a function that makes one (with fields, say); `losses` are the things
 * that will be gone; `typed`, when given, has to be typed first; `action` is the button's text,
 * `dismiss` that of the other; `kind` is "primary" or "danger"; `stop()`, when given, ends what runs.
 *
 * `run()` does it: what it resolves to is told, what it rejects with is shown, and one may try again.
 */
export function ask(question) {
  const { title, body, losses = [], typed = null, run } = question;
  const { action, dismiss = "Cancel", kind = "primary", stop = null } = question;
  const state = { typed: "", isRunning: false, error: "", isDone: false };
  const dialog = document.createElement("dialog");
  dialog.setAttribute("aria-labelledby", "dialog-title");
  const draw = () => render(dialog, dialogView());

  async function submit(event) {
    event.preventDefault();
    if (state.isRunning || (typed !== null && state.typed !== typed)) return;
    Object.assign(state, { isRunning: true, error: "" });
    draw();
    try {
      const text = await run();
      state.isDone = true;
      dialog.close();
      if (text) tell(text, "good");
    } catch (error) {
      Object.assign(state, { isRunning: false, error: error.message || String(error) });
      draw();
    }
  }

  function dialogView() {
    const isReady = !state.isRunning && (typed === null || state.typed === typed);
    return h("form", { class: classes("dialog", kind), method: "dialog", novalidate: true, onsubmit: submit },
      h("h2", { id: "dialog-title" }, title),
      body && h("div", { class: "dialog-body" }, typeof body === "function" ? body(draw) : body),
      losses.length > 0 && h("ul", { class: "losses" }, losses.map((loss) => h("li", {}, loss))),
      typed !== null && h("label", { class: "field" },
        h("span", {}, "Type ", h("b", { class: "name" }, typed), " to confirm"),
        h("input", {
          class: "input", type: "text", value: state.typed, autocomplete: "off", spellcheck: "false",
          autofocus: true, disabled: state.isRunning,
          oninput: (event) => {
            state.typed = event.target.value;
            draw();
          },
        })),
      state.error && h("p", { class: "dialog-error", role: "alert" }, state.error),
      h("div", { class: "dialog-foot" },
        button(stop && state.isRunning ? "Stop" : dismiss, {
          onclick: () => (stop && state.isRunning ? stop() : dialog.close()),
          disabled: state.isRunning && !stop,
          autofocus: kind === "danger" && typed === null,
        }),
        h("button", { class: classes("button", kind), type: "submit", disabled: !isReady },
          state.isRunning ? "Working" : action)));
  }

  draw();
  return opened(dialog, { mayClose: () => !state.isRunning }).then(() => state.isDone);
}

/**
 * Shows a modal dialog until it is closed: by Escape, a click beside it, or leaving the page.
 *
 * @param {HTMLDialogElement} dialog
 * @param {{mayClose?: () => boolean}} [how]
 */
export async function opened(dialog, { mayClose = () => true } = {}) {
  const close = () => mayClose() && dialog.close();
  const left = () => dialog.close();
  dialog.addEventListener("cancel", (event) => mayClose() || event.preventDefault());
  dialog.addEventListener("mousedown", (event) => event.target === dialog && close());
  addEventListener("popstate", left);
  document.body.append(dialog);
  const before = /** @type {HTMLElement|null} */ (document.activeElement);
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  removeEventListener("popstate", left);
  dialog.remove();
  if (before?.isConnected) before.focus();
}

// --- toasts --------------------------------------------------------------------------------------

const toasts = [];
let place = null;

/** Tells something for a few seconds; kind: "good" | "warn" | "bad". */
export function tell(text, kind = "good") {
  const toast = { text, kind, key: `toast ${performance.now()}` };
  toasts.push(toast);
  if (toasts.length > TOASTS_MAX) drop(toasts[0]);
  wait(toast);
  drawToasts();
}

function wait(toast) {
  toast.timer = setTimeout(() => drop(toast), TOLD_MS[toast.kind] ?? TOLD_MS.good);
}

function drop(toast) {
  clearTimeout(toast.timer);
  const at = toasts.indexOf(toast);
  if (at >= 0) toasts.splice(at, 1);
  drawToasts();
}

function drawToasts() {
  if (!place) {
    place = document.createElement("div");
    place.id = "toasts";
    place.setAttribute("role", "status");
    document.body.append(place);
  }
  render(place, toasts.map(toastView));
}

function toastView(toast) {
  return h("div", {
    key: toast.key,
    class: classes("toast", toast.kind),
    onmouseenter: () => clearTimeout(toast.timer),
    onmouseleave: () => wait(toast),
  },
  h("span", {}, toast.text),
  button("×", { kind: "quiet", "aria-label": "Close", onclick: () => drop(toast) }));
}
