"""The creation id of a log: the same over every kill, another one for a topic made again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.net.http.client.once import request
from penstock.testing.daemons import Daemon, run_nsqd

_SECONDS = 60.0
ROUNDS = 2


async def ask(nsqd: Daemon, method: str, path: str) -> Any:
    answer = await request(method, f"http://{nsqd.http}{path}", _SECONDS)
    assert answer.status == 200, answer.body
    return json.loads(answer.body or b"null")


async def creation_id(nsqd: Daemon) -> str:
    """Of topic t, which is made if it is not there."""
    await ask(nsqd, "POST", "/topic/create?topic=t")
    (queue,) = (await ask(nsqd, "GET", "/log/offsets?topic=t"))["queues"]
    found: str = queue["log"]
    return found


@pytest.mark.parametrize("lost", [None, "queue.json"])
async def test_a_creation_id_outlives_kills_and_is_never_given_again(lost: str | None) -> None:
    seen: list[str] = []
    with run_nsqd() as nsqd:
        for _ in range(ROUNDS):
            seen.append(await creation_id(nsqd))
            nsqd.kill()
            if lost is not None:
                (nsqd.data_path / "topics" / "t@0" / lost).unlink()
            nsqd.start()
            assert await creation_id(nsqd) == seen[-1]
            await ask(nsqd, "POST", "/topic/delete?topic=t")
            nsqd.kill()
            nsqd.start()
            seen.append(await creation_id(nsqd))
            await ask(nsqd, "POST", "/topic/delete?topic=t")
    assert len(set(seen)) == 2 * ROUNDS
