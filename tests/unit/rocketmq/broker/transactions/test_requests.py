"""Requests about transactions, beyond what ``test_ending`` shows of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.protocol.errors import BodyError
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.lives import Lives
from tests.unit.rocketmq.broker.peers import answered_later, request

from .halves import PEER, begin, life

RESUME_CHECK = 323


@pytest.fixture
async def services(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Services]:
    lives = Lives(tmp_path, clock)
    services = await life(lives)
    yield services
    await services.transactions.close()
    lives.end()


async def test_only_what_was_given_up_can_be_resumed(services: Services) -> None:
    half = await begin(services)
    for message_id in (half.message_id, "7F00000100002A9F0000100000000000"):
        asked = request(RESUME_CHECK, msgId=message_id)
        with pytest.raises(RefusedError, match="was not given up"):
            await answered_later(services, PEER.connection, asked)
    with pytest.raises(BodyError, match="no message id"):
        await answered_later(services, PEER.connection, request(RESUME_CHECK, msgId="x"))
