// Sends with ali-ons, a RocketMQ client in JavaScript. Called with the name server's address and
// topics; prints a JSON object: for each topic the send's status and offset, or 'error'.
'use strict'

const { Message, Producer } = require('ali-ons')

const [nameSrv, ...topics] = process.argv.slice(2)
const silent = () => {}
const logger = { debug: silent, info: silent, warn: silent, error: silent }

async function main () {
  const producer = new Producer({
    httpclient: {}, nameSrv, producerGroup: 'group', accessKeyId: 'a', accessKeySecret: 'b', logger
  })
  producer.on('error', silent)
  await producer.ready()
  const outcome = {}
  for (const topic of topics) {
    try {
      const result = await producer.send(new Message(topic, 'tag', 'hello'))
      outcome[topic] = [result.sendStatus, Number(result.queueOffset)]
    } catch (error) {
      outcome[topic] = 'error'
    }
  }
  process.stdout.write(JSON.stringify(outcome) + '\n', () => process.exit(0))
}

main()
