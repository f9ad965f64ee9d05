/**
 * The processes and machines under the nodes: how they are, and what they have left.
 *
 * Our nsqd tells all of it. Go's has no processor time, disk or connections to tell: these cells say so.
 */

import { get } from "../core/api.js";
import { h } from "../core/dom.js";
import { bytes, count, seconds } from "../core/format.js";
import { measure } from "../core/speeds.js";
import { badge } from "../widgets/ui.js";

const QUEUES_AGAIN_S = 60;
const SPARE_WARN = 0.15;
const SPARE_BAD = 0.05;
const DIALECTS = { nsq: "NSQ", rocketmq: "RocketMQ" };
const PORTS = { tcp: "TCP", http: "HTTP", https: "HTTPS", rocketmq: "RocketMQ" };

/**
 * Asks for them with `load(signal)`; `of(node)` is what one told last, null where it does not answer.
 * `node`: one alone.
 */
export function machines(node = "") {
  const cpu = measure();
  let told = new Map();
  return {
    async load(signal) {
      const all = await answering(get("/api/machines", node ? { node } : {}, signal));
      told = new Map(all.map((each) => [each.node, each]));
      cpu.take(all.filter((each) => each.cpu_seconds != null).map((each) => [each.node, each.cpu_seconds]));
    },
    of(name) {
      const machine = told.get(name);
      return machine ? { ...machine, cpu: cpu.of(name) } : null;
    },
  };
}

/**
 * Asks now and then which nodes are Go's: `isGo(node)`. A node of Penstock has all messages that wait in its
 * log, on disk; Go's keeps some in memory alone, which are lost if it is killed.
 */
export function memoryQueues(page) {
  const known = machines();
  page.load(known.load, QUEUES_AGAIN_S);
  return { isGo: (node) => known.of(node)?.penstock_version === null };
}

/** The machines of an answer; none where no node answers, which the pages say elsewhere. */
async function answering(asked) {
  try {
    return (await asked).machines;
  } catch (error) {
    if (error.status !== 502) throw error;
    return [];
  }
}

/** Columns of a table whose rows have a `machine`, or null where none answers. */
export function machineColumns() {
  return [
    { name: "health", title: "Health", value: ({ machine }) => healthText(machine), cell: healthCell },
    { name: "uptime", title: "Up", hint: "For how long the process runs", numeric: true,
      value: ({ machine }) => uptime(machine), format: seconds },
    column("connections", "Connections", "Clients of both dialects", connected, count,
      ({ connections }) => each(connections, DIALECTS)),
    column("cpu", "CPU", "Of one processor; the hint says how many there are", ({ cpu }) => cpu, percent,
      ({ cpus }) => cpus && `${count(cpus)} processors`),
    column("memory", "Memory", "In RAM; of Go's nsqd the heap in use", memory, bytes,
      ({ heap }) => heap != null && "Heap in use"),
    { ...column("disk", "Disk free", "Of the data path's file system", ({ disk }) => disk?.free, bytes),
      cell: diskCell },
  ];
}

/**
 * A column of numbers; what a node does not tell is said in words.
 *
 * @param {string} name
 * @param {string} title
 * @param {string} hint
 * @param {(machine: any) => number} of
 * @param {(number: number) => string} format
 * @param {(machine: any) => string|null} [about]
 */
function column(name, title, hint, of, format, about = () => null) {
  const value = ({ machine }) => (machine ? of(machine) : null);
  const cell = (row) => {
    if (!row.machine) return count(null);
    const number = value(row);
    if (number != null) return h("span", { title: about(row.machine) || null }, format(number));
    return isComing(name, row.machine) ? count(null) : notTold();
  };
  return { name, title, hint, numeric: true, value, cell };
}

/** A rate takes two looks. */
function isComing(name, { cpu_seconds: used }) {
  return name === "cpu" && used != null;
}

function notTold() {
  return h("span", { class: "faint", title: "This node does not tell it: Go's nsqd has no such figure" },
    "not told");
}

function connected({ connections }) {
  return connections && Object.values(connections).reduce((sum, number) => sum + number, 0);
}

function memory({ resident, heap }) {
  return resident ?? heap;
}

function uptime(machine) {
  return machine?.start_time == null ? null : Math.max(0, Date.now() / 1000 - machine.start_time);
}

function percent(share) {
  return `${Math.round(share * 100)} %`;
}

function each(numbers, names) {
  return numbers && Object.entries(numbers)
    .map(([name, number]) => `${names[name] ?? name} ${count(number)}`).join(", ");
}

// --- health --------------------------------------------------------------------------------------

/** The lines of what is the matter with a node; empty of one that is well. */
export function reasons({ health, missing, disk }) {
  const lines = [health !== "OK" && health, ...(missing ?? [])].filter(Boolean)
    .map((line) => line.replace(/^NOK - /, ""));
  const share = spare(disk);
  if (share < SPARE_WARN) lines.push(`${percent(share)} of the disk is free`);
  return [...new Set(lines)];
}

function spare(disk) {
  return disk && disk.used + disk.free > 0 ? disk.free / (disk.used + disk.free) : 1;
}

function healthText(machine) {
  return machine ? reasons(machine).join(" ") || "healthy" : "";
}

function healthCell({ machine }) {
  if (!machine) return count(null);
  return healthBadge(machine);
}

/** A badge with the reasons as its hint, and the first of them beside it. */
export function healthBadge(machine) {
  const [first, ...more] = reasons(machine);
  if (!first) return badge("healthy", "good");
  const isBad = machine.health !== "OK" || spare(machine.disk) < SPARE_BAD;
  return [badge(isBad ? "unhealthy" : "look", isBad ? "bad" : "warn", [first, ...more].join("\n")), " ",
    h("span", { class: "reason" }, first, more.length > 0 && ` and ${count(more.length)} more`)];
}

function diskCell({ machine }) {
  if (!machine) return count(null);
  const { disk } = machine;
  if (!disk) return notTold();
  const share = spare(disk);
  const text = bytes(disk.free);
  const title = `${percent(share)} of ${bytes(disk.total)}`;
  if (share >= SPARE_WARN) return h("span", { title }, text);
  return badge(text, share < SPARE_BAD ? "bad" : "warn", title);
}

// --- versions and ports --------------------------------------------------------------------------

/** NSQ's version, and Penstock's where the node is ours. */
export function versions(version, machine) {
  return [version, machine?.penstock_version &&
    h("span", { class: "faint" }, ` · Penstock ${machine.penstock_version}`)];
}

/** The ports of all dialects: "4150 TCP, 4151 HTTP, 10911 RocketMQ". */
export function portsText(machine, node = {}) {
  const ports = machine?.ports ?? { tcp: node.tcp_port, http: node.http_port };
  return Object.entries(ports).filter(([, port]) => port > 0)
    .map(([name, port]) => `${port} ${PORTS[name] ?? name}`).join(", ");
}

/** All of it, as facts. */
export function machineFacts(machine) {
  if (!machine) return [];
  const { disk, connections, cpus, cpu, heap, resident } = machine;
  const told = (text) => text || notTold();
  return [
    ["Health", healthBadge(machine)],
    ["Up for", seconds(uptime(machine))],
    ["Connections", told(each(connections, DIALECTS))],
    ["CPU", cpu != null ? `${percent(cpu)} of one of ${count(cpus)} processors`
      : isComing("cpu", machine) ? count(null) : notTold()],
    ["Memory", resident != null ? `${bytes(resident)} in RAM`
      : told(heap != null && `${bytes(heap)} of heap in use`)],
    ["Disk", told(disk && `${bytes(disk.free)} of ${bytes(disk.total)} free`)],
  ];
}
