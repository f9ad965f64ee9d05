from __future__ import annotations

import asyncio

import pytest

from penstock.net.http.server.later import Later, later_of
from penstock.net.http.server.message import Response


def test_later() -> None:
    calls = []
    later = Later()
    later.when_ready(lambda: calls.append(1))
    assert calls == []
    response = Response()
    later.complete(response)
    assert (calls, later.response) == ([1], response)
    with pytest.raises(RuntimeError):
        later.complete(response)


def test_whoever_works_on_it_hears_that_nobody_waits() -> None:
    heard = []
    later = Later()
    later.abandon()  # nobody cares
    later.abandoned = lambda: heard.append(1)
    later.abandon()
    assert heard == [1]
    later.complete(Response())
    later.abandon()
    assert heard == [1], "it is answered"


def test_later_completed_before_anybody_waits() -> None:
    calls = []
    later = Later()
    later.complete(Response())
    later.when_ready(lambda: calls.append(1))
    assert calls == [1]


OK = Response()


def failed(error: BaseException) -> Response:
    return Response(500, repr(error).encode())


async def coroutine(error: Exception | None = None) -> Response:
    await asyncio.sleep(0)
    if error is not None:
        raise error
    return OK


async def settled(answer: object) -> Response:
    """What `later_of` makes of a handler's answer in the end."""
    later = later_of(answer, failed)
    done = asyncio.Event()
    later.when_ready(done.set)
    await asyncio.wait_for(done.wait(), 30)
    assert later.response is not None
    return later.response


async def test_what_is_there_needs_no_waiting() -> None:
    future = asyncio.get_running_loop().create_future()
    future.set_result(OK)
    given = Later()
    assert later_of(given, failed) is given
    assert later_of(OK, failed).response is OK
    assert later_of(future, failed).response is OK


async def test_awaitables() -> None:
    assert await settled(coroutine()) is OK
    assert await settled(asyncio.ensure_future(coroutine())) is OK


async def test_failures() -> None:
    cancelled = asyncio.get_running_loop().create_future()
    cancelled.cancel()
    assert (await settled(cancelled)).body == b"CancelledError()"
    assert (await settled(coroutine(KeyError(1)))).body == b"KeyError(1)"
    assert (await settled(5)).body == b"TypeError('a handler returned 5')"
