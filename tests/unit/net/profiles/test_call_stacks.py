from __future__ import annotations

import asyncio
import sys
import threading

from penstock.net.profiles import call_stacks
from penstock.net.profiles.call_stacks import DEPTH_MAX, Frame, Stack


async def inner(ready: asyncio.Event) -> None:
    ready.set()
    await asyncio.Event().wait()


async def outer(ready: asyncio.Event) -> None:
    await inner(ready)


def names(stack: Stack) -> list[str]:
    return [frame.function.rpartition(".")[2] for frame in stack.frames]


async def test_a_task_is_followed_to_what_it_awaits() -> None:
    ready = asyncio.Event()
    task = asyncio.create_task(outer(ready), name="waits")
    await ready.wait()
    found = {stack.name: stack for stack in call_stacks.tasks()}
    assert names(found["waits"]) == ["wait", "inner", "outer"]
    (place,) = (frame for frame in found["waits"].frames if frame.function.endswith(".inner"))
    assert (place.function, place.file) == (f"{__name__}.inner", __file__)
    assert place.line == place.first_line + 2
    task.cancel()


def test_a_thread_shows_where_it_stands() -> None:
    started, end = threading.Event(), threading.Event()

    def stand() -> None:
        started.set()
        end.wait()

    thread = threading.Thread(target=stand, name="stands")
    thread.start()
    started.wait()
    try:
        found = {stack.name: stack for stack in call_stacks.threads()}
    finally:
        end.set()
        thread.join()
    assert "stand" in names(found["stands"])
    assert "test_a_thread_shows_where_it_stands" in names(found["MainThread"])


def test_deep_stacks_are_cut() -> None:
    def deeper(depth: int) -> list[Frame]:
        return deeper(depth - 1) if depth else call_stacks.frames_of(sys._getframe())

    assert len(deeper(3)) < DEPTH_MAX
    assert len(deeper(DEPTH_MAX)) == DEPTH_MAX
    assert call_stacks.frames_of(None) == []


def test_text_reads_like_a_traceback() -> None:
    places = [Frame("m.in", "none.py", 7, 5), Frame("m.out", "o.py", 1, 1)]
    assert call_stacks.as_text([Stack("thread", "MainThread", places)]) == (
        'thread MainThread\n  File "o.py", line 1, in m.out\n  File "none.py", line 7, in m.in\n'
    )
    shown = call_stacks.as_text([Stack("thread", "t", call_stacks.frames_of(sys._getframe()))])
    assert "    shown = call_stacks.as_text(" in shown
