"""Offsets of a group: told to the broker, or kept in a file of a broadcast consumer.

A group without an offset begins where ``consume_from_where`` says (RocketMQ spec 4.4).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Protocol

from penstock.core.errors import ConfigError
from penstock.core.units import MILLISECOND, MINUTE, SECOND
from penstock.rocketmq.client.consume.held_queue import HeldQueue
from penstock.rocketmq.client.errors import ClientError, no_broker, refusal
from penstock.rocketmq.client.events import tell
from penstock.rocketmq.client.names import RETRY
from penstock.rocketmq.client.network.hub import Hub
from penstock.rocketmq.client.network.jobs import all_of
from penstock.rocketmq.protocol import fastjson, requests
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.message_queue import MessageQueue
from penstock.rocketmq.protocol.requests import Request

_HALF_AN_HOUR: Final = 30 * MINUTE


class Offsets(Protocol):
    """The place where a group's offsets are kept."""

    async def read(self, queue: MessageQueue) -> int | None:
        """The group's offset; None where it has none. Raises ClientError."""
        ...

    async def write(self, offsets: dict[MessageQueue, int]) -> None:
        """The group is so far, in some of its queues. Raises ClientError."""
        ...


class QueueBounds:
    """Questions about queues to their brokers."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def first(self, queue: MessageQueue) -> int:
        """The first offset that the queue still has."""
        return await self._ask(queue, requests.first_offset(queue))

    async def end(self, queue: MessageQueue) -> int:
        """The offset that the next message will have."""
        return await self._ask(queue, requests.end_offset(queue))

    async def at(self, queue: MessageQueue, timestamp: float) -> int:
        """The first offset that was stored at this Unix time or later."""
        ms = int(timestamp * SECOND) // MILLISECOND
        return await self._ask(queue, requests.offset_at(queue, ms))

    async def _ask(self, queue: MessageQueue, request: Request) -> int:
        address = await server_of(self._hub, queue)
        answer = await self._hub.demand(address, *request, subject=f"topic {queue.topic}")
        return answer.int64("offset", 0)


async def server_of(hub: Hub, queue: MessageQueue) -> str:
    """The address of a queue's broker; of a slave while the master is away. Raises ClientError."""
    if queue.brokerName not in hub.routes.brokers:
        await hub.routes.of(queue.topic)
    address = hub.routes.reader(queue.brokerName)
    if address is None:
        raise no_broker(queue.brokerName)
    return address


class BrokerOffsets:
    """Offsets that the broker of each queue keeps."""

    def __init__(self, hub: Hub, group: str) -> None:
        self._hub = hub
        self._group = group

    async def read(self, queue: MessageQueue) -> int | None:
        address = await server_of(self._hub, queue)
        answer = await self._hub.ask(address, *requests.committed(self._group, queue))
        # RocketMQ spec 4.4: 22 leaves the beginning to the client.
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        if answer.code != ResponseCode.SUCCESS:
            raise refusal(address, answer.code, answer.remark, f"group {self._group}")
        return answer.int64("offset", 0)

    async def write(self, offsets: dict[MessageQueue, int]) -> None:
        for queue, offset in offsets.items():
            address = await server_of(self._hub, queue)
            request = requests.commit(self._group, queue, offset)
            await self._hub.demand(address, *request, subject=f"group {self._group}")


class LocalOffsets:
    """Offsets in a file, in Java's form and at its place: each member has all messages.

    The file is replaced as a whole, so a crash of the program leaves the one before.
    """

    def __init__(self, hub: Hub, group: str) -> None:
        """Find the file. Raises ConfigError where neither option nor user names a folder."""
        config = hub.config
        home = Path(config.offset_store_path) if config.offset_store_path else _default_folder()
        # An id with a process and a number in it would never find its file again.
        client = f"{hub.client_id.partition('@')[0]}@{config.instance_name or 'DEFAULT'}"
        self.path = home / client / group / "offsets.json"
        self._offsets: dict[MessageQueue, int] | None = None

    async def read(self, queue: MessageQueue) -> int | None:
        return self._read().get(queue)

    async def write(self, offsets: dict[MessageQueue, int]) -> None:
        table = self._read()
        table.update(offsets)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(".tmp")
        draft.write_bytes(fastjson.dumps({"offsetTable": table}))
        # Not synced: a power cut may cost the file, and then the group begins as if it had none.
        os.replace(draft, self.path)

    def _read(self) -> dict[MessageQueue, int]:
        if self._offsets is None:
            self._offsets = {}
            try:
                table = fastjson.loads(self.path.read_bytes())["offsetTable"]
                for key, offset in table.items():
                    self._offsets[MessageQueue.from_json(dict(key))] = int(offset)
            except FileNotFoundError:
                pass  # usual for a new group
            except (OSError, BodyError, AttributeError, KeyError, TypeError, ValueError) as error:
                tell(
                    logging.ERROR,
                    "commit-failed",
                    f"readLocalOffset {self.path} failed, the group begins as if it had none: "
                    f"{error}",
                )
        return self._offsets


class Start:
    """The offset at which a group begins in a queue."""

    def __init__(self, hub: Hub, offsets: Offsets) -> None:
        self._hub = hub
        self._offsets = offsets
        self._bounds = QueueBounds(hub)
        self._started_ns = hub.clock.wall_ns()

    async def of(self, queue: MessageQueue) -> int:
        """The group's offset, or the one at which a new group begins. Raises ClientError."""
        found = await self._offsets.read(queue)
        if found is not None and found >= 0:
            return found
        config = self._hub.config
        where = config.consume_from_where
        if queue.topic.startswith(RETRY):
            # RocketMQ spec 4.4: for a retry topic LAST means 0.
            where = "CONSUME_FROM_FIRST_OFFSET"  # what comes again is never too old
        if where == "CONSUME_FROM_FIRST_OFFSET":
            return await self._bounds.first(queue)
        if where == "CONSUME_FROM_LAST_OFFSET":
            return await self._bounds.end(queue)
        since = config.consume_timestamp or (self._started_ns - _HALF_AN_HOUR) / SECOND
        return await self._bounds.at(queue, since)


class Commits:
    """A writer of how far a member's queues are done; a failure is logged, and tried again."""

    def __init__(self, hub: Hub, group: str, offsets: Offsets) -> None:
        self._hub = hub
        self._group = group
        self._offsets = offsets
        self._begun: set[tuple[str, str]] = set()
        """Brokers and topics at which the group has committed."""

    async def write(self, queues: Iterable[HeldQueue]) -> None:
        """Commit these queues, side by side, but the first one of a topic at a broker alone.

        With it Java's broker makes the group's table, and of two that come at once it may lose one
        (``ConsumerOffsetManager.commitOffset`` in 4.9 and 5.3).
        """
        changed = [held for held in queues if held.commit_offset != held.committed]
        first: dict[tuple[str, str], HeldQueue] = {}
        for held in changed:
            if _place(held) not in self._begun:
                first.setdefault(_place(held), held)
        await self._write_all(first.values())
        await self._write_all(held for held in changed if first.get(_place(held)) is not held)

    async def _write_all(self, queues: Iterable[HeldQueue]) -> None:
        await all_of([self._hub.spawn(self._write(held), "commit") for held in queues])

    async def _write(self, held: HeldQueue) -> None:
        offset = held.commit_offset
        try:
            await self._offsets.write({held.queue: offset})
            held.committed = offset
            # Only after an answer: a commit that failed has made no table.
            self._begun.add(_place(held))
        except (ClientError, OSError) as error:
            tell(
                logging.WARNING,
                "commit-failed",
                f"updateConsumeOffsetToBroker exception: {error}",
                group=self._group,
                topic=held.queue.topic,
                queue=held.queue,
            )


def _place(held: HeldQueue) -> tuple[str, str]:
    return held.queue.brokerName, held.queue.topic


def _default_folder() -> Path:
    try:
        return Path.home() / ".rocketmq_offsets"
    except RuntimeError:
        raise ConfigError(
            "broadcast consumers keep their offsets in the home directory, and this user has none:"
            " set offset_store_path"
        ) from None
