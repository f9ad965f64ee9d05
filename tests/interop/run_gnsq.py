"""The flows with gnsq (gevent)."""

from __future__ import annotations

from gevent import monkey

monkey.patch_all()

from typing import Any  # noqa: E402

import flow  # noqa: E402
import gevent  # noqa: E402
import gnsq  # noqa: E402
from gnsq.errors import NSQException  # noqa: E402


class Client:
    """A Producer and a Consumer."""

    def __init__(self, tcp: str, **source: Any) -> None:
        self.finished: dict[str, int] = {}
        self.producer = gnsq.Producer([tcp], heartbeat_interval=flow.HEARTBEAT_S)
        self.producer.start()
        self.consumer = gnsq.Consumer(
            flow.TOPIC,
            flow.CHANNEL,
            max_in_flight=10,
            heartbeat_interval=flow.HEARTBEAT_S,
            lookupd_poll_interval=1,
            max_backoff_duration=1,
            **source,
        )
        self.consumer.on_message.connect(self.on_message)
        self.consumer.start(block=False)

    def on_message(self, consumer: Any, message: Any) -> None:
        message.enable_async()
        gevent.spawn(self.handle, message)

    def handle(self, message: Any) -> None:
        body = message.body.decode()
        if body == flow.REQUEUED and message.attempts == 1:
            message.requeue(flow.REQUEUE_MS, backoff=False)
            return
        if body == flow.TOUCHED:
            for _ in range(flow.TOUCHES):
                gevent.sleep(flow.TOUCH_EVERY_S)
                message.touch()
        message.finish()
        self.finished[body] = message.attempts

    def publish(self, body: str, defer: int | None = None) -> None:
        """Until it succeeds: a lost connection is told by an error."""
        while True:
            try:
                self.producer.publish(flow.TOPIC, body.encode(), defer=defer, timeout=1)
            except NSQException:
                gevent.sleep(0.1)
            else:
                return

    def until(self, *bodies: str) -> None:
        while not set(bodies) <= set(self.finished):
            gevent.sleep(0.02)


def play_all(client: Client) -> None:
    client.publish(flow.SINGLE)
    client.producer.multipublish(flow.TOPIC, [body.encode() for body in flow.MULTIPLE])
    client.publish(flow.DEFERRED, defer=flow.DEFER_MS)
    client.publish(flow.REQUEUED)
    client.publish(flow.TOUCHED)
    client.until(*flow.FIRST_PART)
    gevent.sleep(flow.IDLE_S)
    client.publish(flow.LAST)
    client.until(flow.LAST)


def play_restart(client: Client) -> None:
    client.publish(flow.BEFORE)
    client.until(flow.BEFORE)
    gevent.sleep(0.3)
    flow.restart()
    client.publish(flow.AFTER)
    client.until(flow.AFTER)


def main() -> None:
    mode, tcp, lookup = flow.arguments()
    if mode == "lookup":
        client = Client(tcp, lookupd_http_addresses=[f"http://{lookup}"])
        client.publish(flow.FOUND)
        client.until(flow.FOUND)
    else:
        client = Client(tcp, nsqd_tcp_addresses=[tcp])
        (play_all if mode == "all" else play_restart)(client)
    gevent.sleep(0.2)  # the last FIN leaves
    flow.report(client.finished)


main()
