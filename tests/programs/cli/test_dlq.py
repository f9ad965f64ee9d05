"""``penstock dlq`` at running nodes: letters are listed, shown, sent again and exported."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest

from penstock.cli.dlq import actions as module
from penstock.cli.dlq.actions import planned, resend
from penstock.cli.dlq.dead_topics import (
    DeadTopic,
    LetterChoice,
    NoDeadLetters,
    NotPenstock,
    dead_topic,
    dead_topics,
    open_runs,
)
from penstock.cli.shared.node_selection import NodeAddress, NodeSelection
from penstock.cli.shared.stop import Stop
from penstock.cluster.http_client import HttpClient
from penstock.cluster.upstream_errors import UnreachableError, UpstreamError
from penstock.nsq.client.aio import Producer
from penstock.nsq.dead_letters import resend as channel
from penstock.nsq.dead_letters.export import FORMS, stored_letters
from penstock.nsq.dead_letters.listing import OffsetRun
from penstock.nsq.dead_letters.resend import ResendError, Result
from penstock.nsq.dead_letters.topics import CHANNEL
from penstock.nsq.stored import Stored
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.messages import properties
from penstock.testing.daemons import Daemon, run_mqbroker, run_nsqd, run_nsqlookupd
from tests.unit.cli.nodes_at_work import Commands, ask, consume, depths, kill_letters, make, publish
from tools.harness.rocketmq.raw_client import RawClient


async def test_topics_by_what_channels_send_there_and_by_name() -> None:
    with run_nsqd("--dead-letter-topic=%s-lost") as nsqd:
        place = NodeAddress(nsqd.http, nsqd.tcp)
        kill_letters(nsqd, "orders", "bill", [b"x", b"y"])
        make(nsqd, "clicks", "c")
        make(nsqd, "clicks-lost")  # no channel gives anything up: no dead letters go there
        make(nsqd, "old.dead")
        async with NodeSelection().http() as http:
            found = await dead_topics(http, place)
            assert [topic.name for topic in found] == ["old.dead", "orders-lost"]
            (lost,) = await dead_topic(http, [place], "orders-lost")
            assert await open_runs(http, lost) == [OffsetRun(0, 2)]
            (old,) = await dead_topic(http, [place], "old.dead")
            assert await open_runs(http, old) == []


async def test_a_channel_tells_what_is_open() -> None:
    with run_nsqd() as nsqd:
        make(nsqd, "t.dead", CHANNEL)
        publish(nsqd, "t.dead", [b"%d" % number for number in range(6)])
        consume(nsqd, "t.dead", CHANNEL, 2)
        async with NodeSelection().http() as http:
            (topic,) = await dead_topic(http, [NodeAddress(nsqd.http)], "t.dead")
            async with asyncio.timeout(60):
                while await open_runs(http, topic) != [OffsetRun(2, 6)]:
                    pass


async def test_what_is_not_there() -> None:
    async with NodeSelection().http() as http:
        with run_nsqd() as nsqd:
            place = NodeAddress(nsqd.http)
            make(nsqd, "t.dead")
            with pytest.raises(
                NoDeadLetters, match=r"^no topic 't' on .*; did you mean t\.dead\?$"
            ):
                await dead_topic(http, [place], "t")
            ask(nsqd, "POST", "/topic/delete?topic=t.dead")
            with pytest.raises(NoDeadLetters, match=r"^no topic 't' on [^;]*$"):
                await dead_topic(http, [place], "t")
        with pytest.raises(UnreachableError, match="cannot be reached"):
            await dead_topics(http, NodeAddress("127.0.0.1:1"))
        with run_nsqlookupd() as other, pytest.raises(NotPenstock, match="has no dead letters"):
            await dead_topics(http, NodeAddress(other.http))


BODIES = [b'{"id":%d}' % number for number in range(20)]


@pytest.fixture
def nsqd() -> Iterator[Daemon]:
    """A node with dead letters of channel bill in topic orders.dead."""
    with run_nsqd() as daemon:
        kill_letters(daemon, "orders", "bill", BODIES)
        yield daemon


@pytest.fixture(scope="module")
def unchanged() -> Iterator[Daemon]:
    """One for tests that only look."""
    with run_nsqd() as daemon:
        kill_letters(daemon, "orders", "bill", BODIES)
        yield daemon


def at(nsqd: Daemon) -> str:
    return f"--nsqd-http-address={nsqd.http}"


def test_the_list(unchanged: Daemon, command: Commands) -> None:
    ended = command("dlq", "list", at(unchanged))
    assert (ended.code, ended.err) == (0, "")
    title, row = ended.out.splitlines()
    assert title.split() == ["NODE", "TOPIC", "LETTERS", "OLDEST", "NEWEST", "FROM"]
    node, topic, letters, oldest, newest, origin = row.split()
    assert (node, topic, letters, origin) == (unchanged.http, "orders.dead", "20", "orders/bill")
    assert oldest.endswith("s")
    assert newest.endswith("s")
    found = json.loads(command("dlq", "list", at(unchanged), "--json").out)
    assert (found["letters"], found["kind"]) == (20, "nsq")
    assert 0 < found["oldest_ns"] <= found["newest_ns"]


def test_showing_letters(unchanged: Daemon, command: Commands) -> None:
    ended = command("dlq", "show", "orders.dead", at(unchanged), "--limit=1")
    assert "from orders/bill after 1 attempt," in ended.out
    assert '| {"id":0}' in ended.out
    assert '"id":1' not in ended.out
    ended = command("dlq", "show", "orders.dead", at(unchanged), "--newest", "--limit=1", "--json")
    letter = json.loads(ended.out)
    assert (letter["body"], letter["origin"]["channel"]) == ('{"id":19}', "bill")
    ended = command("dlq", "show", "orders.dead", at(unchanged), f"--id={letter['origin']['id']}")
    assert '| {"id":19}' in ended.out
    ended = command("dlq", "show", "orders.dead", at(unchanged), "--grep=nothing")
    assert (ended.out, ended.err) == ("", "no such dead letters\n")


def test_resending(nsqd: Daemon, command: Commands) -> None:
    ended = command("dlq", "resend", "orders.dead", at(nsqd), "--all", "--dry-run")
    assert ended.out == f"{nsqd.http} orders.dead: would send 20 to topic orders\n"
    ended = command("dlq", "resend", "orders.dead", at(nsqd), "--filter=id=2")
    assert ended.out == f"{nsqd.http} orders.dead: sent 1 to topic orders\n"
    ended = command("dlq", "resend", "orders.dead", at(nsqd), "--all")
    assert ended.out == f"{nsqd.http} orders.dead: sent 19 to topic orders\n"
    assert sorted(consume(nsqd, "orders", "bill", 20)) == sorted(BODIES)
    ended = command("dlq", "resend", "orders.dead", at(nsqd), "--all")
    assert (ended.code, ended.out) == (0, f"{nsqd.http} orders.dead: nothing to send\n")


def test_letters_without_an_origin_need_a_topic(nsqd: Daemon, command: Commands) -> None:
    publish(nsqd, "orders.dead", [b"lost"])
    ended = command("dlq", "resend", "orders.dead", at(nsqd), "--grep=lost")
    assert ended.out.splitlines()[-1].endswith("1 do not say where they came from; give --to")
    ended = command("dlq", "resend", "orders.dead", at(nsqd), "--grep=lost", "--to=found")
    assert ended.out.endswith("sent 1 to topic found\n")


def test_export(unchanged: Daemon, command: Commands, tmp_path: Path) -> None:
    file = tmp_path / "letters"
    ended = command("dlq", "export", "orders.dead", at(unchanged), "--form=raw", f"--output={file}")
    assert (ended.code, ended.err) == (0, f"20 letters in {file}\n")
    assert file.read_bytes().splitlines() == BODIES
    again = command("dlq", "export", "orders.dead", at(unchanged), f"--output={file}")
    assert again.err == f"penstock: {file} exists; it is not overwritten\n"
    nowhere = command("dlq", "export", "orders.dead", at(unchanged), f"--output={file}/x")
    assert nowhere.err.startswith(f"penstock: {file}/x: ")
    assert nowhere.err.count("\n") == 1


def test_an_export_that_fails_leaves_no_file(
    unchanged: Daemon, command: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "letters"
    left = ["one more", "none"]

    def line(node: str, topic: str, letter: Stored) -> bytes:
        if left.pop(0) == "none":
            raise UpstreamError(f"{node} is gone")
        return letter.body + b"\n"

    monkeypatch.setitem(FORMS, "raw", line)
    ended = command("dlq", "export", "orders.dead", at(unchanged), "--form=raw", f"--output={file}")
    assert (ended.code, ended.err) == (1, f"penstock: {unchanged.http} is gone\n")
    assert not file.exists()
    monkeypatch.undo()
    ended = command("dlq", "export", "orders.dead", at(unchanged), "--form=raw", f"--output={file}")
    assert file.read_bytes().splitlines() == BODIES


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show", "nope"], "no topic 'nope' on {node}"),
        (["resend", "orders.dead", "--all", "--id=0000000000000000"], "say which letters"),
        (["resend", "orders.dead", "--all", "--to=no name"], "E_BAD_TOPIC"),
        (["show", "orders.dead", "--newest", "--grep=x"], "--newest applies to all letters"),
    ],
)
def test_errors_are_one_line(
    unchanged: Daemon, command: Commands, arguments: list[str], said: str
) -> None:
    ended = command("dlq", *arguments, at(unchanged))
    assert ended.code == (2 if said.startswith(("--", "say")) else 1)
    assert ended.err.startswith("penstock: " + said.format(node=unchanged.http))
    assert ended.err.count("\n") == 1
    ended = command("dlq", "list", "--nsqd-http-address=127.0.0.1:1")
    assert ended.err == "penstock: 127.0.0.1:1 cannot be reached: connection refused\n"


def test_rocketmqs_dead_letters_are_listed_shown_and_copied(command: Commands) -> None:
    name = "%DLQ%group"
    with run_mqbroker() as broker:
        client = RawClient(broker.port)
        answer = client.ask(
            RequestCode.UPDATE_AND_CREATE_TOPIC, topic=name, defaultTopic="TBW102",
            readQueueNums=1, writeQueueNums=1, perm=6, topicFilterType="SINGLE_TAG", order="false",
        )  # fmt: skip
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        answer = client.ask(
            RequestCode.SEND_MESSAGE, b"a dead body", producerGroup="PG", topic=name,
            defaultTopic="TBW102", defaultTopicQueueNums=1, queueId=0, sysFlag=0, bornTimestamp=1,
            flag=0, properties=properties.join({}), reconsumeTimes=0, unitMode="false",
        )  # fmt: skip
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        client.close()
        row = json.loads(command("dlq", "list", at(broker), "--json").out.splitlines()[0])
        assert (row["topic"], row["kind"], row["letters"]) == (name, "rocketmq", 1)
        assert row["origin"] == "group"
        shown = command("dlq", "show", name, at(broker)).out
        assert "from group group" in shown
        assert "| a dead body" in shown
        refused = command("dlq", "resend", name, "--all", at(broker))
        assert refused.err.startswith("penstock: the dead letters of RocketMQ's groups")
        assert f"penstock replay {name} --to TOPIC" in refused.err
        copied = command("replay", name, "--to=copy", at(broker))
        assert "published 1 message," in copied.err


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    async with NodeSelection().http() as http:
        yield http


DEAD = "orders.dead"


async def resent(
    http: HttpClient,
    nsqd: Daemon,
    stop: Stop,
    choice: LetterChoice | None = None,
    to: str | None = None,
) -> Result:
    return await resend(
        http, DeadTopic(NodeAddress(nsqd.http), DEAD), choice or LetterChoice(), to, stop
    )


async def still_dead(http: HttpClient, nsqd: Daemon) -> list[bytes]:
    return [letter.body async for letter in stored_letters(http, nsqd.http, DEAD)]


async def test_all_of_them(nsqd: Daemon, http: HttpClient) -> None:
    with Stop() as stop:
        result = await resent(http, nsqd, stop)
        assert (result.sent, result.orphans, result.missing) == (Counter(orders=20), 0, 0)
        assert consume(nsqd, "orders", "bill", 20) == BODIES
        assert await still_dead(http, nsqd) == []
        assert (await resent(http, nsqd, stop)).sent == Counter()


async def test_some_of_them_and_the_others_stay_at_hand(nsqd: Daemon, http: HttpClient) -> None:
    chosen = [body for body in BODIES if body[-2:-1] in b"37"]
    with Stop() as stop:
        result = await resent(http, nsqd, stop, LetterChoice(grep="[37]}"), "elsewhere")
    assert result.sent == Counter(elsewhere=4)
    make(nsqd, "elsewhere", "c")
    assert sorted(consume(nsqd, "elsewhere", "c", 4)) == sorted(chosen)
    assert await still_dead(http, nsqd) == [body for body in BODIES if body not in chosen]
    # None of them is put off any longer.
    assert len(consume(nsqd, DEAD, CHANNEL, 16)) == 16


async def test_letters_that_do_not_say_where_they_came_from(nsqd: Daemon, http: HttpClient) -> None:
    make(nsqd, DEAD, CHANNEL)
    publish(nsqd, DEAD, [b"without origin"])
    plan = await planned(http, DeadTopic(NodeAddress(nsqd.http), DEAD), LetterChoice(), None)
    assert {each.topic for each in plan.targets.values()} <= {"orders"}
    assert plan.result.orphans == 1
    with Stop() as stop:
        result = await resent(http, nsqd, stop)
        assert (result.orphans, result.sent.total()) == (1, len(plan.targets))
        assert b"without origin" in await still_dead(http, nsqd)
        assert (await resent(http, nsqd, stop, to="back")).sent == Counter(back=1)


class CrashError(BaseException):
    """The process ends here."""


async def test_a_crash_between_publish_and_finish_doubles_and_never_loses(
    nsqd: Daemon, http: HttpClient, monkeypatch: pytest.MonkeyPatch
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
                await resent(http, nsqd, stop)
        assert len(await still_dead(http, nsqd)) == 20
        assert (await resent(http, nsqd, stop)).sent == Counter(orders=20)
    twice = depths(nsqd, "orders")["bill"]
    assert 20 < twice <= 40
    assert set(consume(nsqd, "orders", "bill", twice)) == set(BODIES)


async def test_letters_that_somebody_else_holds(
    nsqd: Daemon,
    http: HttpClient,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(module, "IN_FLIGHT_S", 1.0)
    monkeypatch.setattr(module, "_SPARE_S", 0.2)
    for each in (module, channel):
        monkeypatch.setattr(each, "WAIT_S", 0.3)
    make(nsqd, DEAD, CHANNEL)
    ask(nsqd, "POST", f"/channel/pause?topic={DEAD}&channel={CHANNEL}")
    with Stop() as stop:
        result = await resent(http, nsqd, stop)
    assert (result.sent.total(), result.missing) == (0, 20)
    assert capsys.readouterr().err == "waiting for 20 letters in flight elsewhere\n"


async def test_a_refusal_leaves_the_letters(nsqd: Daemon, http: HttpClient) -> None:
    with Stop() as stop:
        with pytest.raises(ResendError, match=r"^topic no name did not take the letters: "):
            await resent(http, nsqd, stop, to="no name")
        assert len(await still_dead(http, nsqd)) == 20
        stop._on_signal()
        assert (await resent(http, nsqd, stop)).sent == Counter()
    assert len(await still_dead(http, nsqd)) == 20
