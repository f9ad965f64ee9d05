/** Fields of the dialogs that make and change topics and groups. */

import { get } from "../../core/api.js";
import { h } from "../../core/dom.js";

/** The words for what brokers have not alike. */
export const VARIES = "as each broker has it";

const NAME = /^[%|a-zA-Z0-9_-]+$/;

/** A field with its name before it. */
export function field(title, input) {
  return h("label", { class: "field" }, h("span", {}, title), input);
}

/** A text or a number that goes to `wish[name]`. */
export function entry(wish, name, more = {}) {
  return h("input", {
    class: "input", type: "text", autocomplete: "off", spellcheck: "false", value: String(wish[name] ?? ""),
    ...more,
    oninput: (event) => {
      wish[name] = event.target.value;
    },
  });
}

export function numberEntry(wish, name, min, max) {
  return entry(wish, name, { type: "number", min, max, inputmode: "numeric",
    placeholder: wish[name] === null ? VARIES : null });
}

/** One of `choices`, [[value, title], ...], for `wish[name]`. */
export function choice(wish, name, choices, redraw = () => {}) {
  return h("select", { class: "input", value: wish[name], onchange: (event) => {
    wish[name] = event.target.value;
    redraw();
  } }, choices.map(([value, title]) => h("option", { key: value, value }, title)));
}

/** A box to check, for `wish[name]`. */
export function box(wish, name, title, redraw) {
  const onchange = () => {
    wish[name] = !wish[name];
    redraw();
  };
  return h("label", { class: "box", title: wish[name] === null ? VARIES : null }, h("input", {
    type: "checkbox", checked: Boolean(wish[name]), indeterminate: wish[name] === null, onchange,
  }), " ", title);
}

/**
 * What `rows` have alike, by the names of `usual`, which stands for them where there are none. What they
 * do not have alike is null: it stays as it is unless somebody chooses otherwise.
 */
export function common(rows, usual) {
  const [first = usual, ...others] = rows;
  return Object.fromEntries(Object.keys(usual).map((name) =>
    [name, others.every((each) => each[name] === first[name]) ? first[name] : null]));
}

/** The choice of a broker, or of all; the names come when they are known. `chosen()` follows a choice. */
export function brokerField(wish, redraw, chosen) {
  if (!wish.known) {
    wish.known = [];
    get("/api/rocketmq").then(({ brokers }) => {
      wish.known = [...new Set(brokers.map(({ broker }) => broker))].sort();
      redraw();
    }, () => {}); // all of them can be chosen without their names
  }
  if (wish.known.length < 2) return null;
  const names = wish.known.map((name) => [name, name]);
  return field("On", choice(wish, "broker", [["", "all brokers"], ...names], chosen));
}

/** A whole number within these bounds, or null where it was. Throws an Error that names the field. */
export function whole(text, title, min, max) {
  if (text === null) return null;
  const number = Number(text);
  if (String(text).trim() === "" || !Number.isInteger(number) || number < min || number > max) {
    throw new Error(`${title}: a whole number from ${min} to ${max}.`);
  }
  return number;
}

/** The name of a topic or a group. Throws an Error that says what it can be. */
export function named(name, most) {
  if (name.length > most) throw new Error(`A name has ${most} characters at most.`);
  if (!NAME.test(name)) throw new Error("A name has letters, digits, “_”, “-”, “%” and “|”.");
  return name;
}
