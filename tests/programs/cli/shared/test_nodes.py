"""The nodes that are meant."""

from __future__ import annotations

import pytest

from penstock.cli.shared.nodes import DEFAULT_NODE, Place, Where, places, tcp_address
from penstock.core.errors import PenstockError
from penstock.testing.daemons import run_nsqd, run_nsqlookupd
from tests.forwarding import wait_until
from tests.unit.cli.nodes_at_work import Commands, ask, make, publish


async def found(nsqds: list[str], lookupds: list[str], topic: str = "") -> list[Place]:
    where = Where(nsqds, lookupds)
    async with where.asker() as asker:
        return await places(asker, where, topic)


async def test_without_addresses_it_is_this_machines_nsqd() -> None:
    assert await found([], []) == [Place(DEFAULT_NODE)]


async def test_given_nodes_and_those_that_nsqlookupd_names() -> None:
    with run_nsqlookupd() as lookupd, run_nsqd(f"--lookupd-tcp-address={lookupd.tcp}") as nsqd:
        make(nsqd, "t")
        wait_until(lambda: ask(lookupd, "GET", "/topics")["topics"] == ["t"], nsqd.log)
        named = Place(nsqd.http, nsqd.tcp)
        given = Place("10.0.0.1:4151")
        assert await found([given.http], [lookupd.http], "t") == [given, named]
        assert await found([], [f"http://{lookupd.http}/", "127.0.0.1:1"]) == [named]
        assert await found([], [lookupd.http], "unknown") == []
        async with Where().asker() as asker:
            assert await tcp_address(asker, Place(nsqd.http)) == nsqd.tcp
    for topic in ("", "t"):
        refused = r"^no nsqlookupd answers: 127\.0\.0\.1:1 cannot be reached: connection refused$"
        with pytest.raises(PenstockError, match=refused):
            await found([], ["127.0.0.1:1"], topic)


def test_no_command_tells_the_password_of_an_address(command: Commands) -> None:
    with run_nsqd() as nsqd:
        make(nsqd, "t")
        make(nsqd, "t.dead")
        publish(nsqd, "t.dead", [b"letter"])
        for http in (nsqd.http, "127.0.0.1:1"):
            address = f"http://me:hush@{http}"
            where = f"--nsqd-http-address={address}"
            for words in (("top", "--once", "--interval=1ms"), ("top", "--json", "--interval=1ms"),
                          ("replay", "t"), ("replay", "t", "--queue=9"), ("dlq", "list"),
                          ("dlq", "show", "t.dead", "--json"), ("dlq", "export", "t.dead"),
                          ("dlq", "resend", "t.dead", "--all", "--dry-run"),
                          ("dlq", "show", "no.dead"), ("doctor",)):  # fmt: skip
                ended = command(*words, where)
                assert http in ended.out + ended.err, words
                assert "hush" not in ended.out + ended.err, words
            ended = command("promote", address)
            assert http in ended.out + ended.err
            assert "hush" not in ended.out + ended.err
