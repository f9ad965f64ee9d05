"""The role in which a data path is opened."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import ConfigError
from penstock.net.address import join_host_port
from penstock.replication import peer, starting
from penstock.replication.peer import CONNECT_S
from penstock.replication.secret import Secret
from penstock.replication.standing import Role, Standing, write_standing
from penstock.replication.starting import decide, standby_for
from penstock.storage.files.disk import OsDisk
from tests.programs.nsq.nsqd.conftest import Running, Start, options
from tools.harness.ports import unused_address


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that is only late is waited for."""
    monkeypatch.setattr(peer, "CONNECT_S", 60.0)
    monkeypatch.setattr(starting, "ASK_S", 60.0)


async def decided(standing: Standing | None, **changes: Any) -> Standing | None:
    return await decide(options("/nowhere", **changes), standing, "/nowhere", Secret())


@pytest.fixture
async def successor(start: Start, tmp_path: Path) -> Running:
    """A primary of history h in epoch 2."""
    (tmp_path / "successor").mkdir()
    write_standing(OsDisk(), str(tmp_path / "successor"), Standing("h", 2))
    return await start(data_path=tmp_path / "successor")


def address(running: Running) -> str:
    return f"127.0.0.1:{running.nsqd.ports.http}"


async def test_a_node_that_has_nothing_to_do_with_copies_starts_as_ever(tmp_path: Path) -> None:
    assert await decided(None) is None
    assert await standby_for(options(tmp_path), lambda: None) is None


async def test_a_primary_asks_those_who_have_copied_it(successor: Running) -> None:
    standing = Standing("h", 1, followers=[address(successor)])
    found = await decided(standing)
    assert found is not None
    assert (found.role, found.fenced_epoch, found.primary) == (
        Role.FENCED, 2, address(successor),
    )  # fmt: skip
    other = await decided(Standing("other", 1, followers=[address(successor)]))
    assert other is not None
    assert other.role is Role.PRIMARY
    alone = await decided(Standing("h", 1, followers=[unused_address()]))
    assert alone is not None
    assert alone.role is Role.PRIMARY


@asynccontextmanager
async def told(**status: object) -> AsyncIterator[str]:
    """The address of a node that says this of itself."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = json.dumps(status).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield join_host_port(*server.sockets[0].getsockname())


async def test_the_successor_is_the_one_that_takes_publishes_not_a_copy_of_it() -> None:
    gone = unused_address()
    async with (
        told(role="primary", epoch=2, history="h") as primary,
        told(role="follower", epoch=2, history="h", primary=primary) as copy,
        told(role="follower", epoch=2, history="h", primary=gone) as other,
        told(role="follower", epoch=2, history="h", primary="us:1") as promoting,
        told(role="primary", epoch=3, history="h") as newest,
    ):
        for followers, epoch, successor in (
            ([copy, primary], 2, primary),
            ([other, gone], 2, gone),
            ([promoting], 2, promoting),
            ([copy, primary, newest], 3, newest),
        ):
            found = await decided(Standing("h", 1, followers=followers))
            assert found is not None
            assert (found.role, found.fenced_epoch, found.primary) == (
                Role.FENCED, epoch, successor,
            )  # fmt: skip


async def test_a_successor_that_is_slow_to_answer_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peer, "CONNECT_S", CONNECT_S)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(CONNECT_S + 0.5)
        body = b'{"role":"primary","epoch":2,"history":"h"}'
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        slow = join_host_port(*server.sockets[0].getsockname())
        found = await decided(Standing("h", 1, Role.PRIMARY, slow), follow=slow)
    assert found is not None
    assert found.role is Role.FOLLOWER


async def test_a_follower_s_data_path_needs_the_flag() -> None:
    with pytest.raises(ConfigError, match="penstock promote"):
        await decided(Standing("h", 1, Role.FOLLOWER, "a:1"))
    found = await decided(Standing("h", 1, Role.FOLLOWER, "a:1"), follow="b:1")
    assert found is not None
    assert (found.role, found.primary, found.is_settled) == (Role.FOLLOWER, "b:1", True)


async def test_a_promoted_node_ignores_the_flag_until_the_other_was_promoted_after_it(
    successor: Running,
) -> None:
    follow = address(successor)
    promoted = await decided(Standing("h", 3, Role.PRIMARY, follow), follow=follow)
    assert promoted is not None
    assert promoted.role is Role.PRIMARY
    outranked = await decided(Standing("h", 1, Role.PRIMARY, follow), follow=follow)
    assert outranked is not None
    assert (outranked.role, outranked.is_settled) == (Role.FOLLOWER, False)
    assert outranked.known_epoch == 2, "before the first answer of the primary"
    over_tls = await decided(Standing("h", 3, Role.PRIMARY, "a:1"), follow="https://a:1")
    assert over_tls is not None
    assert over_tls.role is Role.PRIMARY, "the same node, asked in another way since"
    with pytest.raises(ConfigError, match="not in a higher one"):
        await decided(Standing("other", 1), follow=follow)


async def test_a_promoted_node_with_the_flag_asks_its_own_followers_too(successor: Running) -> None:
    gone = unused_address()
    promoted = Standing("h", 1, Role.PRIMARY, gone, followers=[address(successor)])
    found = await decided(promoted, follow=gone)
    assert found is not None
    assert (found.role, found.fenced_epoch, found.primary) == (
        Role.FENCED, 2, address(successor),
    )  # fmt: skip


async def test_a_fenced_node_stays_so_or_follows() -> None:
    fenced = Standing("h", 1, Role.FENCED, "b:1", fenced_epoch=2)
    assert await decided(fenced) is fenced
    found = await decided(fenced, follow="b:1")
    assert found is not None
    assert (found.role, found.is_settled) == (Role.FOLLOWER, False)


async def test_a_data_path_of_another_user_is_named_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.replication.starting.os.access", lambda *_: False)
    with pytest.raises(ConfigError) as found:
        await standby_for(options(tmp_path), lambda: None)
    assert str(found.value) == (
        f"failed to lock data-path: open {tmp_path}: permission denied; "
        "run this as the user whom the folder belongs to"
    )
