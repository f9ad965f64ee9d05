r"""Traces: messages that tell what became of messages, in the form that mqadmin's
``queryMsgTraceById`` reads.

Fields are separated by ``\x01`` and entries by ``\x02``, as Java's ``TraceDataEncoder`` has it.
Entries are gathered for half a second, or until there are a hundred.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from penstock.core.units import MILLISECOND, SECOND
from penstock.rocketmq.client.errors import ClientError
from penstock.rocketmq.client.events import tell
from penstock.rocketmq.client.message import Message
from penstock.rocketmq.client.names import unwrap
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import SysFlag

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from penstock.rocketmq.client.consume.received import Received
    from penstock.rocketmq.client.network.hub import Hub
    from penstock.rocketmq.client.network.timers import Timer
    from penstock.rocketmq.client.produce.sending import Draft, SendResult

GROUP: Final = "_INNER_TRACE_PRODUCER"
FIELD_END, ENTRY_END = "\x01", "\x02"
GATHERED_MAX: Final = 100
GATHER_S: Final = 0.5
HELD_MAX: Final = 2048
"""Entries that may wait while no broker takes them; more are dropped."""
_KEYS_BYTES_MAX: Final = properties.BYTES_MAX // 2
_REGION: Final = "DefaultRegion"
_NORMAL, _HALF, _ENDED, _DELAYED = 0, 1, 2, 3
"""The kinds of messages by their places in Java's ``MessageType``."""


def entry(*fields: object) -> str:
    """One entry of the body."""
    texts = ("true" if f is True else "false" if f is False else str(f) for f in fields)
    return FIELD_END.join(texts) + ENTRY_END


def _joined(keys: str | Iterable[str]) -> str:
    return keys if isinstance(keys, str) else " ".join(keys)


class Tracer:
    """A collector of trace entries, which it sends together."""

    def __init__(self, hub: Hub, send: Callable[[Message], Awaitable[object]]) -> None:
        """``send`` may raise ClientError."""
        self._hub = hub
        self._send = send
        self._held: list[tuple[str, str]] = []
        self._timer: Timer | None = None

    def sent(
        self,
        group: str,
        message: Message,
        made: Draft,
        found: list[SendResult],
        address: str,
        seconds: float,
    ) -> None:
        """Messages were stored."""
        namespace = self._hub.config.namespace
        kind = _HALF if made.sys_flag & SysFlag.PREPARED else _NORMAL
        if message.is_delayed:
            kind = _DELAYED
        took_ms = round(seconds * SECOND / MILLISECOND)
        keys = _joined(message.keys)
        # Java has one entry for a batch, with all ids in it.
        ids = ",".join(each.id for each in found)
        offset_ids = ",".join(each.offset_id for each in found)
        text = entry(
            # The order of the fields is the format: Java's TraceDataEncoder reads them by place.
            "Pub", self._hub.now_ms - took_ms, found[0].region or _REGION,
            unwrap(namespace, group), message.topic, ids, message.tags, keys, address,
            len(message.body), took_ms, kind, offset_ids, True,
        )  # fmt: skip
        self._add(text, " ".join([*(each.id for each in found), keys]))

    def ended(
        self,
        group: str,
        message: Message | Received,
        message_id: str,
        state: str,
        address: str,
        *,
        is_check: bool,
    ) -> None:
        """A broker was told how a transaction ended; ``state`` is Java's word for it."""
        namespace = self._hub.config.namespace
        keys = _joined(message.keys)
        text = entry(
            "EndTransaction", self._hub.now_ms, message.properties.get("MSG_REGION", _REGION),
            unwrap(namespace, group), message.topic, message_id, message.tags, keys, address,
            _ENDED, message_id, state, is_check,
        )  # fmt: skip
        self._add(text, f"{message_id} {keys}")

    def before(self, group: str, message: Received, request_id: str) -> None:
        """A message is about to be handled."""
        keys = " ".join(message.keys)
        region = message.properties.get("MSG_REGION", _REGION)
        text = entry(
            "SubBefore",
            self._hub.now_ms,
            region,
            unwrap(self._hub.config.namespace, group),
            request_id,
            message.id,
            message.reconsume_times,
            keys,
        )
        self._add(text, f"{message.id} {keys}")

    def after(
        self, group: str, message: Received, request_id: str, seconds: float, *, succeeded: bool
    ) -> None:
        """Note that a message was handled."""
        keys = " ".join(message.keys)
        text = entry(
            "SubAfter",
            request_id,
            message.id,
            round(seconds * SECOND / MILLISECOND),
            succeeded,
            keys,
            0 if succeeded else 4,
            self._hub.now_ms,
            unwrap(self._hub.config.namespace, group),
        )
        self._add(text, f"{message.id} {keys}")

    def _add(self, text: str, keys: str) -> None:
        # Tracing must not fill the memory of a program whose brokers are away.
        if len(self._held) < HELD_MAX:
            self._held.append((text, keys))
        if len(self._held) >= GATHERED_MAX:
            self._hub.spawn(self.flush(), "trace")
        elif self._timer is None:
            self._timer = self._hub.later(GATHER_S, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self._hub.spawn(self.flush(), "trace")

    async def flush(self) -> None:
        """Send what is gathered."""
        # Before the first wait: what comes meanwhile is for the next flush.
        held, self._held = self._held, []
        for part in _parts(held, self._hub.config.max_message_size):
            body = b"".join(text for text, _ in part)
            keys = " ".join(dict.fromkeys(" ".join(keys for _, keys in part).split()))
            keys = keys.encode("utf-8", "replace")[:_KEYS_BYTES_MAX].decode("utf-8", "ignore")
            try:
                await self._send(Message(self._hub.config.trace_topic, body, keys=keys))
            except ClientError as error:
                tell(logging.WARNING, "trace-failed", f"send trace data failed: {error}")


def _parts(held: Iterable[tuple[str, str]], nbytes_max: int) -> Iterator[list[tuple[bytes, str]]]:
    """Entries, encoded, and their keys, as many together as one message takes: that of a large
    batch has all its ids.
    """
    part: list[tuple[bytes, str]] = []
    nbytes = 0
    for text, keys in held:
        encoded = text.encode("utf-8", "replace")
        if part and (len(part) == GATHERED_MAX or nbytes + len(encoded) > nbytes_max):
            yield part
            part, nbytes = [], 0
        part.append((encoded, keys))
        nbytes += len(encoded)
    if part:
        yield part
