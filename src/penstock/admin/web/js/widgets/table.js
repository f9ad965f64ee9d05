/** Tables: sorted and filtered by what the address bar says, quick with thousands of rows. */

import { h } from "../core/dom.js";
import { count } from "../core/format.js";
import { setQuery } from "../core/router.js";
import { button, empty as nothing, loading } from "./ui.js";

const ROWS_AT_ONCE = 100;
const MORE_AT_ONCE = 400;
const ROWS_MAX = 2_000; // more of them at once would make every drawing slow: sort or filter then

const PHONE = matchMedia("(max-width: 640px)");

const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
const shown = new WeakMap(); // page -> Map: id of a table -> how many rows it shows

/**
 * A table of `rows`; while these are not known yet (null), a placeholder.
 *
 * - `id`: its name in the query (`?<id>.sort=-depth&<id>.find=bill`), another one on each page;
 * - `columns`: each `{name, title, hint, value(row), cell(row), numeric, format, total}`. `value`
 *   (default: `row[name]`) is what sorts and filters, `cell` (default: the value, by `format`) what is
 *   shown; `format` is count() when numeric. `total: true` is the sum of the values, `total(rows)` else;
 *   `plain: true` cannot be sorted by; `early: true` comes right after the first column on a phone;
 * - `key(row)`: what tells rows apart; `sort`: the column first sorted by, "-" in front: largest first;
 * - `filter`: whether there is a filter box; `totals`: whether there is a row of totals, of what is found;
 * - `empty`: text or vnode in place of a table without rows; `caption`: what it is a table of;
 * - `kind(row)`: a class name for the row, such as "warn"; `tools`: beside the filter box;
 * - `detail(row)`: what is told below a row over its whole width, or nothing (buttons: core/unfolded.js).
 *
 * @param {any} page
 * @param {{id: string, columns: any[], rows: any[]|null, key: (row: any) => any, sort?: string,
 *   filter?: boolean, empty?: any, totals?: boolean, caption?: string, kind?: (row: any) => any,
 *   tools?: any, detail?: (row: any) => any}} what
 */
export function table(page, {
  id, columns: all, rows, key, sort = "", filter, empty, totals, caption, kind, tools, detail,
}) {
  if (rows == null) return loading();
  const columns = inOrder(all);
  const wish = page.query[`${id}.find`] ?? "";
  const order = page.query[`${id}.sort`] ?? sort;
  const found = filter ? matching(rows, columns, wish) : rows;
  const limit = limitOf(page, id);
  const visible = sorted(found, columns, order).slice(0, limit);
  return h("div", { class: "table", id: `table-${id}`, key: `table ${id}` },
    (filter || tools) && h("div", { class: "table-tools" },
      filter && rows.length > 0 && filterBox(id, wish, found.length, rows.length),
      tools && h("div", { class: "tools" }, tools)),
    rows.length === 0
      ? typeof empty === "object" ? empty : nothing(empty ?? "Nothing here")
      : h("div", { class: "table-box", onmount: watchWidth },
        h("table", {},
          caption && h("caption", { class: "hidden" }, caption),
          h("thead", {}, h("tr", {}, columns.map((column) => headCell(id, column, order, sort)))),
          h("tbody", {}, visible.map((row) => [
            h("tr", { key: key(row), class: kind?.(row) || null },
              columns.map((column, at) => cellOf(column, row, at))),
            detailRow(detail?.(row), columns, key(row)),
          ])),
          totals && found.length > 0 && h("tfoot", {}, h("tr", {},
            columns.map((column, at) => totalCell(column, found, at))))),
        found.length === 0 && nothing(`No row matches “${wish}”`,
          button("Clear the filter", { onclick: () => setQuery({ [`${id}.find`]: null }) }))),
    found.length > limit && more(page, id, limit, found.length));
}

/** A phone shows the first columns alone until one scrolls. */
function inOrder(columns) {
  if (!PHONE.matches) return columns;
  const [lead, ...others] = columns;
  return [lead, ...others.filter(({ early }) => early), ...others.filter(({ early }) => !early)];
}

function valueOf(column, row) {
  return column.value ? column.value(row) : row[column.name];
}

function shownAs(column, value) {
  if (column.format) return column.format(value);
  return column.numeric ? count(value) : value;
}

function cellOf(column, row, at) {
  const value = valueOf(column, row);
  const content = column.cell ? column.cell(row) : shownAs(column, value);
  const look = { class: column.numeric && (value === 0 || isMissing(value) ? "number zero" : "number") };
  return at === 0 ? h("th", { scope: "row", ...look }, content) : h("td", look, content);
}

function detailRow(content, columns, key) {
  return content && h("tr", { key: `detail of ${key}`, class: "detail" },
    h("td", { colspan: columns.length }, content));
}

function totalCell(column, rows, at) {
  const look = { class: column.numeric ? "number" : null };
  if (typeof column.total === "function") return h("td", look, column.total(rows));
  if (column.total) return h("td", look, shownAs(column, sum(rows, column)));
  return at === 0 ? h("th", { scope: "row", ...look }, "Total") : h("td", look);
}

function sum(rows, column) {
  let total = 0;
  for (const row of rows) total += Number(valueOf(column, row)) || 0;
  return total;
}

// --- sorting -------------------------------------------------------------------------------------

function headCell(id, column, order, byDefault) {
  const { name, title, hint, numeric } = column;
  const isSorted = order.replace("-", "") === name;
  const isDown = order.startsWith("-");
  const look = { key: name, scope: "col", title: hint, class: numeric ? "number" : null };
  if (column.plain) return h("th", look, title || h("span", { class: "hidden" }, "Actions"));
  const next = isSorted ? (isDown ? name : `-${name}`) : numeric ? `-${name}` : name;
  const choose = () => setQuery({ [`${id}.sort`]: next === byDefault ? null : next });
  return h("th", { ...look, "aria-sort": isSorted ? (isDown ? "descending" : "ascending") : null },
    h("button", { type: "button", class: "sort", onclick: choose },
      title, h("span", { class: "arrow", "aria-hidden": "true" }, isSorted ? (isDown ? "↓" : "↑") : "")));
}

/** The rows in this order ("name" or "-name"); what is not known comes last in both. */
export function sorted(rows, columns, order) {
  const column = columns.find(({ name }) => name === order.replace("-", ""));
  if (!column) return rows;
  const sign = order.startsWith("-") ? -1 : 1;
  const pairs = rows.map((row) => [valueOf(column, row), row]);
  pairs.sort(([a], [b]) =>
    Number(isMissing(a)) - Number(isMissing(b)) || (isMissing(a) ? 0 : sign * compared(a, b)));
  return pairs.map((pair) => pair[1]);
}

function isMissing(value) {
  return value == null || Number.isNaN(value);
}

function compared(a, b) {
  return typeof a === "string" || typeof b === "string" ? collator.compare(String(a), String(b)) : a - b;
}

// --- filtering -----------------------------------------------------------------------------------

/** The rows that have every word of `wish` in a column of text. */
function matching(rows, columns, wish) {
  const words = wish.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return rows;
  const texts = columns.filter(({ numeric }) => !numeric);
  return rows.filter((row) => {
    const text = texts.map((column) => valueOf(column, row) ?? "").join("\n").toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

function filterBox(id, wish, found, all) {
  const choose = (text) => setQuery({ [`${id}.find`]: text });
  return h("div", { class: "filter" },
    h("input", {
      type: "search", class: "input", value: wish, placeholder: "Filter", title: "Key: f",
      "aria-label": "Filter", autocomplete: "off", spellcheck: "false",
      oninput: (event) => choose(event.target.value),
      onkeydown: (event) => {
        if (event.key !== "Escape") return;
        event.preventDefault();
        if (wish) choose("");
        else event.target.blur();
      },
    }),
    h("span", { class: "found", role: "status" }, wish ? `${count(found)} of ${count(all)}` : count(all)));
}

// --- many rows, wide rows ------------------------------------------------------------------------

function limitOf(page, id) {
  return shown.get(page)?.get(id) ?? ROWS_AT_ONCE;
}

function more(page, id, limit, all) {
  const show = (rows) => {
    if (!shown.has(page)) shown.set(page, new Map());
    shown.get(page).set(id, rows);
    page.redraw();
  };
  const next = Math.min(limit + MORE_AT_ONCE, all);
  return h("div", { class: "more" }, `${count(limit)} of ${count(all)} rows`,
    next < all && button(`Show ${count(next - limit)} more`, { onclick: () => show(next) }),
    all <= ROWS_MAX && button("Show all", { onclick: () => show(ROWS_MAX) }));
}

/** A table that is wider than its place gets a box that scrolls; others scroll with the page. */
function watchWidth(box) {
  const observer = new ResizeObserver(() =>
    box.classList.toggle("wide", box.firstChild.offsetWidth > box.clientWidth + 1));
  observer.observe(box);
  observer.observe(box.firstChild);
  return () => observer.disconnect();
}
