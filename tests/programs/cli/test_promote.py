"""``penstock promote`` against real nodes."""

from __future__ import annotations

import pytest

from penstock.testing.daemons import run_nsqd
from tests.copies import ask, publish, until, until_copied
from tests.unit.cli.nodes_at_work import Commands


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(capsys)


def test_a_change_over_and_a_promotion_without_the_old_primary(command: Commands) -> None:
    with run_nsqd() as a, run_nsqd(f"--follow={a.http}") as b:
        publish(a, "t", "1", "2")
        until_copied(a, b, "t")
        refused = command("promote", a.http)
        assert "is primary already, in epoch 1" in refused.out
        done = command("promote", b.http)
        assert done.code == 0, done.err
        assert f"{b.http} is primary in epoch 2" in done.out
        assert f"{a.http} has stepped back, and all that it had is here" in done.out
        publish(b, "t", "3")
        a.flags.append(f"--follow={b.http}")
        a.restart()
        until_copied(b, a, "t")
        b.kill()
        done = command("promote", a.http)
        assert done.code == 0, done.err
        assert f"{a.http} is primary in epoch 3" in done.out
        assert f"{b.http} could not be reached" in done.out
        publish(a, "t", "4")
        assert ask(a, "GET", "/log/offsets?topic=t")[1]["queues"][0]["end"] == 4
        b.start()
        until(b, role="follower", epoch=3, whole=True)  # the flag that it was started with


def test_what_is_no_follower_cannot_be_promoted(command: Commands) -> None:
    with run_nsqd() as primary, run_nsqd(f"--follow={primary.http}") as follower:
        until(follower, error=None)
        primary.kill()
        ended = command("promote", primary.http)
        assert ended.code == 1
        assert "penstock:" in ended.err
