"""Dead letters go back where they came from, whatever comes in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence

import pytest

from penstock.cli.dlq import run as module
from penstock.cli.dlq.letters import Choice, DeadTopic
from penstock.cli.dlq.run import planned, require_nsq, resend
from penstock.cli.shared.nodes import Place, Where
from penstock.cli.shared.stop import Stop
from penstock.cluster.asker import Asker
from penstock.core.errors import ConfigError
from penstock.nsq.client.aio import Producer
from penstock.nsq.dead_letters import resend as channel
from penstock.nsq.dead_letters.export import stored_letters
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


@pytest.fixture
async def asker() -> AsyncIterator[Asker]:
    async with Where().asker() as asker:
        yield asker


def letters(nsqd: Daemon) -> DeadTopic:
    return DeadTopic(Place(nsqd.http), "orders.dead")


async def still_dead(asker: Asker, nsqd: Daemon) -> list[bytes]:
    return [letter.body async for letter in stored_letters(asker, nsqd.http, "orders.dead")]


async def test_all_of_them(nsqd: Daemon, asker: Asker) -> None:
    with Stop() as stop:
        result = await resend(asker, letters(nsqd), Choice(), None, stop)
        assert (result.sent, result.orphans, result.missing) == (Counter(orders=20), 0, 0)
        assert consume(nsqd, "orders", "bill", 20) == BODIES
        assert await still_dead(asker, nsqd) == []
        assert (await resend(asker, letters(nsqd), Choice(), None, stop)).sent == Counter()


async def test_some_of_them_and_the_others_stay_at_hand(nsqd: Daemon, asker: Asker) -> None:
    with Stop() as stop:
        result = await resend(asker, letters(nsqd), Choice(grep="[37]}"), "elsewhere", stop)
        assert result.sent == Counter(elsewhere=4)
        make(nsqd, "elsewhere", "c")
        assert sorted(consume(nsqd, "elsewhere", "c", 4)) == sorted(
            body for body in BODIES if body[-2:-1] in b"37"
        )
        assert await still_dead(asker, nsqd) == [
            body for body in BODIES if body[-2:-1] not in b"37"
        ]
        # None of them is put off any longer.
        assert len(consume(nsqd, "orders.dead", CHANNEL, 16)) == 16


async def test_letters_that_do_not_say_where_they_came_from(nsqd: Daemon, asker: Asker) -> None:
    make(nsqd, "orders.dead", CHANNEL)
    publish(nsqd, "orders.dead", [b"without origin"])
    plan = await planned(asker, letters(nsqd), Choice(), None)
    assert set(plan.targets.values()) <= {"orders"}
    assert plan.result.orphans == 1
    with Stop() as stop:
        result = await resend(asker, letters(nsqd), Choice(), None, stop)
        assert result.orphans == 1
        assert result.sent.total() == len(plan.targets)
        assert b"without origin" in await still_dead(asker, nsqd)
        assert (await resend(asker, letters(nsqd), Choice(), "back", stop)).sent == Counter(back=1)


class CrashError(BaseException):
    """The process ends here."""


async def test_a_crash_between_publish_and_finish_doubles_and_never_loses(
    nsqd: Daemon, asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Crashing(Producer):
        async def multi_publish(self, topic: str, bodies: Sequence[bytes]) -> None:
            await super().multi_publish(topic, bodies)
            raise CrashError

    with Stop() as stop:
        with monkeypatch.context() as crashing:
            crashing.setattr(channel, "Producer", Crashing)
            crashing.setattr(channel, "IN_FLIGHT_S", 1.0)
            with pytest.raises(CrashError):
                await resend(asker, letters(nsqd), Choice(), None, stop)
        assert len(await still_dead(asker, nsqd)) == 20
        assert (await resend(asker, letters(nsqd), Choice(), None, stop)).sent == Counter(orders=20)
    twice = depths(nsqd, "orders")["bill"]
    assert 20 < twice <= 40
    assert set(consume(nsqd, "orders", "bill", twice)) == set(BODIES)


async def test_letters_that_somebody_else_holds(
    nsqd: Daemon, asker: Asker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "IN_FLIGHT_S", 1.0)
    monkeypatch.setattr(module, "_SPARE_S", 0.2)
    for each in (module, channel):
        monkeypatch.setattr(each, "WAIT_S", 0.3)
    make(nsqd, "orders.dead", CHANNEL)
    ask(nsqd, "POST", f"/channel/pause?topic=orders.dead&channel={CHANNEL}")
    with Stop() as stop:
        result = await resend(asker, letters(nsqd), Choice(), None, stop)
    assert (result.sent.total(), result.missing) == (0, 20)
    assert capsys.readouterr().err == "waiting for 20 letters in flight elsewhere\n"


async def test_a_refusal_leaves_the_letters(nsqd: Daemon, asker: Asker) -> None:
    with Stop() as stop:
        with pytest.raises(ResendError, match=r"^topic no name did not take the letters: "):
            await resend(asker, letters(nsqd), Choice(), "no name", stop)
        assert len(await still_dead(asker, nsqd)) == 20
        stop._on_signal()
        assert (await resend(asker, letters(nsqd), Choice(), None, stop)).sent == Counter()
    assert len(await still_dead(asker, nsqd)) == 20


def test_rocketmqs_letters_are_refused_with_another_way() -> None:
    topic = DeadTopic(Place("127.0.0.1:1"), "%DLQ%group")
    with pytest.raises(ConfigError, match="penstock replay %DLQ%group --to TOPIC"):
        require_nsq(topic)
