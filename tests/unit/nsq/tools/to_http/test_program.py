from __future__ import annotations

import pytest

from penstock.core.clock import SYSTEM_CLOCK
from penstock.nsq.client import Message
from penstock.nsq.tools.to_http.hops import Endpoint
from penstock.nsq.tools.to_http.options import parse_options
from penstock.nsq.tools.to_http.program import Forwarder
from penstock.nsq.tools.to_http.publisher import Publisher, PublishFailed


class Recorder(Publisher):
    """Publishes nothing."""

    def __init__(self) -> None:
        self.published: list[tuple[str, bytes]] = []
        self.fails: set[str] = set()

    async def publish(self, endpoint: Endpoint, body: bytes) -> None:
        host = endpoint.address.removeprefix("http://")
        self.published.append((host, body))
        if host in self.fails:
            raise PublishFailed("got status code 500")


class Dice:
    """Gives these fractions, one after the other."""

    def __init__(self, *fractions: float) -> None:
        self._fractions = iter(fractions)

    def below(self, limit: int) -> int:
        raise AssertionError

    def fraction(self) -> float:
        return next(self._fractions)


def forwarder(recorder: Recorder, *flags: str, dice: Dice | None = None) -> Forwarder:
    argv = ["--topic=t", "--nsqd-tcp-address=h:1", "--post=http://a", "--post=http://b", *flags]
    return Forwarder(parse_options(argv), recorder, SYSTEM_CLOCK, dice or Dice())


def message(body: bytes) -> Message:
    return Message(0, 1, b"0" * 16, body, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mode", "order"),
    [("round-robin", "bab"), ("hostpool", "aba"), ("all", "ababab")],
)
async def test_whose_turn_it_is(mode: str, order: str) -> None:
    recorder = Recorder()
    at_work = forwarder(recorder, f"--mode={mode}")
    for _ in range(3):
        await at_work.handle(message(b"m"))
    assert "".join(address for address, _ in recorder.published) == order


async def test_a_dead_host_is_left_alone() -> None:
    recorder = Recorder()
    recorder.fails = {"a"}
    at_work = forwarder(recorder)
    with pytest.raises(PublishFailed):
        await at_work.handle(message(b"m"))
    for _ in range(3):
        await at_work.handle(message(b"m"))
    assert "".join(address for address, _ in recorder.published) == "abbb"


async def test_the_first_failure_is_enough(capsys: pytest.CaptureFixture[str]) -> None:
    recorder = Recorder()
    recorder.fails = {"a"}
    at_work = forwarder(recorder, "--mode=every")
    with pytest.raises(PublishFailed):
        await at_work.handle(message(b"m"))
    assert len(recorder.published) == 1
    assert "--mode=every is not one of round-robin" in capsys.readouterr().err


async def test_only_a_sample_is_published() -> None:
    recorder = Recorder()
    at_work = forwarder(recorder, "--sample=0.5", dice=Dice(0.4, 0.6, 0.5, 0.9))
    for body in (b"1", b"2", b"3", b"4"):
        await at_work.handle(message(body))
    assert [body for _, body in recorder.published] == [b"1", b"3"]


async def test_status_lines(capsys: pytest.CaptureFixture[str]) -> None:
    recorder = Recorder()
    at_work = forwarder(recorder, "--status-every=2")
    for _ in range(5):
        await at_work.handle(message(b"m"))
    said = capsys.readouterr().err
    assert said.count("Warning: use more than 100 status values") == 3
    assert said.count("[aggregate]: finished 2 - 99th: ") == 2
    assert said.count("[http://a]: finished 2 - 99th: ") == 1
    assert said.count("[http://b]: finished 2 - 99th: ") == 0
