"""The channel from which dead letters are sent again: consumed, published, finished."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Final

from penstock.cluster.asker import Asker
from penstock.cluster.errors import RefusedError, UpstreamError
from penstock.cluster.exchange import target
from penstock.nsq.client.aio import Consumer, Producer
from penstock.nsq.client.config import Config
from penstock.nsq.client.errors import ClientError
from penstock.nsq.client.message import Message
from penstock.nsq.dead_letters.resend import IN_FLIGHT_S, Resending
from penstock.nsq.dead_letters.topics import CHANNEL

WAIT_S: Final = 1.0
"""Seconds of a wait for letters."""


class LetterChannel:
    """The channel of one node's dead-letter topic; ``config`` is that of its clients."""

    def __init__(
        self, asker: Asker, http_address: str, topic: str, config: Config | None = None
    ) -> None:
        self._asker = asker
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
    ) -> None:
        """Send what comes for as long as it goes on, by the waits in a row that brought nothing.

        Letters are shown to ``aim`` first, which may choose them. Raises ResendError, ClientError.
        """
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
                    await send(resending, came, producer)

    async def _post(self, path: str, **query: str) -> None:
        asked = target(path, topic=self._topic, channel=CHANNEL, **query)
        await self._asker.post(self._address, asked)


async def send(resending: Resending, letters: Sequence[Message], producer: Producer) -> None:
    """Publish the chosen ones among these, and finish them. Raises ResendError."""
    for where, some in resending.to_send(letters):
        try:
            await producer.multi_publish(where, [letter.body for letter in some])
        except ClientError as error:
            raise resending.refused(where, some, error) from error
        resending.sent(where, some)
