from __future__ import annotations

import asyncio
import signal
import subprocess
import sys

import pytest

from penstock.nsq.tools import run
from penstock.nsq.tools.errors import ToolError
from penstock.nsq.tools.run import Stop, closed_on, until


class Closable:
    def __init__(self, slow: bool = False) -> None:
        self.closed = asyncio.Event()
        self._slow = slow

    async def close(self, grace: float = 0.0) -> None:
        if self._slow:
            await asyncio.sleep(0.02)
        self.closed.set()


async def test_until_ends_the_body_wherever_it_waits() -> None:
    stop = Stop()
    asyncio.get_running_loop().call_later(0.01, stop.request)
    async with until(stop):
        await asyncio.Event().wait()
    assert stop.requested


async def test_until_lets_a_body_end_by_itself_and_fail_by_itself() -> None:
    async with until(Stop()):
        pass
    with pytest.raises(TimeoutError):
        async with until(Stop()):
            raise TimeoutError


async def test_consumers_are_closed_when_asked_to_end() -> None:
    stop, consumers = Stop(), [Closable(), Closable(slow=True)]
    async with closed_on(stop, *consumers):
        stop.request()
        await consumers[0].closed.wait()
    # The other one had its time, although the body had ended.
    assert consumers[1].closed.is_set()


async def test_consumers_are_left_alone_otherwise() -> None:
    consumer = Closable()
    async with closed_on(Stop(), consumer):
        pass
    assert not consumer.closed.is_set()


async def test_a_body_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_LINGER_S", 0.01)
    stop = Stop()
    async with closed_on(stop, Closable()):
        stop.request()
        await asyncio.Event().wait()


PROGRAM = """
import asyncio, sys
from penstock.nsq.tools.run import run_tool
async def main(stop):
    print("ready", flush=True)
    {body}
sys.exit(run_tool(main))
"""


def started(body: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", PROGRAM.format(body=body)]
    program = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert program.stdout is not None
    assert program.stdout.readline() == "ready\n"
    return program


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_it_to_end(number: signal.Signals) -> None:
    program = started("await stop.wait()")
    program.send_signal(number)
    assert program.communicate(timeout=60) == ("", "")
    assert program.returncode == 0


def test_a_second_signal_ends_it_at_once() -> None:
    program = started("await stop.wait(); print('asked', flush=True); await asyncio.sleep(600)")
    program.terminate()
    assert program.stdout is not None
    assert program.stdout.readline() == "asked\n"
    program.terminate()
    program.communicate(timeout=60)
    assert program.returncode == -signal.SIGTERM


def test_an_exception_is_one_line_and_a_code(capsys: pytest.CaptureFixture[str]) -> None:
    program = started("raise ValueError('no')")
    err = program.communicate(timeout=60)[1]
    assert program.returncode == 1
    assert err.endswith(" unexpected ValueError: no\n")
    assert err.count("\n") == 1


def test_a_tools_own_code_is_returned() -> None:
    program = started("return 7")
    program.communicate(timeout=60)
    assert program.returncode == 7
    assert ToolError("x").code == 1
