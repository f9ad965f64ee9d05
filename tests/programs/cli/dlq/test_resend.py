"""Dead letters go back where they came from, whatever comes in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from penstock.cli.dlq import resend as module
from penstock.cli.dlq.choice import Choice
from penstock.cli.dlq.letters import DeadTopic, dead_topic, open_runs, read
from penstock.cli.dlq.resend import planned, require_nsq, resend
from penstock.cli.nodes import Place
from penstock.cli.stop import Stop
from penstock.core.errors import ConfigError
from penstock.nsq.client.blocking import Producer
from penstock.nsq.dead_letters.resend import ResendError
from penstock.nsq.dead_letters.topics import CHANNEL
from penstock.testing.daemons import Daemon, run_nsqd
from tests.unit.cli.nodes_at_work import ask, consume, depths, kill_letters, make, publish

BODIES = [b'{"id":%d}' % number for number in range(20)]


@pytest.fixture
def nsqd() -> Iterator[Daemon]:
    with run_nsqd() as daemon:
        kill_letters(daemon, "orders", "bill", BODIES)
        yield daemon


def letters(nsqd: Daemon) -> DeadTopic:
    return dead_topic([Place(nsqd.http)], "orders.dead")[0]


def still_dead(nsqd: Daemon) -> list[bytes]:
    topic = letters(nsqd)
    return [letter.body for letter in read(topic, open_runs(topic))]


def test_all_of_them(nsqd: Daemon) -> None:
    with Stop() as stop:
        result = resend(letters(nsqd), Choice(), None, stop)
        assert (result.sent, result.orphans, result.missing) == (Counter(orders=20), 0, 0)
        assert consume(nsqd, "orders", "bill", 20) == BODIES
        assert still_dead(nsqd) == []
        assert resend(letters(nsqd), Choice(), None, stop).sent == Counter()


def test_some_of_them_and_the_others_stay_at_hand(nsqd: Daemon) -> None:
    with Stop() as stop:
        result = resend(letters(nsqd), Choice(grep="[37]}"), "elsewhere", stop)
        assert result.sent == Counter(elsewhere=4)
        make(nsqd, "elsewhere", "c")
        assert sorted(consume(nsqd, "elsewhere", "c", 4)) == sorted(
            body for body in BODIES if body[-2:-1] in b"37"
        )
        assert still_dead(nsqd) == [body for body in BODIES if body[-2:-1] not in b"37"]
        # None of them is put off any longer.
        assert len(consume(nsqd, "orders.dead", CHANNEL, 16)) == 16


def test_letters_that_do_not_say_where_they_came_from(nsqd: Daemon) -> None:
    make(nsqd, "orders.dead", CHANNEL)
    publish(nsqd, "orders.dead", [b"without origin"])
    targets, orphans = planned(letters(nsqd), Choice(), None)
    assert set(targets.values()) <= {"orders"}
    assert orphans == 1
    with Stop() as stop:
        result = resend(letters(nsqd), Choice(), None, stop)
        assert result.orphans == 1
        assert result.sent.total() == len(targets)
        assert b"without origin" in still_dead(nsqd)
        assert resend(letters(nsqd), Choice(), "back", stop).sent == Counter(back=1)


class CrashError(BaseException):
    """The process ends here."""


def test_a_crash_between_publish_and_finish_doubles_and_never_loses(
    nsqd: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Crashing(Producer):
        def multi_publish(self, topic: str, bodies: Sequence[bytes]) -> None:
            super().multi_publish(topic, bodies)
            raise CrashError

    with Stop() as stop:
        with monkeypatch.context() as crashing:
            crashing.setattr(module, "Producer", Crashing)
            crashing.setattr(module, "IN_FLIGHT_S", 1.0)
            with pytest.raises(CrashError):
                resend(letters(nsqd), Choice(), None, stop)
        assert len(still_dead(nsqd)) == 20
        assert resend(letters(nsqd), Choice(), None, stop).sent == Counter(orders=20)
    twice = depths(nsqd, "orders")["bill"]
    assert 20 < twice <= 40
    assert set(consume(nsqd, "orders", "bill", twice)) == set(BODIES)


def test_letters_that_somebody_else_holds(
    nsqd: Daemon, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "IN_FLIGHT_S", 1.0)
    monkeypatch.setattr(module, "_SPARE_S", 0.2)
    monkeypatch.setattr(module, "_WAIT_S", 0.3)
    make(nsqd, "orders.dead", CHANNEL)
    ask(nsqd, "POST", f"/channel/pause?topic=orders.dead&channel={CHANNEL}")
    with Stop() as stop:
        result = resend(letters(nsqd), Choice(), None, stop)
    assert (result.sent.total(), result.missing) == (0, 20)
    assert capsys.readouterr().err == "waiting for 20 letters in flight elsewhere\n"


def test_a_refusal_leaves_the_letters(nsqd: Daemon) -> None:
    with Stop() as stop:
        with pytest.raises(ResendError, match=r"^topic no name did not take the letters: "):
            resend(letters(nsqd), Choice(), "no name", stop)
        assert len(still_dead(nsqd)) == 20
        stop._on_signal()
        assert resend(letters(nsqd), Choice(), None, stop).sent == Counter()
    assert len(still_dead(nsqd)) == 20


def test_rocketmqs_letters_are_refused_with_another_way() -> None:
    topic = DeadTopic(Place("127.0.0.1:1"), "%DLQ%group", None)
    with pytest.raises(ConfigError, match="penstock replay %DLQ%group --to TOPIC"):
        require_nsq(topic)
