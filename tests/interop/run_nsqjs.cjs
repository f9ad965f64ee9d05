// The flows with nsqjs. The constants are those of flow.py, given as JSON in the environment.
'use strict'

const fs = require('fs')
const readline = require('readline')
const nsq = require('nsqjs')

const flow = JSON.parse(process.env.FLOW)
const [mode, tcp, lookup] = process.argv.slice(2)
const finished = {}

// The options of Writer and Reader for a mode such as `tls-deflate`.
const layers = { deflate: mode.endsWith('deflate'), tls: mode.startsWith('tls') }
if (layers.tls) {
  layers.ca = fs.readFileSync(process.env.FLOW_CA)
}

const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000))

async function until(...bodies) {
  while (!bodies.every((body) => body in finished)) await sleep(0.02)
}

async function handle(message) {
  const body = message.body.toString()
  if (body === flow.REQUEUED && message.attempts === 1) {
    message.requeue(flow.REQUEUE_MS, false)
    return
  }
  if (body === flow.TOUCHED) {
    for (let i = 0; i < flow.TOUCHES; i++) {
      await sleep(flow.TOUCH_EVERY_S)
      message.touch()
    }
  }
  message.finish()
  finished[body === flow.LONG_BODY ? flow.LONG : body] = message.attempts
}

function openReader(source) {
  const reader = new nsq.Reader(flow.TOPIC, flow.CHANNEL, {
    maxInFlight: 10,
    heartbeatInterval: flow.HEARTBEAT_S,
    lookupdPollInterval: 1,
    lookupdPollJitter: 0.01,
    ...layers,
    ...source,
  })
  reader.on(nsq.Reader.MESSAGE, handle)
  reader.on(nsq.Reader.ERROR, () => {})
  reader.connect()
}

// A writer of nsqjs does not reconnect: whoever lost it makes a new one.
async function openWriter() {
  for (;;) {
    const [host, port] = tcp.split(':')
    const writer = new nsq.Writer(host, Number(port), { heartbeatInterval: flow.HEARTBEAT_S, ...layers })
    const ready = await new Promise((resolve) => {
      writer.on(nsq.Writer.READY, () => resolve(true))
      writer.on(nsq.Writer.ERROR, () => resolve(false))
      writer.on(nsq.Writer.CLOSED, () => resolve(false))
      writer.connect()
    })
    if (ready) return writer
    await sleep(0.2)
  }
}

const call = (send) =>
  new Promise((resolve, reject) => send((error) => (error ? reject(error) : resolve())))

const publish = (writer, bodies) => call((done) => writer.publish(flow.TOPIC, bodies, done))

async function restart() {
  console.log('RESTART')
  const lines = readline.createInterface({ input: process.stdin })
  await new Promise((resolve) => lines.once('line', resolve))
  lines.close()
}

async function playAll(writer) {
  await publish(writer, flow.SINGLE)
  await publish(writer, flow.MULTIPLE)
  await call((done) => writer.deferPublish(flow.TOPIC, [flow.DEFERRED], flow.DEFER_MS, done))
  await publish(writer, flow.REQUEUED)
  await publish(writer, flow.TOUCHED)
  await until(...flow.FIRST_PART)
  await sleep(flow.IDLE_S)
  await publish(writer, flow.LAST)
  await until(flow.LAST)
}

async function playRestart(writer) {
  await publish(writer, flow.BEFORE)
  await until(flow.BEFORE)
  await sleep(0.3)
  await restart()
  await publish(await openWriter(), flow.AFTER)
  await until(flow.AFTER)
}

async function playLayers(writer) {
  await publish(writer, flow.SINGLE)
  await publish(writer, flow.MULTIPLE)
  await publish(writer, flow.LONG_BODY)
  await until(flow.SINGLE, ...flow.MULTIPLE, flow.LONG)
}

async function main() {
  const writer = await openWriter()
  if (mode === 'lookup') {
    await publish(writer, flow.FOUND)
    openReader({ lookupdHTTPAddresses: [lookup] })
    await until(flow.FOUND)
  } else {
    openReader({ nsqdTCPAddresses: [tcp] })
    const plays = { all: playAll, restart: playRestart }
    await (plays[mode] || playLayers)(writer)
  }
  await sleep(0.2) // the last FIN leaves
  console.log(JSON.stringify(finished))
  process.exit(0)
}

main()
