"""Sub-commands that send messages, and measure how long brokers take."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.units import MILLISECOND
from penstock.rocketmq.client.blocking.producer import Producer
from penstock.rocketmq.client.errors import ClientError
from penstock.rocketmq.client.message import Message
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.mqadmin.commands.messages.resend import result_text
from penstock.rocketmq.mqadmin.output import Output, Shown, Table
from penstock.rocketmq.mqadmin.posix_parser import ParsedOptions
from penstock.rocketmq.mqadmin.rounds import every
from penstock.rocketmq.protocol.message_queue import MessageQueue

SENT: Final = Table(
    "sent",
    "%-32s  %-4s  %-20s    %s",
    "broker queue status id",
    ("#Broker Name", "#QID", "#Send Result", "#MsgId"),
)
TIMES: Final = Table(
    "times",
    "%-32s  %-4s  %-20s    %s",
    "broker queue isSent ms",
    ("#Broker Name", "#QID", "#Send Result", "#RT"),
)
CLUSTER_TIMES: Final = Table(
    "brokers",
    "%-24s  %-24s  %-8s  %-16s  %-16s",
    "cluster broker ms sent failed",
    ("#Cluster Name", "#Broker Name", "#RT", "#successCount", "#failCount"),
    "%-24s  %-24s  %-4s  %-8s  %-8s",
)
_WORDS: Final = b"hello jodie"
_CHINA_MS: Final = 8 * 3600 * 1000


def _producer(admin: Admin, group: str = "", *, trace: bool = False) -> Producer:
    config = replace(admin.config, enable_msg_trace=trace)
    return Producer(group or str(admin.now_ms), config=config)


async def send_message(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """Send a message."""
    if "qid" in given and "broker" not in given:
        out.say("Broker name must be set if the queue is chosen!")
        return
    topic = given.text("topic")
    message = Message(topic, given.text("body").encode(), given.text("tags"), given.text("key"))
    queue = MessageQueue(given.text("broker"), given.number("qid"), topic)
    with _producer(admin, trace=given.is_true("msgTraceEnable")) as producer:
        result = producer.send(message, queue=queue if "qid" in given else None)
    out.head(SENT)
    found = result.queue
    number = Shown(str(found.queueId), found.queueId)
    out.row(SENT, found.brokerName, number, result.status.name, result.id)


async def send_msg_status(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """Send messages to the topic of a broker's name and print the outcome of each."""
    topic = given.text("brokerName")
    with _producer(admin, "PID_SMSC") as producer:
        producer.send(_filled(topic, 16))
        for _ in range(given.number("count", 50)):
            watch = Watch()
            result = producer.send(_filled(topic, given.number("messageSize", 128)))
            text = f"rt={watch.ms}ms, SendResult={result_text(result)}\n"
            out.say(text, ms=watch.ms, msgId=result.id, status=result.status.name)


def _filled(topic: str, nbytes: int) -> Message:
    """A message of ``nbytes`` or a few more, filled as upstream does."""
    return Message(topic, _WORDS * -(-nbytes // len(_WORDS)))


class Watch:
    """The time since it was made, in whole milliseconds."""

    def __init__(self) -> None:
        self._began_ns = SYSTEM_CLOCK.monotonic_ns()

    @property
    def ms(self) -> int:
        return (SYSTEM_CLOCK.monotonic_ns() - self._began_ns) // MILLISECOND


async def check_rt(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """Send messages to the queues of a topic by turns and tell how long each took."""
    amount = given.number("amount", 100)
    message = Message(given.text("topic"), b"a" * given.number("size", 128))
    out.head(TIMES)
    total = 0
    broker, queue_id = "", 0
    with _producer(admin) as producer:
        for number in range(amount):
            watch = Watch()
            try:
                queues = producer.queues(message.topic)
                queue = queues[number % len(queues)]
                broker, queue_id = queue.brokerName, queue.queueId
                producer.send(message, queue=queue)
                is_sent = True
            except ClientError:
                is_sent = False
            took = watch.ms
            total += took if number else 0  # the first one also makes the connection
            sent = Shown(str(is_sent).lower(), is_sent)
            out.row(TIMES, broker, Shown(str(queue_id), queue_id), sent, Shown(str(took), took))
    average = total / (amount - 1) if amount > 1 else 0.0
    out.text(f"Avg RT: {average:.2f}\n")
    out.fact("averageMs", average)


async def cluster_rt(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """Measure sends to all brokers of clusters, again and again."""
    is_log = given.is_true("print log")
    if not is_log:
        out.head(CLUSTER_TIMES)

    async def measure() -> None:
        clusters = await admin.clusters()
        names = [given.text("cluster")] if "cluster" in given else list(clusters.names)
        for cluster in names:
            for broker in clusters.of(cluster):
                _measure(admin, producer, given, cluster, broker.name, out, is_log=is_log)

    with _producer(admin) as producer:
        await every(admin, given.number("interval", 10), measure, out)


def _measure(
    admin: Admin,
    producer: Producer,
    given: ParsedOptions,
    cluster: str,
    broker: str,
    out: Output,
    *,
    is_log: bool,
) -> None:
    amount = given.number("amount", 100)
    message = Message(broker, b"a" * given.number("size", 128))
    total = sent = 0
    for number in range(amount):
        watch = Watch()
        try:
            producer.send(message)
            sent += 1
        except ClientError:
            pass  # counted as a failure
        # The first one also makes the connection.
        total += watch.ms if number else 0
    average = total / (amount - 1) if amount > 1 else 0.0
    if is_log:
        room = given.text("machine room", "noname")
        out.text(f"{_china_time(admin.now_ms)}|{room}|{cluster}|{broker}|{average:.0f}\n")
        return
    shown = Shown(f"{average:.2f}", average)
    out.row(CLUSTER_TIMES, cluster, broker, shown, sent, amount - sent)


def _china_time(now_ms: int) -> str:
    """The time in China, which upstream's log has wherever it runs."""
    from datetime import UTC, datetime

    then = datetime.fromtimestamp((now_ms + _CHINA_MS) // 1000, UTC)
    return then.strftime("%Y-%m-%d %H:%M:%S")
