"""The places that replayed messages go to: standard output, a topic, or nowhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Protocol

from penstock.cli.replay.lines import Form, printer
from penstock.cli.shared.pipes import full
from penstock.core.errors import PenstockError
from penstock.nsq.client.blocking import Producer
from penstock.nsq.client.config import Config
from penstock.nsq.client.errors import ClientError
from penstock.nsq.stored import Stored


class SinkError(PenstockError):
    """The target took no more; ``offset`` is the first message that it may not have."""

    def __init__(self, text: str, offset: int) -> None:
        super().__init__(text)
        self.offset = offset


class Sink(Protocol):
    """A place that messages go to; when ``put`` returns they are there."""

    def put(self, messages: Sequence[Stored]) -> int:
        """Take some, in order; how many were taken. Raises SinkError."""

    def close(self) -> None:
        """End the output: nothing more comes."""


class Printing:
    """Lines on standard output."""

    def __init__(self, form: Form) -> None:
        self._line = printer(form, terminal=sys.stdout.isatty())

    def put(self, messages: Sequence[Stored]) -> int:
        try:
            sys.stdout.buffer.write(b"".join(map(self._line, messages)))
            sys.stdout.buffer.flush()
        except OSError as error:
            raise SinkError(full(error), messages[0].offset) from error
        return len(messages)

    def close(self) -> None:
        sys.stdout.buffer.flush()


class Publishing:
    """A topic, by multi-publish. Empty bodies are left out: NSQ has no empty messages."""

    def __init__(self, topic: str, address: str, config: Config | None = None) -> None:
        self._topic = topic
        self._address = address
        self._producer = Producer(address, config=config)
        try:
            self._producer.ping()
        except ClientError as error:
            raise PenstockError(f"nothing can be published: {error}") from error

    def put(self, messages: Sequence[Stored]) -> int:
        taken = [message for message in messages if message.body]
        if taken:
            try:
                self._producer.multi_publish(self._topic, [message.body for message in taken])
            except ClientError as error:
                first, last = taken[0].offset, taken[-1].offset
                raise SinkError(
                    f"{self._topic} on {self._address} did not take offsets {first} to {last}: "
                    f"{error}",
                    first,
                ) from error
        return len(taken)

    def close(self) -> None:
        self._producer.close()


class Nowhere:
    """A sink for a rehearsal, which keeps nothing."""

    def put(self, messages: Sequence[Stored]) -> int:
        return len(messages)

    def close(self) -> None:
        """Do nothing."""
