"""Publishing dead letters to the topics they came from, and finishing them afterwards."""

from __future__ import annotations

import sys
from typing import Final

from penstock.cli.dlq.choice import Choice
from penstock.cli.dlq.letters import DeadTopic
from penstock.cli.shared.nodes import tcp_address
from penstock.cli.shared.stop import Stop
from penstock.cluster.asker import Asker
from penstock.core.counted import counted
from penstock.core.errors import ConfigError
from penstock.nsq.client.config import Config
from penstock.nsq.dead_letters import sending
from penstock.nsq.dead_letters.resend import IN_FLIGHT_S, Resending, Result
from penstock.nsq.dead_letters.topic_log import stored_letters
from penstock.nsq.pieces import PIECE_MESSAGES

_SPARE_S: Final = 5.0
_SAY_AFTER: Final = 2


async def planned(asker: Asker, topic: DeadTopic, choice: Choice, to: str | None) -> Resending:
    """The chosen letters, with the topics they go to."""
    resending = Resending(to or "")
    async for letter in stored_letters(asker, topic.place.http, topic.name):
        if choice.takes(letter):
            resending.choose(letter.id, letter.origin.topic if letter.origin is not None else "")
    return resending


def require_nsq(topic: DeadTopic) -> None:
    """Raise ConfigError for RocketMQ's dead letters."""
    if topic.is_rocketmq:
        raise ConfigError(
            f"the dead letters of RocketMQ's groups cannot be finished from here; copy them with "
            f"penstock replay {topic.name} --to TOPIC"
        )


async def resend(
    asker: Asker,
    topic: DeadTopic,
    choice: Choice,
    to: str | None,
    stop: Stop,
    config: Config | None = None,
) -> Result:
    """Send the chosen letters of one node's topic, by clients with this ``config``.

    Raises ResendError, ClientError, UpstreamError.
    """
    require_nsq(topic)
    waits_max = int((IN_FLIGHT_S + _SPARE_S) / sending.WAIT_S)
    channel = sending.LetterChannel(asker, topic.place.http, topic.name, config)
    async with channel.opened():
        resending = await planned(asker, topic, choice, to)

        def goes_on(waits: int) -> bool:
            left = len(resending.targets)
            if waits == _SAY_AFTER:
                said = counted(left, "letter")
                print(f"waiting for {said} in flight elsewhere", file=sys.stderr)
            return bool(left) and not stop.asked and waits < waits_max

        if resending.targets:
            address = await tcp_address(asker, topic.place)
            await channel.resend(address, resending, goes_on, in_flight=PIECE_MESSAGES)
    if not stop.asked:
        resending.result.missing = len(resending.targets)
    return resending.result
