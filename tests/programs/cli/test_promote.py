"""``penstock promote`` against real nodes."""

from __future__ import annotations

import pytest

from penstock.testing.daemons import run_nsqd
from tests.copies import ask, cut_relay, publish, until, until_copied
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


def test_a_copy_that_is_not_whole_needs_force(command: Commands) -> None:
    """Its link breaks in its first copy; the primary goes on, and is not asked to step back."""
    with run_nsqd() as a:
        for number in range(9):
            assert ask(a, "POST", "/pub?topic=t", b"%d" % number * 1_000_000)[0] == 200
        with cut_relay(a.http, 6_000_000) as relay, run_nsqd(f"--follow={relay}") as b:
            shown = until(b, error=f"{relay} cannot be reached: connection refused")
            assert (shown["whole"], shown["was_whole"]) == (False, False)
            refused = command("promote", b.http)
            assert refused.code == 1
            lacks = shown["lag_messages"]
            assert f"at least {lacks} messages ({lacks} of t), and topics" in refused.err
            status, answer = ask(b, "POST", "/replication/promote")
            assert (status, answer["message"], answer["behind"]) == (409, "NOT_WHOLE", {"t": lacks})
            until(b, role="follower")
            publish(a, "t", "the primary has not stepped back")
            done = command("promote", b.http, "--force")
            assert done.code == 0, done.err
            assert f"{lacks} messages are not here" in done.out


def test_a_whole_copy_whose_primary_is_dead_needs_none(command: Commands) -> None:
    with run_nsqd() as a, run_nsqd(f"--follow={a.http}") as b:
        publish(a, "t", "1")
        until_copied(a, b, "t")
        a.kill()
        b.restart()
        until(b, whole=False, was_whole=True, lag_seconds=None)
        done = command("promote", b.http)
        assert done.code == 0, done.err
