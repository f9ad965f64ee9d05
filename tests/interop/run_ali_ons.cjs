// The flows with ali-ons. The constants are those of rocketmq_flow.py, given as JSON in the
// environment; see there what each flow does.
'use strict'

const readline = require('readline')
const { Consumer, Message, Producer } = require('ali-ons')

const flow = JSON.parse(process.env.FLOW)
const [mode, nameSrv, name] = process.argv.slice(2)
const silent = () => {}
const logger = { debug: silent, info: silent, warn: silent, error: silent }
const options = {
  httpclient: {}, nameSrv, accessKeyId: 'a', accessKeySecret: 'b', logger, rebalanceInterval: 1000,
  pollNameServerInteval: 1000, heartbeatBrokerInterval: 2000, brokerSuspendMaxTimeMillis: 2000
}

const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000))
const text = (message) => {
  const body = message.body.toString()
  return body === flow.LONG_BODY ? 'long' : body
}

async function until (done, seconds = Infinity) {
  for (let waited = 0; waited < seconds && !done(); waited += 0.01) await sleep(0.01)
}

async function openProducer () {
  const isRestarted = ['broker', 'namesrv'].includes(mode)
  const patient = isRestarted ? {} : { sendMsgTimeout: flow.SEND_MS }
  const producer = new Producer({ ...options, ...patient, producerGroup: name })
  producer.on('error', silent)
  await producer.ready()
  return producer
}

async function consume (handler, expression = '*', more = {}) {
  const consumer = new Consumer({ ...options, consumerGroup: name, ...more })
  consumer.on('error', silent)
  consumer.subscribe(name, expression, async (message) => handler(message))
  await consumer.ready()
  return consumer
}

function makeMessage (body, tag = flow.TAG) {
  const message = new Message(name, tag, body === 'long' ? flow.LONG_BODY : body)
  message.keys = ['key-' + body]
  message.properties.color = flow.COLOR
  return message
}

// Until it succeeds.
async function send (producer, body, tag) {
  for (;;) {
    try {
      return await producer.send(makeMessage(String(body), tag))
    } catch (error) {
      await sleep(0.05)
    }
  }
}

async function playSend (producer) {
  const delayed = makeMessage('delayed')
  delayed.delayTimeLevel = flow.DELAY_LEVEL
  const got = {}
  await send(producer, 'sync')
  await send(producer, 'long')
  await producer.send(delayed)
  await consume((message) => {
    const body = text(message)
    got[body] = [message.tags, message.keys, message.properties.color]
    if (body === 'delayed') got.DELAY = message.storeTimestamp - message.bornTimestamp
  })
  await until(() => Object.keys(got).length === 4)
  return got
}

async function playFilter (producer) {
  const got = []
  await consume((message) => { got.push(text(message)) }, 'A || C')
  for (const number of [0, 1]) {
    for (const tag of 'ABC') await send(producer, `${tag}-${number}`, tag)
  }
  await until(() => got.length >= 4)
  return got.sort()
}

async function playSql (producer) {
  const got = []
  const expression = { expressionType: 'SQL92', subString: flow.EXPRESSION }
  await consume((message) => { got.push(Number(text(message))) }, expression)
  for (let number = 0; number < 6; number++) {
    const message = makeMessage(String(number))
    message.properties.number = String(number)
    await producer.send(message)
  }
  await until(() => got.length >= 3)
  return got.sort()
}

async function playShare (producer) {
  const got = { first: [], second: [] }
  for (const instanceName of Object.keys(got)) {
    await consume((message) => { got[instanceName].push(text(message)) }, '*', { instanceName })
  }
  const isShared = () => got.first.length && got.second.length
  for (let probe = 0; !isShared(); probe++) {
    await send(producer, `probe-${probe}`)
    await sleep(0.1)
  }
  await sleep(1.5) // it is not told of new members, but looks every second
  const numbers = (who) => got[who].filter((body) => !body.startsWith('probe'))
  for (let number = 0; number < flow.MANY; number++) await send(producer, number)
  const all = () => new Set([...numbers('first'), ...numbers('second')]).size
  await until(() => all() === flow.MANY)
  const [first, second] = [numbers('first').length, numbers('second').length]
  return { first, second, twice: first + second - flow.MANY }
}

async function playRetry (producer) {
  let deliveries = 0
  const topics = new Set()
  await consume((message) => {
    deliveries++
    topics.add(message.topic)
    throw new Error('later') // its handler of retries ignores ACTION_RETRY
  }, '*', { maxReconsumeTimes: flow.RETRIES })
  await send(producer, 'refused')
  await until(() => deliveries === flow.RETRIES + 1)
  await sleep(0.5) // the last refusal leaves
  return { deliveries, topics: topics.size }
}

async function playResume (producer) {
  const result = {}
  for (const [who, first] of [['first', 0], ['second', 10]]) {
    const got = result[who] = []
    for (let number = first; number < first + 10; number++) await send(producer, number)
    const consumer = await consume((message) => { got.push(Number(text(message))) })
    await until(() => got.length >= 10)
    await sleep(0.1) // it notes its offset after the message
    await consumer.close()
    got.sort((a, b) => a - b)
  }
  return result
}

async function restart (server) {
  console.log('RESTART ' + server)
  const lines = readline.createInterface({ input: process.stdin })
  await new Promise((resolve) => lines.once('line', resolve))
  lines.close()
}

async function playRestart (producer) {
  const acknowledged = new Set()
  const got = new Set()
  let stop = false
  const produce = async () => {
    for (let number = 0; !stop; number++) {
      await send(producer, number)
      acknowledged.add(String(number))
      await sleep(0.01)
    }
  }
  await consume((message) => { got.add(text(message)) })
  const producing = produce()
  await until(() => got.size > 20)
  await restart(mode)
  const before = acknowledged.size
  await until(() => got.size > before + 20)
  stop = true
  await producing
  const lost = () => [...acknowledged].filter((body) => !got.has(body)).length
  await until(() => lost() === 0, flow.LOST_AFTER_S)
  return { lost: lost(), 'went on': acknowledged.size > before }
}

async function playRefused (producer) {
  try {
    await producer.send(makeMessage('unwelcome'))
  } catch (error) {
    return true
  }
  return false
}

async function main () {
  const plays = {
    send: playSend, filter: playFilter, sql: playSql, share: playShare, retry: playRetry,
    resume: playResume, refused: playRefused, broker: playRestart, namesrv: playRestart
  }
  const result = await plays[mode](await openProducer())
  process.stdout.write('RESULT ' + JSON.stringify(result) + '\n', () => process.exit(0))
}

process.on('uncaughtException', silent) // its timers throw while a server is away
main()
