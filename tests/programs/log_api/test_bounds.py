from __future__ import annotations

import pytest

from penstock.cluster.asker import Asker
from penstock.cluster.errors import UnexpectedError
from penstock.log_api.bounds import Bounds, bounds_of
from tests.programs.cluster.conftest import FakeDaemon, StartFake


async def test_the_bounds_of_the_first_queue(fake: StartFake, asker: Asker) -> None:
    node: FakeDaemon = await fake()
    node.answers["/log/offsets"] = {"queues": [{"queue": 0, "start": 3, "end": 9, "bytes": 5}]}
    assert await bounds_of(asker, node.address, "a b") == Bounds(3, 9)
    assert node.asked == ["GET /log/offsets?topic=a+b"]
    node.answers["/log/offsets"] = {"queues": []}
    with pytest.raises(UnexpectedError):
        await bounds_of(asker, node.address, "t")
