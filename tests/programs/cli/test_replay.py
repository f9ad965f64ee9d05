"""``penstock replay`` from running nodes to files, pipes and topics."""

from __future__ import annotations

import json
import re
import resource
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec import structs
from rich.progress import Progress

from penstock.cli.replay.replay_command import (
    NodePart,
    NoLog,
    OffsetGone,
    Progressing,
    ReplayOptions,
    no_log,
    stretches,
)
from penstock.cli.replay.sinks import Nowhere, Printing, Publishing, SinkError
from penstock.cli.shared.node_selection import NodeAddress
from penstock.core.errors import PenstockError
from penstock.log_api.errors import LogError
from penstock.log_api.log_client import Fetched, LogClient
from penstock.nsq.stored import Stored
from penstock.testing.daemons import Daemon, run_nsqd
from tests.forwarding import wait_until
from tests.unit.cli.nodes_at_work import Commands, ask, consume, depths, kill_letters, make, publish
from tools.harness.processes import unread


def test_any_part_of_a_log_in_whatever_batches_it_lies() -> None:
    bodies = [b"%d" % number * (number % 7 + 1) for number in range(40)]
    with run_nsqd() as nsqd, LogClient(nsqd.http) as log:
        make(nsqd, "t")
        for first in range(0, 40, 8):
            publish(nsqd, "t", bodies[first : first + 8])
        for first, end in ((0, 40), (3, 5), (7, 9), (39, 40), (5, 5)):
            found = [each for part in stretches(log, "t", first, end) for each in part.messages()]
            assert [each.offset for each in found] == list(range(first, end))
            assert [each.body for each in found] == bodies[first:end]
        ids = [each["id"] for each in ask(nsqd, "GET", "/topic/peek?topic=t")["messages"]]
        whole = [each for part in stretches(log, "t", 0, 40) for each in part.messages()]
        assert [each.id for each in whole] == ids
        assert all(each.origin is None for each in whole)


def test_a_dead_letter_says_where_it_came_from() -> None:
    with run_nsqd() as nsqd, LogClient(nsqd.http) as log:
        kill_letters(nsqd, "t", "c", [b"x", b"y"])
        found = [each for part in stretches(log, "t.dead", 0, 2) for each in part.messages()]
        shown = ask(nsqd, "GET", "/deadletters?topic=t.dead")["messages"]
    assert [each.origin and structs.asdict(each.origin) for each in found] == [
        each["origin"] for each in shown
    ]
    assert [each.body for each in found] == [b"x", b"y"]


def test_what_retention_has_let_go() -> None:
    with run_nsqd("--max-bytes-per-file=4096", "--sync-timeout=10ms") as nsqd:
        make(nsqd, "t", "c")
        for _ in range(4):
            publish(nsqd, "t", [b"x" * 3000] * 4)
        consume(nsqd, "t", "c", 16)
        with LogClient(nsqd.http) as log:
            # All segments go but the newest, one after the other.
            wait_until(lambda: log.offsets("t").queues[0].start == 12, nsqd.log)
            with pytest.raises(OffsetGone, match=r"^offset 0 of topic 't' is gone .* holds 12 "):
                list(stretches(log, "t", 0, 16))


class Damaged(LogClient):
    """A node, or what is between, that sends nonsense."""

    def fetch(self, *_: object, **__: object) -> Fetched:
        return Fetched(b"nonsense" * 20, 0, 9)


def test_damaged_data_and_an_nsqd_without_a_log_are_said_in_one_line() -> None:
    with pytest.raises(PenstockError, match=r"^127\.0\.0\.1:1 sent damaged data of topic 't'"):
        list(stretches(Damaged("127.0.0.1:1"), "t", 0, 9))
    assert isinstance(no_log(LogError("n:1", 404, "NOT_FOUND")), NoLog)
    refused = LogError("n:1", 400, "INVALID_ARG_QUEUE")
    assert no_log(refused) is refused


BODIES = [b'{"id":%d}' % number for number in range(50)]


@contextmanager
def with_messages() -> Iterator[Daemon]:
    with run_nsqd() as daemon:
        make(daemon, "t")
        publish(daemon, "t", BODIES[:20])
        publish(daemon, "t", BODIES[20:])
        yield daemon


@pytest.fixture
def nsqd() -> Iterator[Daemon]:
    with with_messages() as daemon:
        yield daemon


@pytest.fixture(scope="module")
def unchanged() -> Iterator[Daemon]:
    """For tests that only look."""
    with with_messages() as daemon:
        yield daemon


def at(nsqd: Daemon) -> str:
    return f"--nsqd-http-address={nsqd.http}"


def test_printing_a_part(unchanged: Daemon, command: Commands) -> None:
    ended = command("replay", "t", at(unchanged), "--from-offset=18", "--to-offset=22")
    assert ended.code == 0
    assert ended.out.encode() == b"\n".join(BODIES[18:22]) + b"\n"
    assert ended.err.startswith(
        f"{unchanged.http} topic t: printed 4 messages, 36 bytes, offsets 18 to 21, in "
    )


def test_a_disk_that_is_full_after_the_first_ten(unchanged: Daemon, tmp_path: Path) -> None:
    size = sum(len(body) + 1 for body in BODIES[:10])

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    command = [sys.executable, "-m", "penstock.cli.penstock", "replay", "t", at(unchanged)]
    with (tmp_path / "out").open("wb") as out:
        done = subprocess.run([*command, "--rate=200"], stdout=out, stderr=subprocess.PIPE,
                              text=True, preexec_fn=limit, check=False)  # fmt: skip
    assert done.returncode == 1
    said, where, go_on = done.stderr.splitlines()
    assert said == "penstock: standard output takes no more: file too large"
    assert where == f"{unchanged.http}: done up to, not including, offset 10; go on:"
    assert "--from-offset 10 --to-offset 50" in go_on


def test_a_node_under_two_addresses_is_read_once(unchanged: Daemon, command: Commands) -> None:
    other = f"localhost:{unchanged.http_port}"
    ended = command("replay", "t", f"--nsqd-http-address={other}", at(unchanged), "--from-offset=9")
    assert ended.code == 0
    assert ended.out.encode() == b"\n".join(BODIES[9:]) + b"\n"
    assert f"left out: {unchanged.http} has the same log as {other}\n" in ended.err


def test_printing_what_matches(unchanged: Daemon, command: Commands) -> None:
    ended = command("replay", "t", at(unchanged), "--grep=[05]}", "--count=3", "--print=json")
    found = [json.loads(line) for line in ended.out.splitlines()]
    assert [message["offset"] for message in found] == [0, 5, 10]
    assert "printed 3 messages, 25 bytes, offsets 0 to 10, 8 left out" in ended.err
    ended = command("replay", "t", at(unchanged), "--filter=id=33", "--print=hex")
    assert bytes.fromhex(ended.out.strip()) == BODIES[33]


def test_from_and_to_a_time(unchanged: Daemon, command: Commands) -> None:
    messages = ask(unchanged, "GET", "/topic/peek?topic=t&limit=50")["messages"]
    moment = datetime.fromtimestamp(messages[20]["timestamp"] // 10**9, UTC)
    fraction = messages[20]["timestamp"] % 10**9
    when = f"{moment:%Y-%m-%dT%H:%M:%S}.{fraction:09}Z"
    ended = command("replay", "t", at(unchanged), f"--from-time={when}")
    assert ended.out.encode() == b"\n".join(BODIES[20:]) + b"\n"
    ended = command("replay", "t", at(unchanged), "--from-time=1h", f"--to-time={when}")
    assert ended.out.encode() == b"\n".join(BODIES[:20]) + b"\n"
    ended = command("replay", "t", at(unchanged), "--to-time=1h")
    assert (ended.code, ended.out) == (0, "")


def test_publishing_again_to_the_topic_itself_and_elsewhere(
    nsqd: Daemon, command: Commands
) -> None:
    make(nsqd, "copy", "c")
    ended = command("replay", "t", at(nsqd), "--to=copy", "--from-offset=10")
    assert ended.code == 0
    assert "published 40 messages" in ended.err
    assert ended.err.rstrip().endswith("s")
    assert consume(nsqd, "copy", "c", 40) == BODIES[10:]
    with run_nsqd() as other:
        make(other, "u", "c")
        command("replay", "t", at(nsqd), "--to=u", f"--to-nsqd={other.tcp}")
        assert depths(other, "u") == {"c": 50}
    ended = command("replay", "t", at(nsqd), "--to=t")  # which ends
    assert "published 50 messages" in ended.err
    assert ask(nsqd, "GET", "/log/offsets?topic=t")["queues"][0]["end"] == 100


def test_a_rehearsal_publishes_nothing(unchanged: Daemon, command: Commands) -> None:
    ended = command("replay", "t", at(unchanged), "--to=copy", "--dry-run", "--count=7")
    assert "would replay 7 messages" in ended.err
    assert "copy" not in ask(unchanged, "GET", "/stats?format=json")["topics"][0]["topic_name"]


def test_several_nodes(unchanged: Daemon, command: Commands) -> None:
    with run_nsqd() as other:
        make(other, "t")
        publish(other, "t", [b"other"])
        ended = command("replay", "t", at(unchanged), at(other))
        assert ended.out.count("\n") == 51
        assert "51 messages in" in ended.err
        ended = command("replay", "t", at(unchanged), at(other), "--from-offset=0")
        assert ended.code == 1
        assert ended.err.startswith("penstock: offsets are those of one node")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nope"], "{node} has no topic 'nope'"),
        (["t", "--from-offset=51"], "offset 51 of topic 't' on {node} is outside 0..50"),
        (["t", "--queue=3"], "topic 't' on {node} has no queue 3"),
        (["t", "--to=a:b"], "--to a:b: it is not a topic's name; give 1 to 64 letters"),
        (["t", "--to=copy", "--to-nsqd=127.0.0.1:1"], "nothing can be published: 127.0.0.1:1"),
        (["t", "--to=copy", "--to-nsqd=127.0.0.1"], "--to-nsqd: address 127.0.0.1: missing port"),
        (["t", "--to=copy", "--to-nsqd=a..b:1"], "nothing can be published: a..b:1: dial tcp: loo"),
        (["t", "--client-opt=tls_v1"], "--client-opt goes with --to, the topic to publish to"),
    ],
)
def test_errors_are_one_line(
    unchanged: Daemon, command: Commands, arguments: list[str], said: str
) -> None:
    ended = command("replay", *arguments, at(unchanged))
    assert (ended.code, ended.out) == (2 if said.startswith("--") else 1, "")
    assert ended.err.startswith("penstock: " + said.format(node=unchanged.http))
    assert ended.err.count("\n") == 1
    ended = command("replay", "t", "--nsqd-http-address=127.0.0.1:1")
    assert ended.err == "penstock: 127.0.0.1:1 cannot be reached: connection refused\n"


def test_the_bar_moves_on_by_what_was_done() -> None:
    progress = Progress()
    task = progress.add_task("t", total=5)
    advance = Progressing(progress, task)
    with LogClient("127.0.0.1:1") as client:
        one, other = (NodePart(NodeAddress("n:1"), client, 0, end, 0) for end in (3, 2))
    for part, at in ((one, 2), (one, 3), (one, 3), (other, 1), (other, 2), (other, 2)):
        part.at = at
        advance(part)
    assert progress.tasks[task].completed == 5


def test_a_target_that_refuses_says_how_to_go_on(nsqd: Daemon, command: Commands) -> None:
    publish(nsqd, "t", [b"x" * 100])
    with run_nsqd("--max-msg-size=50") as other:
        make(other, "u", "c")
        ended = command("replay", "t", at(nsqd), "--to=u", f"--to-nsqd={other.tcp}", "--rate=400")
        assert ended.code == 1
        first, where, then = ended.err.splitlines()
        assert "did not take offsets 50 to 50" in first or "did not take offsets 40 to 50" in first
        at_ = int(re.findall(r"offset (\d+); go on", where)[0])
        assert depths(other, "u") == {"c": at_}
        words = shlex.split(then)
        assert words[:3] == ["penstock", "replay", "t"]
        assert words[words.index("--from-offset") + 1] == str(at_)


def test_interrupted_and_gone_on_with(nsqd: Daemon, command: Commands) -> None:
    """What both runs published is everything once."""
    make(nsqd, "copy", "c")
    # Slow enough to be interrupted before its end, whenever that is.
    words = ["replay", "t", at(nsqd), "--to=copy", "--rate=2"]
    program = subprocess.Popen(
        [sys.executable, "-m", "penstock.cli.penstock", *words], stderr=subprocess.PIPE, text=True
    )
    wait_until(
        lambda: depths(nsqd, "copy")["c"] >= 5 or program.poll() is not None,
        lambda: str(depths(nsqd, "copy")),
    )
    assert program.poll() is None
    program.send_signal(signal.SIGINT)
    _, said = program.communicate(timeout=60)
    assert program.returncode == 130
    again = shlex.split(said.splitlines()[-1])
    assert again[0] == "penstock"
    again[again.index("--rate") + 1] = "0"
    assert command(*again[1:]).code == 0
    assert consume(nsqd, "copy", "c", 50) == BODIES
    assert depths(nsqd, "copy") == {"c": 0}


def test_the_command_to_go_on_has_every_flag() -> None:
    order = ReplayOptions("t", grep="a b", filters=["x=1"], to="u", to_nsqd="n:1", rate=5,
                          dry_run=True, client_options=["tls_v1", "auth_secret,hush"])  # fmt: skip
    assert order.command("m:1", 7, 9, 2) == (
        "penstock replay t --nsqd-http-address m:1 --from-offset 7 --to-offset 9 --count 2 "
        "--grep 'a b' --filter x=1 --to u --to-nsqd n:1 --rate 5 "
        "--client-opt tls_v1 --client-opt auth_secret,... --dry-run"
    )


def test_a_reader_that_has_had_enough(unchanged: Daemon) -> None:
    words = ["replay", "t", at(unchanged)]
    _, said = unread([sys.executable, "-m", "penstock.cli.penstock", *words])
    assert "Traceback" not in said
    assert "BrokenPipe" not in said


def stored(*bodies: bytes) -> list[Stored]:
    return [Stored(offset, "", 0, body) for offset, body in enumerate(bodies)]


def test_publishing_leaves_out_what_nsq_cannot_have_and_says_where_to_go_on() -> None:
    with run_nsqd("--max-msg-size=10") as nsqd:
        make(nsqd, "t", "c")
        sink = Publishing("t", nsqd.tcp)
        assert sink.put(stored(b"a", b"", b"b")) == 2
        assert sink.put(stored(b"")) == 0
        assert consume(nsqd, "t", "c", 2) == [b"a", b"b"]
        with pytest.raises(SinkError, match="did not take offsets 1 to 2: E_BAD") as refused:
            sink.put(stored(b"", b"a" * 5, b"b" * 11))
        sink.close()
    assert refused.value.offset == 1


def test_nowhere_and_standard_output(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert Nowhere().put(stored(b"a", b"b")) == 2
    sink = Printing("hex")
    assert sink.put(stored(b"a", b"b")) == 2
    sink.close()
    assert capsysbinary.readouterr().out == b"61\n62\n"
