/** Topics that RocketMQ's brokers make for themselves, known by their names. */

const SYSTEM_PREFIXES = /^(RMQ_SYS_|SCHEDULE_TOPIC_|TRANS_CHECK_|OFFSET_MOVED_)/i;
const SYSTEM = new Set(["SELF_TEST_TOPIC", "BenchmarkTest", "TBW102"]);
const RETRIES = /^%RETRY%/;
const LETTERS = /^%DLQ%/;

/** Whether brokers keep their own records in it: delays, transactions, traces. */
export const isSystem = (topic) => SYSTEM.has(topic) || SYSTEM_PREFIXES.test(topic);

/** Whether it has the messages that a group is to try again. */
export const isRetries = (topic) => RETRIES.test(topic);

/** Whether it is for a group's retries or dead letters. */
export const isOfGroup = (topic) => RETRIES.test(topic) || LETTERS.test(topic);

/** Whether dead letters go to it, as --dead-letter-topic calls such a topic unless told. */
export const isDeadLetters = (topic) => LETTERS.test(topic) || /\.dead(#ephemeral)?$/.test(topic);
