"""One asyncio connection against a scripted server."""

from __future__ import annotations

import asyncio

import pytest

from penstock.nsq.client.aio.link import Link
from penstock.nsq.client.config import Config
from penstock.nsq.client.errors import BadBody, NotConnected, TimedOut
from penstock.nsq.protocol import encode
from penstock.nsq.protocol.commands import Ready
from penstock.nsq.protocol.frames import Frame, Response
from tests.unit.nsq.client.fakes import fake_nsqd


class Owner:
    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.losses: list[str] = []

    def take(self, link: Link, frame: Frame) -> None:
        self.frames.append(frame)

    def lose(self, link: Link, error: NotConnected) -> None:
        self.losses.append(error.reason)

    async def open(self, address: str, settings: Config | None = None) -> Link:
        return await Link.open(address, settings or Config(), on_frame=self.take, on_lost=self.lose)


async def test_a_conversation() -> None:
    owner = Owner()
    with fake_nsqd(max_rdy_count=5) as nsqd:
        link = await owner.open(nsqd.address)
        assert link.is_open
        assert link.server.max_rdy_count == 5
        assert link.answer(encode.publish("t", b"x"))
        async with asyncio.timeout(5):
            while not owner.frames:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        assert owner.frames == [Response(b"OK")]
        await link.close()
        await link.close()
        assert owner.losses == ["closed"]
        assert not link.answer(encode.NOP)
        assert link.left.is_set()


async def test_ready_is_sent_when_it_changes() -> None:
    with fake_nsqd(max_rdy_count=5) as nsqd:
        link = await Link.open(
            nsqd.address,
            Config(),
            ("t", "c"),
            on_frame=lambda link, frame: None,
            on_lost=lambda link, error: None,
        )
        for count in (9, 5, 5, 0):
            link.set_ready(count)
        await link.close()
        nsqd.wait(lambda: not nsqd._sessions)
        assert [event for event in nsqd.asked if isinstance(event, Ready)] == [Ready(5), Ready(0)]


async def test_idle_means_nothing_in_flight() -> None:
    with fake_nsqd() as nsqd:
        link = await Owner().open(nsqd.address)
        assert link.idle.is_set()
        link.add_in_flight(2)
        link.settled()
        assert not link.idle.is_set()
        link.settled()
        assert link.idle.is_set()
        await link.close()


async def test_refusals_and_silence_while_opening() -> None:
    owner = Owner()
    with fake_nsqd() as nsqd:
        nsqd.refusals["Identify"] = "E_BAD_BODY IDENTIFY msg timeout (5) is invalid"
        with pytest.raises(BadBody):
            await owner.open(nsqd.address)
        nsqd.silent = True
        with pytest.raises(TimedOut):
            await owner.open(nsqd.address, Config(dial_timeout=0.05))
        opening = asyncio.ensure_future(owner.open(nsqd.address))
        nsqd.wait(lambda: len(nsqd.asked) == 2)
        await asyncio.sleep(0.02)
        nsqd.drop_connections()
        with pytest.raises(NotConnected):
            await opening
    assert owner.losses == []
