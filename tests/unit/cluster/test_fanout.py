from __future__ import annotations

import asyncio

import pytest

from penstock.cluster.errors import NoAnswerError, UpstreamError
from penstock.cluster.fanout import Strict, Warnings, ask_all, try_all


async def ask(number: int) -> int:
    await asyncio.sleep(0)
    if number < 0:
        raise UpstreamError(f"bad {number}")
    return number * 10


async def test_the_good_and_the_others() -> None:
    found = await ask_all("nsqd", [1, -2, 3], ask)
    assert found.answers == [(1, 10), (3, 30)]
    assert found.errors == ["bad -2"]


@pytest.mark.parametrize(("asked", "errors"), [([-1, -2], "bad -1\nbad -2"), ([], "")])
async def test_no_answer_at_all(asked: list[int], errors: str) -> None:
    with pytest.raises(NoAnswerError) as raised:
        await ask_all("nsqd", asked, ask)
    assert str(raised.value) == f"failed to query any nsqd: {errors}"
    assert (await try_all(asked, ask)).answers == []


async def test_a_bug_is_no_warning() -> None:
    async def broken(number: int) -> int:
        raise KeyError(number)

    with pytest.raises(KeyError):
        await ask_all("nsqd", [1], broken)


def test_warnings_by_step() -> None:
    warnings = Warnings()
    assert warnings.message == ""
    warnings.add([])
    warnings.add(["a", "b"])
    warnings.add(iter(["c"]))
    assert warnings.message == "WARNING: a\nb; c"
    assert warnings.errors == ["a", "b", "c"]


def test_a_failure_spoils_the_whole() -> None:
    strict = Strict()
    strict.add([])
    with pytest.raises(NoAnswerError, match=r"^a\nb$"):
        strict.add(["a", "b"])
