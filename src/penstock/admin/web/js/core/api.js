/** The HTTP API of nsqadmin. Every call resolves to the answer, or rejects with an ApiError. */

import { settings } from "./settings.js";

const PATIENCE_MS = 30_000;

/** What the server said no with; `status` is 0 when it could not be asked. */
export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** The path of these parts, each escaped: names may hold `#` and what else a URL means something by. */
export function pathOf(...parts) {
  return "/" + parts.map(escaped).join("/");
}

/** The names `.` and `..` would lead to another place, even escaped: they are `~.` and `~..` in a path. */
function escaped(part) {
  return /^\.\.?$/.test(part) ? `~${part}` : encodeURIComponent(part);
}

/** The address of a path, for links and downloads. `query` leaves out what is empty. */
export function urlOf(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value != null);
  const text = new URLSearchParams(given).toString();
  return settings.basePath + path + (text ? "?" + text : "");
}

/** The warnings beside an answer, without the word in front. */
export const remark = (message) => message.replace(/^WARNING: /, "");

export const get = (path, query, signal) => ask("GET", urlOf(path, query), undefined, signal);
export const post = (path, body, signal) => ask("POST", urlOf(path), body, signal);
export const del = (path, body) => ask("DELETE", urlOf(path), body);

async function ask(method, url, body, signal) {
  const late = AbortSignal.timeout(PATIENCE_MS);
  /** @type {RequestInit} */
  const request = {
    method,
    body: body === undefined ? undefined : JSON.stringify(body),
    cache: "no-store",
    signal: signal ? AbortSignal.any([signal, late]) : late,
  };
  let answer;
  let text;
  try {
    answer = await fetch(url, request);
    text = await answer.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, late.aborted ? "nsqadmin did not answer in time" : "nsqadmin cannot be reached");
  }
  const value = parsed(text);
  if (!answer.ok) {
    throw new ApiError(answer.status, value?.message || `${answer.status} ${answer.statusText}`);
  }
  if (value === undefined) throw new ApiError(answer.status, "the answer is not JSON");
  return value;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
