"""The producers of both libraries against a scripted server."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from penstock.core.errors import ConfigError
from penstock.nsq.client.config import Config
from penstock.nsq.client.errors import (
    BadMessage,
    BadTopic,
    ClientError,
    MpubFailed,
    NotConnected,
    PubFailed,
)
from penstock.nsq.protocol import frames
from penstock.nsq.protocol.events import Nop, Publish
from tests.programs.nsq.client.conftest import Shell, bodies, until
from tests.unit.nsq.client.fakes import FakeNsqd, fake_nsqd
from tools.harness.ports import unused_address


async def test_publish(shell: Shell, nsqd: FakeNsqd) -> None:
    async with shell.producer(nsqd.address) as producer:
        await producer.publish("t", b"one")
        await producer.multi_publish("t", [b"two", cast(bytes, bytearray(b"three"))])
        await producer.multi_publish("t", [])
        await producer.deferred_publish("t", 0.29, b"four")
        assert producer.pending == 0
    assert nsqd.published == [("t", [b"one"]), ("t", [b"two", b"three"]), ("t", [b"four"])]
    assert [e.delay_ns for e in nsqd.asked if isinstance(e, Publish)][-1] == 290_000_000


async def test_what_no_node_would_take_is_not_sent(shell: Shell, nsqd: FakeNsqd) -> None:
    async with shell.producer(nsqd.address) as producer:
        with pytest.raises(BadTopic, match=r'^E_BAD_TOPIC PUB topic name "t!" is not valid$'):
            await producer.publish("t!", b"x")
        with pytest.raises(BadMessage, match=r"^E_BAD_MESSAGE PUB invalid message body size 0$"):
            await producer.publish("t", b"")
        with pytest.raises(BadMessage, match="MPUB"):
            await producer.multi_publish("t", [b"x", b""])
        with pytest.raises(TypeError):
            await producer.publish("t", "text")
        assert producer.pending == 0
    assert nsqd.asked == []


async def test_a_refusal_is_named_for_its_code_and_the_producer_lives_on(
    shell: Shell, nsqd: FakeNsqd
) -> None:
    async with shell.producer(nsqd.address) as producer:
        nsqd.refusals["Publish"] = "E_PUB_FAILED PUB failed exiting"
        with pytest.raises(PubFailed):
            await producer.publish("t", b"x")
        nsqd.refusals.clear()
        await producer.publish("t", b"x")
    assert nsqd.published == [("t", [b"x"])]


async def test_flush_and_leaving_raise_what_outcomes_would(shell: Shell, nsqd: FakeNsqd) -> None:
    nsqd.refuse = lambda bodies: "E_BAD_MESSAGE MPUB message too big" if b"big" in bodies else ""
    producer = shell.producer(nsqd.address)
    outcomes = [await producer.publish_soon("t", body) for body in (b"1", b"big", b"2")]
    with pytest.raises(BadMessage):
        await producer.flush()
    outcomes[0].result()
    with pytest.raises(BadMessage):
        outcomes[1].result()
    await producer.flush()
    assert bodies(nsqd) == [b"1", b"2"]
    with pytest.raises(BadMessage):
        async with producer:
            await producer.publish_soon("t", b"big")


async def test_big_lists_become_several_commands(shell: Shell, nsqd: FakeNsqd) -> None:
    async with shell.producer(nsqd.address, max_body_size=100) as producer:
        await producer.multi_publish("t", [b"%030d" % n for n in range(6)] + [b"x" * 200])
    assert [len(several) for _, several in nsqd.published] == [2, 2, 2, 1]


async def test_another_node_stands_in(shell: Shell, nsqd: FakeNsqd) -> None:
    with fake_nsqd() as other:
        async with shell.producer(unused_address(), nsqd.address, other.address) as producer:
            for n in range(9):
                await producer.publish("t", b"%d" % n)
        assert sorted(bodies(nsqd) + bodies(other)) == [b"%d" % n for n in range(9)]
        assert bodies(nsqd)
        assert bodies(other)


async def test_a_node_that_cannot_store_is_passed_over(shell: Shell, nsqd: FakeNsqd) -> None:
    with fake_nsqd() as other:
        nsqd.refusals["Publish"] = "E_PUB_FAILED PUB failed exiting"
        async with shell.producer(nsqd.address, other.address) as producer:
            for _ in range(3):
                await producer.publish("t", b"x")
            other.refusals["Publish"] = "E_MPUB_FAILED MPUB failed exiting"
            with pytest.raises((PubFailed, MpubFailed)):
                await producer.multi_publish("t", [b"1", b"2"])
            other.refusals["Publish"] = "E_PUB_FAILED PUB failed exiting"
            with pytest.raises(PubFailed):
                await producer.publish("t", b"1")
        assert len(bodies(other)) == 3


async def test_a_connection_lost_in_between_is_replaced(shell: Shell, nsqd: FakeNsqd) -> None:
    async with shell.producer(nsqd.address) as producer:
        await producer.publish("t", b"1")
        nsqd.drop_connections()
        nsqd.wait(lambda: not nsqd._sessions)
        await producer.publish("t", b"2")
    assert nsqd.published == [("t", [b"1"]), ("t", [b"2"])]


@pytest.mark.parametrize("resend", [True, False])
async def test_a_loss_before_the_answer(shell: Shell, nsqd: FakeNsqd, resend: bool) -> None:
    async with shell.producer(nsqd.address, resend=resend) as producer:
        await producer.publish("t", b"1")
        nsqd.silent = True
        second = asyncio.ensure_future(producer.publish("t", b"2"))
        await until(lambda: nsqd.count(Publish) == 2)
        nsqd.silent = False
        nsqd.drop_connections()
        if resend:
            await second
        else:
            with pytest.raises(NotConnected):
                await second
    assert bodies(nsqd) == ([b"1", b"2"] if resend else [b"1"])


async def test_nobody_there(shell: Shell) -> None:
    address = unused_address()
    async with shell.producer(address) as producer:
        for tried in (lambda: producer.publish("t", b"1"), producer.ping):
            with pytest.raises(NotConnected, match=address):
                await tried()


async def test_a_host_whose_name_has_an_empty_part(shell: Shell) -> None:
    async with shell.producer("nsqd..example.com:4150") as producer:
        for _ in range(2):
            with pytest.raises(NotConnected, match=r"lookup nsqd\.\.example\.com: no such host"):
                async with asyncio.timeout(30):
                    await producer.publish("t", b"x")


async def test_ping_finds_a_node_that_is_there(shell: Shell, nsqd: FakeNsqd) -> None:
    async with shell.producer(unused_address(), nsqd.address) as producer:
        await producer.ping()
        await until(lambda: nsqd.count(Nop) == 1)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (frames.response(b"WHAT"), "unexpected answer to a publish"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "E_BAD_FRAME"),
    ],
    ids=["frame", "stranger"],
)
async def test_strange_answers(shell: Shell, nsqd: FakeNsqd, answer: bytes, text: str) -> None:
    async with shell.producer(nsqd.address, resend=False) as producer:
        await producer.ping()
        nsqd.silent = True
        pending = asyncio.ensure_future(producer.publish("t", b"x"))
        await until(lambda: nsqd.count(Publish) == 1)
        nsqd.send(answer)
        with pytest.raises(ClientError, match=text):
            await pending
        nsqd.silent = False
        await producer.publish("t", b"y")


@pytest.mark.parametrize(
    ("addresses", "options", "error", "text"),
    [
        (["a:1"], {"config": Config(heartbeat_interval=90)}, ConfigError, "HeartbeatInterval"),
        (["a:1"], {"mode": "some"}, ConfigError, "unknown mode"),
        ([], {}, ConfigError, "no address"),
        (["a"], {}, ValueError, "missing port"),
    ],
    ids=["config", "mode", "nowhere", "port"],
)
async def test_options_are_checked(
    shell: Shell, addresses: list[str], options: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        shell.producer(*addresses, **options)
