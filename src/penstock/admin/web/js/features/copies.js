/** Second copies of nodes: who follows whom, how far behind, and what an OK promises. */

import { get } from "../core/api.js";
import { h } from "../core/dom.js";
import { bytes, count, seconds } from "../core/format.js";
import { to } from "../core/router.js";
import { table } from "../widgets/table.js";
import { badge, facts, section } from "../widgets/ui.js";
import { TITLES, textOf } from "./alerts.js";
import { many } from "./consequences.js";

const ROLES = {
  primary: ["primary", "accent", "Takes publishes and consumers"],
  follower: ["standby", "", "Keeps a copy, and takes nothing until it is promoted"],
  fenced: ["fenced", "bad", "Another node was promoted after it: it takes nothing"],
};

/** Asks for them with `load(signal)`; `all()` of them, or `of(node)`, null where a node has no copies. */
export function copies() {
  let told = [];
  return {
    async load(signal) {
      told = await known(signal);
    },
    all: () => told,
    of: (name) => told.find(({ node }) => node === name) ?? null,
  };
}

/** The rows of /api/copies; none where no daemon answers, which the pages say elsewhere. */
export async function known(signal) {
  try {
    return (await get("/api/copies", {}, signal)).copies;
  } catch (error) {
    if (error.status !== 502) throw error;
    return [];
  }
}

/** The pairs, each primary before its followers; nothing where no node has copies. */
export function copiesSection(page, rows) {
  if (!rows.length) return null;
  return section({ title: "Second copies", id: "copies" }, table(page, {
    id: "copies",
    columns: [
      { name: "node", title: "Node", value: ({ node }) => node, cell: nodeCell },
      { name: "role", title: "Role", early: true, value: ({ role }) => role, cell: roleCell },
      { name: "state", title: "State", early: true, cell: stateCell,
        value: ({ verdicts }) => verdicts.map(({ kind }) => kind).join(" ") },
      { name: "pair", title: "With", hint: "Whom it follows, or who follows it", plain: true,
        cell: pairCell },
      { name: "lag_messages", title: "Lag", hint: "Messages that the copy has not yet", numeric: true,
        value: (row) => row.lag_messages, format: count },
      { name: "lag_bytes", title: "Lag in bytes", hint: "Bytes that the copy has not yet", numeric: true,
        value: (row) => row.lag_bytes, format: bytes },
      { name: "lag_seconds", title: "Lag in time", numeric: true, value: (row) => row.lag_seconds,
        hint: "The time since the copy had all: what was acknowledged before is in it", format: seconds },
      { name: "level", title: "An OK waits for", value: levelText, cell: levelPart,
        hint: "The copies that a publish waits for, and whether they are there" },
      { name: "promotion", title: "Promotion", value: promotionText, cell: promotionPart,
        hint: "Of a copy whether it may be promoted, of a primary whether it holds a lease" },
      { name: "epoch", title: "Epoch", hint: "Each promotion begins the next one", numeric: true,
        value: (row) => row.epoch },
    ],
    rows,
    key: ({ node }) => node,
    caption: "Nodes with second copies, and their copies",
    kind: ({ verdicts }) => verdicts[0]?.level ?? "",
  }));
}

/** What is known of one node's copies, as facts; none of a node without. */
export function copyFacts(row) {
  if (!row) return [];
  const isCopy = row.role === "follower";
  return [
    ["Role", h("span", {}, roleCell(row), " ", stateCell(row))],
    row.verdicts.length > 0 && ["What is the matter", h("span", {}, reason(row, row.verdicts[0]))],
    row.role && [isCopy ? "Follows" : row.role === "fenced" ? "Instead of it" : "Followed by",
      h("span", {}, pairCell(row))],
    isCopy && ["Lag", lagText(row)],
    row.role === "primary" && ["An OK waits for", h("span", {}, levelPart(row))],
    row.role === "primary" && row.lease_seconds != null && ["Lease", h("span", {}, promotionPart(row))],
    row.lease_members?.length > 0 && ["The lease lists", row.lease_members.join(", ")],
    isCopy && ["Promotion", h("span", {}, promotionPart(row))],
    isCopy && row.max_lag && ["Bound on its lag", row.max_lag],
    row.messages_waiting > 0 && ["Wait for copies", many(row.messages_waiting, "message")],
    row.epoch != null && ["Epoch", count(row.epoch)],
  ].filter(Boolean);
}

/** The same, in a panel with a title. */
export function copyPanel(row) {
  return row && section({ title: "Second copy", id: "copy" },
    h("div", { class: "panel" }, facts(copyFacts(row))));
}

function nodeCell({ node }) {
  return h("a", { href: to.node(node) }, node);
}

function roleCell({ role }) {
  return role ? badge(...ROLES[role]) : badge("not known", "", "It does not answer, and no primary names it");
}

function stateCell(row) {
  const { verdicts, role } = row;
  if (verdicts.length) return verdicts.map((each) => badge(TITLES[each.kind], each.level, reason(row, each)));
  if (!row.answers) return badge("no answer", "warn", "nsqadmin cannot ask it, its primary hears of it");
  return role === "follower" ? badge("follows", "good") : badge("in order", "good");
}

function reason(row, verdict) {
  return textOf({ ...verdict, copy: row });
}

function pairCell({ role, primary, followers }) {
  if (role !== "primary") return primary ? h("a", { href: to.node(primary) }, primary) : count(null);
  if (!followers.length) return h("span", { class: "faint" }, "nobody");
  return followers.map((each, at) => [at > 0 && ", ", h("a", { href: to.node(each), key: each }, each)]);
}

function levelText({ role, replicas_acked: wanted }) {
  if (role !== "primary") return "";
  if (!wanted) return "no copy";
  return wanted === 1 ? "1 copy" : `${count(wanted)} copies`;
}

function levelPart(row) {
  const { role, replicas_acked: wanted, replicas_in_force: met, replicas_missing: missing } = row;
  if (role !== "primary") return count(null);
  if (!wanted) return h("span", { class: "faint" }, levelText(row));
  const hint = `--replicas-missing=${missing}`;
  const isRefusing = missing === "refuse";
  if (met >= wanted) return [levelText(row), " ", badge("met", "good", hint)];
  return [levelText(row), " ", badge("not met", isRefusing ? "bad" : "warn", hint), " ",
    h("span", { class: "faint" }, isRefusing ? "publishes are refused" : "goes on without")];
}

function promotionText({ role, answers, needs_force: reason, lease_seconds: left }) {
  if (role === "primary") return left == null ? "" : left > 0 ? "lease" : "no lease";
  if (role !== "follower" || !answers) return "";
  return reason ? "needs --force" : "may be promoted";
}

function promotionPart(row) {
  const text = promotionText(row);
  if (!text) return count(null);
  if (row.role === "primary") {
    return row.lease_seconds > 0
      ? badge(text, "good", `It may take publishes for ${seconds(row.lease_seconds)} more`)
      : badge(text, "bad", "It takes no publishes before penstock lease renews its lease");
  }
  return row.needs_force ? badge(text, "warn", row.needs_force)
    : badge(text, "good", `What it may lack is within its bound, ${row.max_lag}`);
}

function lagText(row) {
  return [row.lag_messages != null && many(row.lag_messages, "message"),
    row.lag_bytes != null && bytes(row.lag_bytes),
    row.lag_seconds != null && seconds(row.lag_seconds)].filter(Boolean).join(", ") || "not known";
}

