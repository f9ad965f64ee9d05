"""Publishing dead letters to the topics they came from, and finishing them afterwards.

The letters are consumed from the channel ``penstock-dlq`` of the dead-letter topic: each is
published first and finished when the node has it. What is cut off in between comes again when it
has timed out, so a crash may send a letter twice, and never loses one.
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from penstock.cli.dlq.choice import Choice
from penstock.cli.dlq.letters import CHANNEL, DeadTopic, open_runs, read
from penstock.cli.nodes import Api, NodeError
from penstock.cli.replay.sinks import BATCH_MESSAGES, pieces
from penstock.cli.stop import Stop
from penstock.core.errors import ConfigError, PenstockError
from penstock.nsq.client.blocking import Consumer, Producer
from penstock.nsq.client.config import Config
from penstock.nsq.client.errors import ClientError
from penstock.nsq.client.message import Message

_HOLD_S: Final = 600.0
"""How long a letter that was not chosen stays away, should nobody release it at the end."""
IN_FLIGHT_S: Final = 30.0
"""How long a letter stays in flight, and so when those of a run that crashed come again."""
_WAIT_S: Final = 1.0
_SPARE_S: Final = 5.0
_SAY_AFTER: Final = 2


class ResendError(PenstockError):
    """Not all of what was chosen could be sent."""


@dataclass(slots=True)
class Result:
    """What became of one topic's letters; ``sent`` counts by the topic they went to."""

    sent: Counter[str] = field(default_factory=Counter)
    orphans: int = 0
    """Letters that were chosen and do not say where they came from."""
    missing: int = 0
    """Letters that did not come: somebody else holds them."""


def planned(topic: DeadTopic, choice: Choice, to: str | None) -> tuple[dict[str, str], int]:
    """The ids of the chosen letters with the topics they go to, and how many have none."""
    targets: dict[str, str] = {}
    orphans = 0
    for letter in choice.of(read(topic, open_runs(topic))):
        target = to or (letter.origin.topic if letter.origin is not None else None)
        if target is None:
            orphans += 1
        else:
            targets[letter.id] = target
    return targets, orphans


def require_nsq(topic: DeadTopic) -> None:
    """Raise ConfigError for RocketMQ's dead letters."""
    if topic.is_rocketmq:
        raise ConfigError(
            f"the dead letters of RocketMQ's groups cannot be finished from here; copy them with "
            f"penstock replay {topic.name} --to TOPIC"
        )


def resend(topic: DeadTopic, choice: Choice, to: str | None, stop: Stop) -> Result:
    """Send the chosen letters of one node's topic. Raises ResendError, ClientError, NodeError."""
    require_nsq(topic)
    with Api(topic.place.http) as api:
        topic = _with_channel(api, topic)
        targets, orphans = planned(topic, choice, to)
        result = Result(orphans=orphans)
        if not targets:
            return result
        address = topic.place.tcp or api.tcp_address()
        try:
            _consume(topic.name, address, targets, result, stop)
        finally:
            _release(api, topic.name)
    return result


def _with_channel(api: Api, topic: DeadTopic) -> DeadTopic:
    """The topic with its channel, which gets all that the log holds when it is made now."""
    if topic.channel is None:
        try:
            api.post("/channel/create", topic=topic.name, channel=CHANNEL, **{"from": "oldest"})
        except NodeError as error:
            if "CHANNEL_EXISTS" not in str(error):
                raise
    else:
        _release(api, topic.name)
    return topic._replace(channel={"channel_name": CHANNEL})


def _release(api: Api, topic: str) -> None:
    """Let letters come again that were put off because they were not chosen."""
    with contextlib.suppress(NodeError):  # they come by themselves, only later
        api.post("/channel/deferred/release", topic=topic, channel=CHANNEL, all="true")


def _consume(topic: str, address: str, targets: dict[str, str], result: Result, stop: Stop) -> None:
    """Take letters from the channel until all chosen ones are sent; the others are put off."""
    config = Config(max_in_flight=BATCH_MESSAGES, max_attempts=0, msg_timeout=IN_FLIGHT_S)
    waits_max = int((IN_FLIGHT_S + _SPARE_S) / _WAIT_S)
    handler = _Handler(targets, result)
    with (
        Producer(address) as producer,
        Consumer(topic, CHANNEL, nsqd_tcp_addresses=[address], max_in_flight=BATCH_MESSAGES,
                 config=config) as consumer,
    ):  # fmt: skip
        waits = 0
        while targets and not stop.asked and waits < waits_max:
            delivery = consumer.get_delivery(_WAIT_S)
            if delivery is not None:
                handler.take(list(delivery.messages()), producer)
            waits = waits + 1 if delivery is None else 0
            if waits == _SAY_AFTER:
                print(f"waiting for {len(targets):,} letters in flight elsewhere", file=sys.stderr)
    if not stop.asked:
        result.missing = len(targets)


class _Handler:
    """Sends the chosen letters among those that come; the others are put off."""

    def __init__(self, targets: dict[str, str], result: Result) -> None:
        self._targets = targets
        self._result = result
        self._sent: set[bytes] = set()

    def take(self, messages: Sequence[Message], producer: Producer) -> None:
        """Handle some. Raises ResendError."""
        chosen: dict[str, list[Message]] = {}
        for message in messages:
            target = self._targets.get(message.id.decode())
            if target is not None:
                chosen.setdefault(target, []).append(message)
            elif message.id in self._sent:  # it timed out before it could be finished
                message.finish()
            else:
                message.requeue(_HOLD_S, backoff=False)
        for target, letters in chosen.items():
            for piece in pieces(letters, BATCH_MESSAGES):
                self._send(target, piece, producer)

    def _send(self, target: str, letters: Sequence[Message], producer: Producer) -> None:
        try:
            producer.multi_publish(target, [letter.body for letter in letters])
        except ClientError as error:
            for letter in letters:
                letter.requeue(0, backoff=False)
            raise ResendError(
                f"topic {target} did not take the letters: {error}; "
                f"{self._result.sent.total()} are sent, the rest stays"
            ) from error
        for letter in letters:
            letter.finish()
            self._sent.add(letter.id)
            del self._targets[letter.id.decode()]
        self._result.sent[target] += len(letters)
