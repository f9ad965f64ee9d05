"""Apache's Python client over gRPC, run by the Python that has it: what it sends, and what comes.

Arguments: the proxy's address, what to do, the topic, the group. It prints a line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rocketmq import (
    ClientConfiguration,
    Credentials,
    FilterExpression,
    Message,
    Producer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)
from rocketmq.v5.exception import InternalErrorException

COUNT = 20
INVISIBLE_S = 30
DELAY_S = 4
SECONDS = 90.0
QUIET_S = 3.0


class Checker(TransactionChecker):
    """Commits what it is asked about."""

    def check(self, message: Any) -> Any:
        return TransactionResolution.COMMIT


@contextmanager
def running(client: Any) -> Iterator[Any]:
    client.startup()
    try:
        yield client
    finally:
        client.shutdown()


def made(topic: str, body: str, **more: object) -> Any:
    message = Message()
    message.topic = topic
    message.body = body.encode()
    message.tag = "A"
    message.keys = f"key-{body}"
    for name, value in more.items():
        setattr(message, name, value)
    return message


def _received(consumer: Any) -> list[Any]:
    try:
        return list(consumer.receive(32, INVISIBLE_S) or ())
    except InternalErrorException as error:
        # It may ask before the proxy has its settings, which go another way.
        if '"settings" is null' not in str(error):
            raise
        time.sleep(0.2)
        return []


class Session:
    """One run against the proxy at an address."""

    def __init__(self, address: str, topic: str, group: str) -> None:
        self.topic = topic
        self._group = group
        self._config = ClientConfiguration(address, Credentials(), request_timeout=30)

    def producer(self, checker: Any = None) -> Any:
        return running(Producer(self._config, (self.topic,), checker))

    def receive(self, count: int) -> list[Any]:
        """Messages until there are so many and no more come; all are acknowledged, in order."""
        found: list[Any] = []
        consumer = SimpleConsumer(
            self._config, self._group, {self.topic: FilterExpression()}, await_duration=5
        )
        with running(consumer):
            ends = time.monotonic() + SECONDS
            while time.monotonic() < ends:
                for message in _received(consumer):
                    found.append(message)
                    consumer.ack(message)
                if len(found) >= count:
                    ends = min(ends, time.monotonic() + QUIET_S)
        return found


def plain(session: Session) -> dict[str, Any]:
    with session.producer() as producer:
        receipts = [producer.send(made(session.topic, str(n))) for n in range(COUNT)]
    found = session.receive(COUNT)
    return {
        "ids": len({receipt.message_id for receipt in receipts}),
        "bodies": sorted((each.body.decode() for each in found), key=int),
        "tags": sorted({each.tag for each in found}),
        "same": {each.message_id for each in found} == {each.message_id for each in receipts},
    }


def ordered(session: Session) -> dict[str, Any]:
    with session.producer() as producer:
        for number in range(COUNT):
            producer.send(made(session.topic, str(number), message_group=f"g{number % 2}"))
    found = session.receive(COUNT)
    groups: dict[str, list[int]] = {}
    for each in found:
        groups.setdefault(each.message_group, []).append(int(each.body))
    return {"groups": groups}


def delayed(session: Session) -> dict[str, Any]:
    due = int(time.time()) + DELAY_S
    with session.producer() as producer:
        producer.send(made(session.topic, "later", delivery_timestamp=due))
    (found,) = session.receive(1)
    return {"body": found.body.decode(), "early": time.time() < due}


def transactions(session: Session) -> dict[str, Any]:
    with session.producer(Checker()) as producer:
        for body, end in (("kept", "commit"), ("dropped", "rollback"), ("checked", "")):
            transaction = producer.begin_transaction()
            receipt = producer.send(made(session.topic, body), transaction)
            assert receipt.transaction_id, "the half message has no transaction"
            if end:
                getattr(transaction, end)()
        found = session.receive(2)
    return {"bodies": sorted(each.body.decode() for each in found)}


WORK: dict[str, Callable[[Session], dict[str, Any]]] = {
    "plain": plain, "ordered": ordered, "delayed": delayed, "transactions": transactions,
}  # fmt: skip


if __name__ == "__main__":
    _, given_address, work, given_topic, given_group = sys.argv
    print(json.dumps(WORK[work](Session(given_address, given_topic, given_group))))
