"""Transactions on a node whose clock stands still: begin one, end it, see what became of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.store.draft import Draft, Placed
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import StoredMessage
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.conftest import Lives
from tests.unit.rocketmq.broker.filling import stored
from tests.unit.rocketmq.broker.peers import FakePeer, request

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
PEER = FakePeer()


class Scene(Lives):
    """Its transactions are recovered when a life begins."""

    async def live(self) -> None:
        self.start()
        self.services.transactions.start()
        await self.services.transactions.ready.wait()

    async def crash(self) -> None:
        await self.services.transactions.close()
        await self.live()

    async def begin(
        self, body: bytes = b"x", queue: int = 0, born_ms: int | None = None, **more: str
    ) -> Placed:
        """Store the half message of a transaction."""
        text = properties.join({"TRAN_MSG": "true", "PGROUP": "PG", "UNIQ_KEY": "U", **more})
        born_ms = self.services.now_ms if born_ms is None else born_ms
        draft = Draft("T", queue, body, text, sys_flag=4, born_ms=born_ms)
        return await self.services.store.append(self.services.transactions.half(draft))

    async def end(self, half: Placed, how: int, **fields: Any) -> Command | None:
        """The answer to a request to end it. Raises RefusedError."""
        named: dict[str, Any] = {
            "producerGroup": "PG", "tranStateTableOffset": half.queue_offset,
            "commitLogOffset": half.physical_offset, "commitOrRollback": how, "msgId": "U",
            **fields,
        }  # fmt: skip
        code = RequestCode.END_TRANSACTION
        answerer = self.services.answers.later[code]
        return await answerer(PEER.connection, request(code, **named))

    def halves(self) -> list[StoredMessage]:
        return stored(self.services, names.HALF_TOPIC)

    def message(self, half: Placed) -> StoredMessage:
        found = self.services.store.message(half.physical_offset)
        assert found is not None
        return found

    @property
    def given_up(self) -> list[StoredMessage]:
        return stored(self.services, names.GIVEN_UP_HALF_TOPIC)

    @property
    def ops(self) -> list[tuple[bytes, str | None]]:
        """The op messages: the half they are for, and the outcome."""
        return [
            (message.body, properties.value_of(message.properties, "TRAN_OUTCOME"))
            for message in stored(self.services, names.OP_HALF_TOPIC)
        ]

    @property
    def settled(self) -> tuple[int | None, int | None]:
        """What is kept of the progress: offsets of the half and the op topic."""
        group, offsets = names.TRANSACTION_GROUP, self.services.offsets
        return (offsets.query(names.HALF_TOPIC, group, 0),
                offsets.query(names.OP_HALF_TOPIC, group, 0))  # fmt: skip


@pytest.fixture
async def scene(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Scene]:
    scene = Scene(tmp_path, clock)
    await scene.live()
    yield scene
    await scene.services.transactions.close()
    scene.stop()
