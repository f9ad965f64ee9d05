"""Publishing dead letters to the topics they came from, and finishing them afterwards."""

from __future__ import annotations

import sys
from typing import Final

from penstock.cli.dlq.choice import Choice
from penstock.cli.dlq.letters import DeadTopic, open_letters
from penstock.cli.shared.nodes import tcp_address
from penstock.cli.shared.stop import Stop
from penstock.cluster.asker import Asker
from penstock.core.counted import counted
from penstock.core.errors import ConfigError
from penstock.nsq.client.config import Config
from penstock.nsq.dead_letters import sending
from penstock.nsq.dead_letters.resend import IN_FLIGHT_S, Resending, Result
from penstock.nsq.pieces import PIECE_MESSAGES

_SPARE_S: Final = 5.0
_SAY_AFTER: Final = 2


async def planned(
    asker: Asker, topic: DeadTopic, choice: Choice, to: str | None
) -> tuple[dict[str, str], int]:
    """The ids of the chosen letters with the topics they go to, and how many have none."""
    targets: dict[str, str] = {}
    orphans = 0
    async for letter in open_letters(asker, topic):
        if not choice.takes(letter):
            continue
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
    channel = sending.LetterChannel(asker, topic.place.http, topic.name, config)
    await channel.open()
    targets, orphans = await planned(asker, topic, choice, to)
    result = Result(orphans=orphans)
    if not targets:
        return result
    waits_max = int((IN_FLIGHT_S + _SPARE_S) / sending.WAIT_S)

    def goes_on(waits: int) -> bool:
        if waits == _SAY_AFTER:
            left = counted(len(targets), "letter")
            print(f"waiting for {left} in flight elsewhere", file=sys.stderr)
        return bool(targets) and not stop.asked and waits < waits_max

    address = await tcp_address(asker, topic.place)
    resending = Resending(targets, result)
    try:
        await channel.resend(address, resending, goes_on, in_flight=PIECE_MESSAGES)
    finally:
        await channel.release()
    if not stop.asked:
        result.missing = len(targets)
    return result
