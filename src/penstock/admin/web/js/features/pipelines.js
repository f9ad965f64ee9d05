/** Spark's pipelines (of /api/pipelines) in words: their state, their way, their last error. */

import { h } from "../core/dom.js";
import { ago, seconds } from "../core/format.js";
import { to } from "../core/router.js";
import { badge } from "../widgets/ui.js";

const STATES = {
  starting: ["", "It runs and has not done its first batch yet"],
  running: ["good", "It told so within the last half minute"],
  stopped: ["", "It has ended, without an error"],
  failed: ["bad", "It has ended with an error"],
  silent: ["bad", "It has not ended, and tells nothing: it was killed, or cannot reach the nodes"],
};

export function stateBadge({ state, age }) {
  const [kind, hint] = STATES[state] ?? ["", ""];
  const since = ["running", "starting"].includes(state) ? "" : ` ${seconds(age)}`;
  return badge(state + since, kind, hint);
}

/** Source and sink, as the pipeline calls them: "nsq orders → parquet /lake". */
export function wayOf({ source, sink }) {
  return h("span", { class: "pipeline-way" },
    h("span", {}, source || "?"), " → ", h("span", {}, sink || "?"));
}

export function pipelineLink({ id, name }) {
  return h("a", { href: to.pipeline(id) }, name);
}

/** How long its last micro-batch took, in nanoseconds; null before the first of this run. */
export function batchTime({ batch, batch_ms: ms }) {
  return batch < 0 ? null : ms * 1e6;
}

/** The last error, with how long ago it was; null without one. */
export function lastError({ error, error_at }) {
  if (!error) return null;
  return h("span", { class: "pipeline-error" }, h("b", {}, `${ago(error_at)}: `), error);
}
