"""Sending dead letters again: what becomes of each that comes from the channel.

The letters are consumed from the channel ``penstock-dlq`` of the dead-letter topic: each is
published first and finished when the node has it. What is cut off in between comes again when it
has timed out, so a crash may send a letter twice, and never loses one.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from penstock.cluster.exchange import target
from penstock.cluster.http_client import HttpClient
from penstock.cluster.upstream_errors import RefusedError, UpstreamError
from penstock.core.counted import counted
from penstock.core.errors import PenstockError
from penstock.nsq.client.aio import Consumer, Producer
from penstock.nsq.client.config import Config
from penstock.nsq.client.errors import ClientError
from penstock.nsq.client.message import Message
from penstock.nsq.dead_letters.topics import CHANNEL
from penstock.nsq.pieces import PIECE_MESSAGES, pieces
from penstock.nsq.protocol import encode

IN_FLIGHT_S: Final = 30.0
"""The seconds that a letter stays in flight; after them, those of a crashed run come again."""
HOLD_S: Final = 600.0
"""The delay in seconds of a letter that was not chosen, should nobody release it at the end."""
WAIT_S: Final = 1.0
"""Seconds of a wait for letters."""


class Target(NamedTuple):
    """The topic that a letter goes to, and there one channel or (empty) all.

    Without a topic it is discarded.
    """

    topic: str
    channel: str = ""


DISCARDED: Final = Target("")


class ResendError(PenstockError):
    """A failure to send all of what was chosen."""


@dataclass(slots=True)
class Result:
    """The outcome for one topic's letters; ``sent`` counts by the topic they went to."""

    sent: Counter[str] = field(default_factory=Counter)
    orphans: int = 0
    """Letters that were chosen and do not say where they came from."""
    missing: int = 0
    """Letters that did not come: somebody else holds them."""


class Resending:
    """The letters of one run, sorted; the caller publishes what ``to_send`` gives, and says so.

    ``targets`` are where chosen letters go, by id; a letter that is sent leaves it. With ``to`` all
    go to that topic, otherwise each back to where it came from: to its topic or, with
    ``to_channel``, only to the channel that gave it up. With ``discards`` they go nowhere.
    """

    def __init__(self, to: str = "", *, to_channel: bool = False, discards: bool = False) -> None:
        self.targets: dict[str, Target] = {}
        self.result = Result()
        self.to = to
        self.discards = discards
        self._to_channel = to_channel and not to
        self._sent: set[bytes] = set()

    def choose(self, identifier: str, origin: Target) -> None:
        """Choose a letter, from a topic and channel that are empty where it does not say so."""
        if self.discards:
            self.targets[identifier] = DISCARDED
        elif topic := self.to or origin.topic:
            self.targets[identifier] = Target(topic, origin.channel if self._to_channel else "")
        else:
            self.result.orphans += 1

    def was_sent(self, identifier: str) -> bool:
        """True if this letter is sent: when it comes again, it is only finished."""
        return identifier.encode() in self._sent

    def to_send(self, letters: Sequence[Message]) -> Iterator[tuple[Target, Sequence[Message]]]:
        """The chosen ones with where they go, in pieces for one publish; others are put off."""
        chosen: dict[Target, list[Message]] = {}
        for letter in letters:
            target = self.targets.get(letter.id.decode())
            if target is not None:
                chosen.setdefault(target, []).append(letter)
            elif letter.id in self._sent:  # it timed out before it could be finished
                letter.finish()
            else:
                letter.requeue(HOLD_S, backoff=False)
        for target, some in chosen.items():
            for piece in pieces(some, PIECE_MESSAGES):
                yield target, piece

    def sent(self, target: Target, letters: Sequence[Message]) -> None:
        """A node has them again, or they are discarded: they are finished."""
        for letter in letters:
            letter.finish()
            self._sent.add(letter.id)
            del self.targets[letter.id.decode()]
        self.result.sent[target.topic] += len(letters)

    def refused(
        self, target: Target, letters: Sequence[Message], error: PenstockError
    ) -> ResendError:
        """Note that letters could not be published, and stay; the error to raise."""
        for letter in letters:
            letter.requeue(0, backoff=False)
        where = f"channel {target.channel} of " if target.channel else ""
        return ResendError(
            f"{where}topic {target.topic} did not take the letters: {error}; "
            f"{self.result.sent.total()} are sent, the rest stays"
        )


def did_not_come(count: int) -> str:
    """The sentence for letters that were waited for in vain."""
    return (
        f"{counted(count, 'letter')} did not come: another consumer of the channel {CHANNEL} "
        "holds what is missing, or it is paused"
    )


class LetterChannel:
    """The channel of one node's dead-letter topic; ``config`` is that of its clients."""

    def __init__(
        self, http: HttpClient, http_address: str, topic: str, config: Config | None = None
    ) -> None:
        self._http = http
        self._address = http_address
        self._topic = topic
        self._config = config or Config()

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None, None]:
        """See to it that it is there; new, it gets all that the log holds. At the end letters come
        again that were put off because they were not chosen. Raises UpstreamError.
        """
        try:
            await self._post("/channel/create", from_="oldest")
        except RefusedError as error:
            if error.code != "CHANNEL_EXISTS":
                raise
            await self._release()  # what a run that crashed has put off
        try:
            yield
        finally:
            await self._release()

    async def _release(self) -> None:
        with suppress(UpstreamError):  # they come by themselves, only later
            await self._post("/channel/deferred/release", all="true")

    async def resend(
        self,
        tcp_address: str,
        resending: Resending,
        goes_on: Callable[[int], bool],
        *,
        in_flight: int,
        aim: Callable[[Sequence[Message]], Awaitable[None]] | None = None,
        pace: int = 0,
    ) -> None:
        """Send what comes for as long as it goes on, by the waits in a row that brought nothing.

        Letters are shown to ``aim`` first, which may choose them. ``pace`` is how many a second go
        at most, 0 for any number. Raises ResendError, ClientError.
        """
        in_flight = min(in_flight, pace) if pace else in_flight
        # Without a limit, or the client would finish a letter after its fifth delivery, unsent.
        config = replace(
            self._config, max_in_flight=in_flight, max_attempts=0, msg_timeout=IN_FLIGHT_S
        )
        async with (
            Producer(tcp_address, config=self._config) as producer,
            Consumer(
                self._topic, CHANNEL, nsqd_tcp_addresses=[tcp_address], config=config, required=True
            ) as consumer,
        ):
            waits = 0
            while goes_on(waits):
                delivery = await consumer.get_delivery(WAIT_S)
                waits = waits + 1 if delivery is None else 0
                if delivery is not None:
                    came = list(delivery.messages())
                    if aim is not None:
                        await aim(came)
                    before = resending.result.sent.total()
                    await self._send(resending, came, producer)
                    if pace:
                        await asyncio.sleep((resending.result.sent.total() - before) / pace)

    async def _post(self, path: str, **query: str) -> None:
        asked = target(path, topic=self._topic, channel=CHANNEL, **query)
        await self._http.post(self._address, asked)

    async def _send(
        self, resending: Resending, letters: Sequence[Message], producer: Producer
    ) -> None:
        """Publish the chosen ones among these, and finish them. Raises ResendError."""
        for where, some in resending.to_send(letters):
            bodies = [letter.body for letter in some]
            try:
                if where.channel:
                    asked = target("/channel/publish", topic=where.topic, channel=where.channel)
                    await self._http.post(self._address, asked, encode.multi_body(bodies))
                elif where != DISCARDED:
                    await producer.multi_publish(where.topic, bodies)
            except (ClientError, UpstreamError) as error:
                raise resending.refused(where, some, error) from error
            resending.sent(where, some)
