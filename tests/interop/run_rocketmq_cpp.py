"""The flows with RocketMQ's C++ client, as the package `rocketmq` of PyPI brings it along."""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import rocketmq_flow as flow
from rocketmq.client import Message, Producer, PullConsumer, PushConsumer, RecvMessage
from rocketmq.exceptions import RocketMQException, ffi_check
from rocketmq.ffi import dll

SUCCESS, LATER = 0, 1
Handler = Callable[[Any], int]


class Client:
    """A producer, and what consumers got."""

    def __init__(self, name_server: str, name: str, send_ms: int | None) -> None:
        self.name_server = name_server
        self.name = name
        self.progress = threading.Condition()
        self.producer = Producer(name, timeout=send_ms)
        self.producer.set_namesrv_addr(name_server)
        self.producer.start()
        self.consumers: list[PushConsumer] = []

    def message(self, body: str, tag: str = flow.TAG, topic: str | None = None) -> Message:
        message = Message(topic or self.name)
        message.set_tags(tag)
        message.set_keys("key-" + body)
        message.set_property("color", flow.COLOR)
        message.set_body(flow.LONG_BODY if body == "long" else body)
        return message

    def consume(
        self, handler: Handler, expression: str = "*", orderly: bool = False, instance: str = "one"
    ) -> PushConsumer:
        """Start a push consumer; `handler` is told each message and says SUCCESS or LATER."""

        def handle(_: Any, handle: Any) -> int:
            with self.progress:
                verdict = handler(RecvMessage(handle))
                self.progress.notify_all()
                return verdict

        consumer = PushConsumer(self.name, orderly=orderly)
        consumer.set_namesrv_addr(self.name_server)
        consumer.set_instance_name(instance)
        ffi_check(dll.Subscribe(consumer._handle, self.name.encode(), expression.encode()))
        consumer._register_callback(handle)  # its own wrapper never says LATER
        consumer.start()
        self.consumers.append(consumer)
        return consumer

    def until(self, done: Callable[[], bool], seconds: float | None = None) -> None:
        """Wait for it; after `seconds`, if given, go on without it."""
        with self.progress:
            self.progress.wait_for(done, seconds)

    def send_orderly(self, body: object, sharding: int) -> None:
        """Once there is a route, for which this client looks too briefly on a busy machine."""
        while True:
            try:
                self.producer.send_orderly(self.message(str(body)), sharding)
                return
            except RocketMQException as error:
                if "No route info" not in str(error):
                    raise

    def send(self, body: object, tag: str = flow.TAG) -> None:
        """Until it succeeds."""
        while True:
            try:
                self.producer.send_sync(self.message(str(body), tag))
                return
            except RocketMQException:
                continue

    def close(self) -> None:
        for consumer in self.consumers:
            consumer.shutdown()
        self.producer.shutdown()


def text(message: Any) -> str:
    body: str = message.body.decode()
    return "long" if body == flow.LONG_BODY else body


def collecting(into: list[str]) -> Handler:
    """A handler that keeps the texts of the messages."""

    def handle(message: Any) -> int:
        into.append(text(message))
        return SUCCESS

    return handle


def has(bodies: list[str], count: int) -> bool:
    return len(bodies) >= count


def play_send(client: Client) -> Any:
    answered = threading.Semaphore(0)
    failed: list[Exception] = []
    delayed = client.message("delayed")
    delayed.set_delay_time_level(flow.DELAY_LEVEL)
    producer = client.producer
    producer.send_sync(client.message("sync"))
    producer.send_oneway(client.message("one-way"))
    producer.send_async(client.message("async"), lambda _: answered.release(), failed.append)
    producer.send_orderly(client.message("selected"), flow.SELECTED_QUEUE)
    producer.send_sync(client.message("long"))
    producer.send_sync(delayed)
    answered.acquire()
    got: dict[str, Any] = {}

    def handle(message: Any) -> int:
        color = message.get_property("color")
        got[text(message)] = [message.tags.decode(), message.keys.decode(), color.decode()]
        if text(message) == "selected":
            got["QUEUE"] = message.queue_id
        if text(message) == "delayed":
            got["DELAY"] = message.store_timestamp - message.born_timestamp
        return SUCCESS

    client.consume(handle)
    client.until(lambda: len(got) == len(flow.SENT) + 2)
    return got


def play_orderly(client: Client) -> Any:
    got: dict[str, list[int]] = defaultdict(list)
    refused: list[int] = []

    def handle(message: Any) -> int:
        number = int(message.body)
        if number == flow.REFUSED and len(refused) < 2:
            refused.append(number)
            return LATER
        got[str(message.queue_id)].append(number)
        return SUCCESS

    for number in range(flow.NUMBERS):
        client.send_orderly(number, number)
    client.consume(handle, orderly=True)
    client.until(lambda: sum(map(len, got.values())) == flow.NUMBERS)
    return got


def play_filter(client: Client) -> Any:
    got: list[str] = []
    client.consume(collecting(got), "A || C")
    for number in range(2):
        for tag in "ABC":
            client.send(f"{tag}-{number}", tag)
    client.until(lambda: len(got) >= 4)
    return sorted(got)


def play_pull(client: Client) -> Any:
    for number in range(flow.NUMBERS):
        client.send(number)
    consumer = PullConsumer(client.name)
    consumer.set_namesrv_addr(client.name_server)
    consumer.start()
    got = sorted(text(message) for message in consumer.pull(client.name))
    consumer.shutdown()
    return got


def play_share(client: Client) -> Any:
    got: dict[str, list[str]] = {"first": [], "second": []}
    for name, bodies in got.items():
        client.consume(collecting(bodies), instance=name)
    probes = 0
    while not all(got.values()):  # until the queues are shared
        client.send(f"probe-{probes}")
        probes += 1
        with client.progress:
            client.progress.wait(0.1)
    for number in range(flow.MANY):
        client.send_orderly(number, number)

    def numbers(name: str) -> list[str]:
        return [body for body in got[name] if body.isdigit()]

    client.until(lambda: len({*numbers("first"), *numbers("second")}) == flow.MANY)
    twice = len(numbers("first")) + len(numbers("second")) - flow.MANY
    return {name: len(numbers(name)) for name in got} | {"twice": twice}


def play_retry(client: Client) -> Any:
    deliveries: list[int] = []
    topics: set[str] = set()

    def handle(message: Any) -> int:
        deliveries.append(message.reconsume_times)
        topics.add(message.topic)
        return LATER

    client.consume(handle)
    client.send("refused")
    client.until(lambda: len(deliveries) == flow.RETRIES + 1)
    time.sleep(0.5)  # the last refusal leaves
    return {"deliveries": len(deliveries), "topics": len(topics)}


def play_resume(client: Client) -> Any:
    got: dict[str, list[str]] = {}
    for name, first in (("first", 0), ("second", 10)):
        numbers = got[name] = []
        for number in range(first, first + 10):
            client.send(number)
        consumer = client.consume(collecting(numbers))
        client.until(partial(has, numbers, 10))
        client.consumers.remove(consumer)
        consumer.shutdown()
    return {name: sorted(map(int, numbers)) for name, numbers in got.items()}


def play_restart(client: Client, server: str) -> Any:
    """Sends go on in a thread, whatever happens to the server."""
    acknowledged: set[str] = set()
    got: list[str] = []
    stop = threading.Event()

    def produce() -> None:
        number = 0
        while not stop.wait(0.01):
            try:
                client.producer.send_sync(client.message(str(number)))
            except RocketMQException:
                continue
            acknowledged.add(str(number))
            number += 1

    client.consume(collecting(got))
    thread = threading.Thread(target=produce)
    thread.start()
    client.until(lambda: len(set(got)) > 20)
    flow.restart(server)
    before = len(acknowledged)
    client.until(lambda: len(set(got)) > before + 20)
    stop.set()
    thread.join()
    client.until(lambda: acknowledged <= set(got), flow.LOST_AFTER_S)
    return {"lost": len(acknowledged - set(got)), "went on": len(acknowledged) > before}


def play_create(client: Client) -> Any:
    client.name += "-new"
    got: list[str] = []
    client.send("created")
    client.consume(collecting(got))
    client.until(lambda: bool(got))
    return got == ["created"]


def main() -> None:
    mode, name_server, name = flow.arguments()
    is_restarted = mode in ("broker", "namesrv")
    client = Client(name_server, name, None if is_restarted else flow.SEND_MS)
    result = play_restart(client, mode) if is_restarted else globals()["play_" + mode](client)
    flow.report(result)
    os._exit(0)  # the client's threads do not always end


main()
