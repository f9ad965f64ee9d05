"""Codes without answerers, failures, and how many answers may be under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from penstock.core.errors import StorageError
from penstock.rocketmq.broker import processor
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from tools.harness.rocketmq.raw_client import RawClient

FREE = 31_999
"""A code that nobody has."""


@pytest.fixture
def client(connect: Callable[[], RawClient]) -> RawClient:
    return connect()


@pytest.mark.parametrize("code", [0, 13, 47, FREE, -5])
def test_unknown_codes_are_said_to_be(client: RawClient, code: int) -> None:
    answer = client.ask(code)
    assert (answer.code, answer.remark) == (3, f" request type {code} not supported")


@pytest.mark.parametrize(
    ("error", "code", "remark"),
    [
        (RefusedError(ResponseCode.NO_PERMISSION, "not you"), 16, "not you"),
        (BodyError("the field x is missing"), 1, "the field x is missing"),
        (StorageError("the disk is gone"), 1, "the disk is gone"),
    ],
)
@pytest.mark.parametrize("later", [False, True])
def test_failures_are_answers(
    client: RawClient,
    rocket: RocketBroker,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    code: int,
    remark: str,
    later: bool,
) -> None:
    def fail(*_: object) -> None:
        raise error

    async def fail_later(*_: object) -> None:
        raise error

    if later:
        monkeypatch.setitem(rocket.services.answers.later, FREE, fail_later)
    else:
        monkeypatch.setitem(rocket.services.answers.at_once, FREE, fail)
    answer = client.ask(FREE)
    assert (answer.code, answer.remark) == (code, remark)


@pytest.mark.parametrize("later", [False, True])
def test_a_bug_reaches_the_log_and_not_the_client(
    client: RawClient,
    rocket: RocketBroker,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    later: bool,
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("secret")

    async def fail_later(*_: object) -> None:
        raise ZeroDivisionError("secret")

    if later:
        monkeypatch.setitem(rocket.services.answers.later, FREE, fail_later)
    else:
        monkeypatch.setitem(rocket.services.answers.at_once, FREE, fail)
    answer = client.ask(FREE)
    assert (answer.code, answer.remark) == (1, "the broker failed; see its log")
    assert "ZeroDivisionError" in caplog.text
    assert client.ask(28).code == 0


def test_too_many_answers_under_way_are_refused(
    client: RawClient, rocket: RocketBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asyncio.Event()

    async def never(*_: object) -> Command | None:
        await asked.wait()
        return None

    monkeypatch.setattr(processor, "UNDER_WAY_MAX", 3)
    monkeypatch.setitem(rocket.services.answers.later, FREE, never)
    from penstock.rocketmq.protocol import frames

    for _ in range(3):
        client.send(frames.encode(client.request(FREE)))
    answer = client.ask(FREE)
    assert answer.code == 2
    assert "[OVERLOAD]" in (answer.remark or "")
