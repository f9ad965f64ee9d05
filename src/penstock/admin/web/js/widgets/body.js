/**
 * A message's body: as text, as JSON, as hex. Whatever is in it becomes text and nothing else.
 *
 * A message has `body`, or `body_base64` when it is not UTF-8: a preview of its `size` bytes.
 */

import { copy } from "../core/clipboard.js";
import { h } from "../core/dom.js";
import { count } from "../core/format.js";
import { setQuery } from "../core/router.js";
import { many } from "../features/consequences.js";
import { tell } from "./dialog.js";
import { hexDump, hexRows } from "./hex.js";
import { closing, isJsonLike, jsonLines, pretty } from "./json.js";
import { button } from "./ui.js";

const FIRST_LINE_MAX = 200;
const LINES = 500; // of JSON at a time
const OPEN_DEPTH = 8; // deeper ones are folded until asked for
const INDENT_MAX = 24;
const CONTROL = /[\0-\x08\x0b-\x1f\x7f]/g;
const BINARY = /[\0-\x08\x0e-\x1a\x1c-\x1f]/; // what no text has; ANSI's escapes are in logs
const KINDS = { text: "Text", json: "JSON", hex: "Hex" };
const WORDS = { "{": "key", "[": "element" };

const known = new WeakMap();

/**
 * What there is of a body.
 *
 * @returns {{bytes: Uint8Array, text: string, isUtf8: boolean, isBinary: boolean, lines?: any,
 *   drawn?: string, content?: any}} `text` has U+FFFD for what is not UTF-8; `content` is the body as it
 *   was `drawn` last
 */
export function bodyOf(message) {
  let body = known.get(message);
  if (!body) known.set(message, (body = decoded(message)));
  return body;
}

function decoded(message) {
  if (message.body_base64 === undefined) {
    const text = message.body ?? "";
    const bytes = new TextEncoder().encode(text);
    return { bytes, text, isUtf8: true, isBinary: BINARY.test(text) };
  }
  const bytes = Uint8Array.from(atob(message.body_base64), (character) => character.charCodeAt(0));
  const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
  return { bytes, text, isUtf8: false, isBinary: true };
}

/** The beginning of a body for a list: of text its first line, of other bytes the first in hex. */
export function firstLine(message) {
  const { bytes, text, isBinary } = bodyOf(message);
  if (isBinary) return hexRows(bytes.subarray(0, 16))[0].hex.trimEnd();
  const [line] = text.slice(0, FIRST_LINE_MAX * 2).trimStart().split("\n", 1);
  return visible(line.slice(0, FIRST_LINE_MAX));
}

/** A sign for every character that would not be seen, tabs and line ends but for themselves. */
function visible(text) {
  return text.replace(CONTROL, (character) =>
    String.fromCharCode(character === "\x7f" ? 0x2421 : 0x2400 + character.charCodeAt(0)));
}

/**
 * A body with what to do with it. How it is shown is `view` in the query; without one JSON is shown
 * as JSON, and what is not text as hex.
 *
 * @param {object} page
 * @param {object} message the same object as long as nothing of it has changed
 * @param {string} remark what else is to be said of how much is there
 */
export function bodyView(page, message, remark = "") {
  const body = bodyOf(message);
  body.lines ??= jsonLines(body.text);
  const kind = kindOf(body, page.query.view);
  const wanted = `${kind} ${remark}`;
  if (body.drawn !== wanted) {
    body.drawn = wanted;
    body.content = h("div", { class: "body" },
      tools(message, body, kind, remark), SHOWN[kind](body, page));
  }
  return body.content;
}

function kindOf(body, wanted) {
  if (wanted in KINDS && (wanted !== "json" || body.lines)) return wanted;
  if (body.isBinary) return "hex";
  return body.lines && isJsonLike(body.text) ? "json" : "text";
}

function tools(message, body, kind, remark) {
  const size = truncation(body.bytes.length, message.size);
  const isLossy = !body.isUtf8 && kind === "text";
  return h("div", { class: "body-tools" },
    h("div", { class: "choice", role: "group", "aria-label": "Show the body as" },
      Object.entries(KINDS).map(([name, title]) => h("button", {
        type: "button",
        "aria-pressed": String(name === kind),
        disabled: name === "json" && !body.lines,
        title: name === "json" && !body.lines ? "What there is of it is not valid JSON" : null,
        onclick: () => setQuery({ view: name }),
      }, title))),
    h("span", { class: "faint grow" },
      [size, remark, isLossy && "not UTF-8, � stands for that"].filter(Boolean).join(" · ")),
    button("Copy", {
      onclick: () => copyBody(body, kind), title: `Copy what is shown, as ${KINDS[kind]}`,
    }));
}

function truncation(given, size) {
  return given < size ? `truncated: ${count(given)} of ${count(size)} bytes shown` : "";
}

async function copyBody(body, kind) {
  const text = {
    text: () => body.text,
    json: () => pretty(body.lines),
    hex: () => hexDump(body.bytes),
  };
  if (await copy(text[kind]())) tell("Copied", "good");
  else tell("The browser does not let this page copy", "bad");
}

const SHOWN = {
  text: (body) => h("pre", { class: "body-text" }, visible(body.text)),
  hex: hexView,
  json: (body, page) => h("div", { class: "body-json" }, jsonView(page, body)),
};

/** Three texts side by side, so that the bytes can be selected without their offsets. */
function hexView(body) {
  body.rows ??= hexRows(body.bytes);
  const column = (name) =>
    h("pre", { class: `hex-${name}` }, body.rows.map((row) => row[name]).join("\n"));
  // focusable, as it is wider than a phone and only the keyboard's focus can scroll it
  return h("div", { class: "body-hex", tabindex: "0", role: "group", "aria-label": "Bytes" },
    column("offset"), column("hex"), column("ascii"));
}

/** The lines that are not folded away, as many as were asked for. */
function jsonView(page, body) {
  const { lines } = body;
  body.flipped ??= new Set();
  body.linesMax ??= LINES;
  const again = () => {
    body.drawn = null;
    page.redraw();
  };
  const shown = [];
  let at = 0;
  while (at < lines.length && shown.length < body.linesMax) {
    const line = lines[at];
    const isFolded = line.kind === "open" && (line.depth >= OPEN_DEPTH) !== body.flipped.has(at);
    shown.push(lineView(line, isFolded && lines[line.end], isFolded, flip(body, at, again)));
    at = isFolded ? line.end + 1 : at + 1;
  }
  if (at < lines.length) shown.push(moreLines(body, lines.length - at, again));
  return shown;
}

function flip(body, at, again) {
  return () => {
    if (!body.flipped.delete(at)) body.flipped.add(at);
    again();
  };
}

function lineView(line, end, isFolded, onclick) {
  const depth = String(Math.min(line.depth, INDENT_MAX));
  return h("div", { class: "json-line", style: { "--depth": depth } },
    line.kind === "open" && h("button", {
      type: "button", class: "opener", onclick,
      "aria-expanded": String(!isFolded), "aria-label": isFolded ? "Unfold" : "Fold",
    }),
    line.key !== null && [h("span", { class: "json-key" }, visible(line.key)), ": "],
    h("span", { class: `json-${line.kind}` }, visible(line.text)),
    isFolded && [" … ", closing(line)],
    isFolded && h("span", { class: "faint" }, ` ${many(line.count, WORDS[line.text])}`),
    (isFolded ? end.comma : line.comma) && ",");
}

function moreLines(body, left, again) {
  return button(`Show more (up to ${count(left)} lines)`, {
    onclick: () => {
      body.linesMax += LINES * 4;
      again();
    },
  });
}
