"""The looks of an event loop at its sockets after a message, and when they pay."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest
import uvloop

from penstock.net import wakefulness as module
from penstock.net.wakefulness import CREDIT, TRIED_EVERY, WORTH, Wakefulness


class Peers:
    """In place of the loop's descriptor: peers who answer at once, or not."""

    def __init__(self) -> None:
        self.answer = False
        self.looks = 0

    def poll(self, timeout: int) -> list[tuple[int, int]]:
        assert timeout == 0, "a look never sleeps"
        self.looks += 1
        return [(0, select.POLLIN)] if self.answer else []


def run(story: Callable[[Wakefulness, Peers], Coroutine[Any, Any, None]]) -> None:
    """Run ``story`` on uvloop, with looks of one poll each."""

    async def main() -> None:
        wakefulness, peers = Wakefulness(asyncio.get_running_loop()), Peers()
        wakefulness._poll = cast(Any, peers)
        await story(wakefulness, peers)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LOOK_NS", 0)
        uvloop.run(main())


async def looks(wakefulness: Wakefulness, peers: Peers, messages: int) -> int:
    """The looks behind so many messages."""
    before = peers.looks
    for _ in range(messages):
        wakefulness.extend()
        await asyncio.sleep(0)
    return peers.looks - before


def test_a_look_follows_each_message_whose_sender_comes_back() -> None:
    async def story(wakefulness: Wakefulness, peers: Peers) -> None:
        peers.answer = True
        assert await looks(wakefulness, peers, 100) == 100
        await asyncio.sleep(0.01)
        assert peers.looks == 100, "an idle loop sleeps"

    run(story)


def test_several_messages_of_a_pass_share_a_look() -> None:
    async def story(wakefulness: Wakefulness, peers: Peers) -> None:
        wakefulness.extend()
        wakefulness.extend()
        assert await looks(wakefulness, peers, 1) == 1

    run(story)


def test_looks_in_vain_end_and_are_tried_again_seldom() -> None:
    async def story(wakefulness: Wakefulness, peers: Peers) -> None:
        assert await looks(wakefulness, peers, 2 * CREDIT) == CREDIT + CREDIT // TRIED_EVERY
        peers.answer = True
        assert await looks(wakefulness, peers, TRIED_EVERY) == 1
        assert await looks(wakefulness, peers, 10) == 10, "peers have become faster"

    run(story)


def test_a_peer_who_comes_back_pays_for_some_who_do_not() -> None:
    async def story(wakefulness: Wakefulness, peers: Peers) -> None:
        for _ in range(3 * CREDIT):
            peers.answer = True
            await looks(wakefulness, peers, 1)
            peers.answer = False
            assert await looks(wakefulness, peers, WORTH) == WORTH

    run(story)


def test_a_look_finds_what_comes_through_a_socket() -> None:
    async def main(ours: socket.socket, theirs: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        came: list[bytes] = []
        ours.setblocking(False)
        loop.add_reader(ours, lambda: came.append(ours.recv(9)))
        await asyncio.sleep(0.01)
        wakefulness = Wakefulness(loop)
        wakefulness._credit = 1
        loop.call_soon(theirs.send, b"x")  # just before the look
        wakefulness.extend()
        await asyncio.sleep(0.01)
        assert came == [b"x"]
        assert wakefulness._credit == 1 + WORTH
        loop.remove_reader(ours)

    ours, theirs = socket.socketpair()
    with ours, theirs:
        uvloop.run(main(ours, theirs))


def test_a_loop_without_a_descriptor_sleeps() -> None:
    async def main() -> None:
        Wakefulness(asyncio.get_running_loop()).extend()

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(main())
