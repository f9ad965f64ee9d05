/**
 * JSON as lines to be shown, without meaning lost: numbers and strings stay as they were written,
 * keys in their order. Nothing here recurses, so no depth of nesting is too deep.
 */

const TOKEN = /("[^"\\]*(?:\\.[^"\\]*)*")|([{}[\],:])|([^\s"{}[\],:]+)/g;
const CLOSED_BY = { "{": "}", "[": "]" };
const INDENT_MAX = 40;

/**
 * What stands on one line: a value, the beginning of an object or a list, or its end.
 *
 * @typedef {object} Line
 * @property {number} depth
 * @property {string|null} key  as it is written, with its quotes
 * @property {string} text  a value as it is written, or a bracket, or both when nothing is inside
 * @property {"string"|"number"|"word"|"open"|"close"} kind
 * @property {number} count  open: of keys or elements
 * @property {number} end  open: the line with the other bracket
 * @property {boolean} comma
 */

/**
 * The lines of a text, or null when it is not JSON.
 *
 * @param {string} text
 * @returns {Line[]|null}
 */
export function jsonLines(text) {
  if (!isJson(text)) return null;
  const lines = [];
  const open = []; // the lines whose brackets are not closed yet
  let key = null;

  function put(kind, text) {
    const parent = open.at(-1);
    if (parent) parent.count += 1;
    const line = lineOf(open.length, key, text, kind);
    lines.push(line);
    key = null;
    return line;
  }

  function close(mark) {
    const line = open.pop();
    if (line.count) {
      line.end = lines.length;
      lines.push(lineOf(open.length, null, mark, "close"));
    } else {
      Object.assign(line, { text: line.text + mark, kind: "word" });
    }
  }

  for (const [, string, mark, word] of text.matchAll(TOKEN)) {
    if (string !== undefined) {
      if (open.at(-1)?.text === "{" && key === null) key = string;
      else put("string", string);
    } else if (word !== undefined) put(/[a-z]/.test(word[0]) ? "word" : "number", word);
    else if (mark in CLOSED_BY) open.push(put("open", mark));
    else if (mark === ",") lines.at(-1).comma = true;
    else if (mark !== ":") close(mark);
  }
  return lines;
}

function lineOf(depth, key, text, kind) {
  return { depth, key, text, kind, count: 0, end: -1, comma: false };
}

/** Whether this is an object or a list: what one would call JSON at a glance, unlike `42`. */
export function isJsonLike(text) {
  return /^\s*[{[]/.test(text) && isJson(text);
}

/** The closing bracket of what a line opens. */
export function closing(line) {
  return CLOSED_BY[line.text];
}

/** The lines as one text, for the clipboard. */
export function pretty(lines) {
  return lines.map(({ depth, key, text, comma }) => {
    const indent = "  ".repeat(Math.min(depth, INDENT_MAX));
    return indent + (key ? `${key}: ` : "") + text + (comma ? "," : "");
  }).join("\n");
}

function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
