"""Publishing dead letters to the topics they came from, and finishing them afterwards."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from penstock.cli.dlq.choice import Choice
from penstock.cli.dlq.letters import DeadTopic, open_runs, read
from penstock.cli.nodes import Api, NodeError
from penstock.cli.stop import Stop
from penstock.core.errors import ConfigError
from penstock.nsq.client.blocking import Consumer, Producer
from penstock.nsq.client.config import Config
from penstock.nsq.client.errors import ClientError
from penstock.nsq.client.message import Message
from penstock.nsq.dead_letters.resend import IN_FLIGHT_S, Resending, Result
from penstock.nsq.dead_letters.topics import CHANNEL
from penstock.nsq.pieces import PIECE_MESSAGES

_WAIT_S: Final = 1.0
_SPARE_S: Final = 5.0
_SAY_AFTER: Final = 2


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


def resend(
    topic: DeadTopic, choice: Choice, to: str | None, stop: Stop, config: Config | None = None
) -> Result:
    """Send the chosen letters of one node's topic, by clients with this ``config``.

    Raises ResendError, ClientError, NodeError.
    """
    require_nsq(topic)
    with Api(topic.place.http) as api:
        topic = _with_channel(api, topic)
        targets, orphans = planned(topic, choice, to)
        result = Result(orphans=orphans)
        if not targets:
            return result
        address = topic.place.tcp or api.tcp_address()
        try:
            _consume(topic.name, address, config or Config(), targets, result, stop)
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
    return topic._replace(channel=CHANNEL)


def _release(api: Api, topic: str) -> None:
    """Let letters come again that were put off because they were not chosen."""
    with contextlib.suppress(NodeError):  # they come by themselves, only later
        api.post("/channel/deferred/release", topic=topic, channel=CHANNEL, all="true")


def _consume(
    topic: str,
    address: str,
    config: Config,
    targets: dict[str, str],
    result: Result,
    stop: Stop,
) -> None:
    """Take letters from the channel until all chosen ones are sent; the others are put off."""
    consuming = replace(
        config, max_in_flight=PIECE_MESSAGES, max_attempts=0, msg_timeout=IN_FLIGHT_S
    )
    waits_max = int((IN_FLIGHT_S + _SPARE_S) / _WAIT_S)
    resending = Resending(targets, result)
    with (
        Producer(address, config=config) as producer,
        Consumer(topic, CHANNEL, nsqd_tcp_addresses=[address], max_in_flight=PIECE_MESSAGES,
                 config=consuming) as consumer,
    ):  # fmt: skip
        waits = 0
        while targets and not stop.asked and waits < waits_max:
            delivery = consumer.get_delivery(_WAIT_S)
            if delivery is not None:
                _send(resending, list(delivery.messages()), producer)
            waits = waits + 1 if delivery is None else 0
            if waits == _SAY_AFTER:
                print(f"waiting for {len(targets):,} letters in flight elsewhere", file=sys.stderr)
    if not stop.asked:
        result.missing = len(targets)


def _send(resending: Resending, letters: Sequence[Message], producer: Producer) -> None:
    """Publish the chosen ones among these. Raises ResendError."""
    for target, some in resending.to_send(letters):
        try:
            producer.multi_publish(target, [letter.body for letter in some])
        except ClientError as error:
            raise resending.refused(target, some, error) from error
        resending.sent(target, some)
