"""``penstock dlq`` as a user meets it, on NSQ's dead letters and RocketMQ's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.cluster.errors import UpstreamError
from penstock.nsq.dead_letters.export import FORMS
from penstock.nsq.stored import Stored
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.messages import properties
from penstock.testing.daemons import Daemon, run_mqbroker, run_nsqd
from tests.unit.cli.nodes_at_work import Commands, consume, kill_letters, publish
from tools.harness.rocketmq.raw_client import RawClient

BODIES = [b'{"id":%d}' % number for number in range(4)]


@contextmanager
def with_letters() -> Iterator[Daemon]:
    with run_nsqd() as daemon:
        kill_letters(daemon, "orders", "bill", BODIES)
        yield daemon


@pytest.fixture
def nsqd() -> Iterator[Daemon]:
    with with_letters() as daemon:
        yield daemon


@pytest.fixture(scope="module")
def unchanged() -> Iterator[Daemon]:
    """For tests that only look."""
    with with_letters() as daemon:
        yield daemon


def at(nsqd: Daemon) -> str:
    return f"--nsqd-http-address={nsqd.http}"


def test_the_list(unchanged: Daemon, command: Commands) -> None:
    ended = command("dlq", "list", at(unchanged))
    assert (ended.code, ended.err) == (0, "")
    title, row = ended.out.splitlines()
    assert title.split() == ["NODE", "TOPIC", "LETTERS", "OLDEST", "NEWEST", "FROM"]
    node, topic, letters, oldest, newest, origin = row.split()
    assert (node, topic, letters, origin) == (unchanged.http, "orders.dead", "4", "orders/bill")
    assert oldest.endswith("s")
    assert newest.endswith("s")
    found = json.loads(command("dlq", "list", at(unchanged), "--json").out)
    assert (found["letters"], found["kind"]) == (4, "nsq")
    assert 0 < found["oldest_ns"] <= found["newest_ns"]


def test_showing_letters(unchanged: Daemon, command: Commands) -> None:
    ended = command("dlq", "show", "orders.dead", at(unchanged), "--limit=1")
    assert "from orders/bill after 1 attempt," in ended.out
    assert '| {"id":0}' in ended.out
    assert '"id":1' not in ended.out
    ended = command("dlq", "show", "orders.dead", at(unchanged), "--newest", "--limit=1", "--json")
    letter = json.loads(ended.out)
    assert (letter["body"], letter["origin"]["channel"]) == ('{"id":3}', "bill")
    ended = command("dlq", "show", "orders.dead", at(unchanged), f"--id={letter['origin']['id']}")
    assert '| {"id":3}' in ended.out
    ended = command("dlq", "show", "orders.dead", at(unchanged), "--grep=nothing")
    assert (ended.out, ended.err) == ("", "no such dead letters\n")


def test_resending(nsqd: Daemon, command: Commands) -> None:
    ended = command("dlq", "resend", "orders.dead", at(nsqd), "--all", "--dry-run")
    assert ended.out == f"{nsqd.http} orders.dead: would send 4 to topic orders\n"
    ended = command("dlq", "resend", "orders.dead", at(nsqd), "--filter=id=2")
    assert ended.out == f"{nsqd.http} orders.dead: sent 1 to topic orders\n"
    ended = command("dlq", "resend", "orders.dead", at(nsqd), "--all")
    assert ended.out == f"{nsqd.http} orders.dead: sent 3 to topic orders\n"
    assert sorted(consume(nsqd, "orders", "bill", 4)) == BODIES
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
    assert (ended.code, ended.err) == (0, f"4 letters in {file}\n")
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
        (["show", "orders"], None),
        (["show", "nope"], "no topic 'nope' on {node}"),
        (["resend", "orders.dead"], "say which letters: --all, or some of --id"),
        (["resend", "orders.dead", "--all", "--id=0000000000000000"], "say which letters"),
        (["resend", "orders.dead", "--all", "--to=no name"], "E_BAD_TOPIC"),
        (["show", "orders.dead", "--newest", "--grep=x"], "--newest applies to all letters"),
    ],
)
def test_errors_are_one_line(
    unchanged: Daemon, command: Commands, arguments: list[str], said: str | None
) -> None:
    ended = command("dlq", *arguments, at(unchanged))
    if said is None:
        assert ended.code == 0
        return
    assert ended.code == (2 if said.startswith(("--", "say")) else 1)
    assert ended.err.startswith("penstock: " + said.format(node=unchanged.http))
    assert ended.err.count("\n") == 1


def test_a_node_that_is_not_there(command: Commands) -> None:
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
        copied = command("replay", name, "--to=copy", at(broker))
        assert "published 1 message," in copied.err
