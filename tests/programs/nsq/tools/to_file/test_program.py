"""nsq_to_file as a program: its lines, files, signals and exit codes."""

from __future__ import annotations

import gzip
import json
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.testing.daemons import Daemon, run_nsqd, run_nsqlookupd
from tests.forwarding import wait_until
from tests.nsq_to_file import POLL_S, WAIT_S_MAX, ToFile, publish

UNWRITABLE = "no topic can be written, for the reason above: check --topic and --nsqd-tcp-address"


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with run_nsqd() as daemon:
        yield daemon


Start = Callable[..., ToFile]


@pytest.fixture
def start(tmp_path: Path, daemon: Daemon, request: pytest.FixtureRequest) -> Iterator[Start]:
    """Starts the tool on the test's own topic, `{topic}`, writing to `tmp_path`/out."""
    started: list[ToFile] = []

    def begin(*flags: str, source: str | None = None, file_size_max: int | None = None) -> ToFile:
        tool = ToFile(
            tmp_path / "log",
            source or f"--nsqd-tcp-address={daemon.tcp}",
            f"--output-dir={tmp_path}/out",
            *flags,
            file_size_max=file_size_max,
        )
        started.append(tool)
        return tool

    yield begin
    for tool in started:
        tool.kill()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return str(request.node.name.partition("[")[0])[:60]


def unfinished(daemon: Daemon, topic: str) -> int:
    """Messages that are not finished, over the topic's channels."""
    url = f"http://{daemon.http}/stats?format=json&topic={topic}"
    with urllib.request.urlopen(url) as answer:
        topics = json.load(answer)["topics"]
    channels = [channel for each in topics for channel in each["channels"]]
    return sum(each["depth"] + each["in_flight_count"] for each in channels)


def until_finished(daemon: Daemon, topic: str) -> None:
    """Wait until nsqd has read the last words of a tool that has ended."""
    wait_until(lambda: unfinished(daemon, topic) == 0, daemon.log)


def test_messages_become_lines_and_are_finished_at_the_end(
    start: Start, daemon: Daemon, topic: str, tmp_path: Path
) -> None:
    publish(daemon, topic, b"one")
    tool = start(f"--topic={topic}", "--filename-format=a.log")
    tool.wait_until_said("syncing 1 records")
    publish(daemon, topic, b"two", b"three")
    wait_for_text(tmp_path / "out" / "a.log", "one\ntwo\nthree\n")
    assert unfinished(daemon, topic) == 2, "finished only when synced"
    assert tool.stop() == 0
    until_finished(daemon, topic)
    assert tool.own_lines() == [
        f"INFO: [{topic}/nsq_to_file] opening {tmp_path}/out/a.log",
        f"INFO: [{topic}/nsq_to_file] syncing 1 records to disk",
        f"INFO: [{topic}/nsq_to_file] syncing 2 records to disk",
    ]


def wait_for_text(path: Path, text: str) -> None:
    for _ in range(int(WAIT_S_MAX / POLL_S)):
        if path.exists() and path.read_text() == text:
            return
        time.sleep(POLL_S)
    raise AssertionError(f"{path} does not become {text!r}")


def test_hup_moves_the_file_and_the_tool_goes_on(
    start: Start, daemon: Daemon, topic: str, tmp_path: Path
) -> None:
    tool = start(
        f"--topic={topic}", f"--work-dir={tmp_path}/wip", "--gzip", "--filename-format=a<REV>"
    )
    for number, body in enumerate((b"a", b"b")):
        publish(daemon, topic, body)
        tool.wait_until_said("syncing 1 records", number + 1)
        tool.signal(signal.SIGHUP)
        tool.wait_until_said("moving finished file", number + 1)
    assert tool.stop() == 0
    done = tmp_path / "out"
    assert gzip.decompress((done / "a-000000.gz").read_bytes()) == b"a\n"
    assert gzip.decompress((done / "a-000001.gz").read_bytes()) == b"b\n"
    assert not list((tmp_path / "wip").iterdir())


def test_discovered_topics(start: Start, tmp_path: Path) -> None:
    with (
        run_nsqlookupd() as directory,
        run_nsqd(f"--lookupd-tcp-address={directory.tcp}") as daemon,
    ):
        for name in ("other", "found.a", "found.b"):
            publish(daemon, name, name.encode())
        tool = start(
            "--topic-pattern=^found",
            "--topic-refresh=50ms",
            "--filename-format=<TOPIC>",
            source=f"--lookupd-http-address={directory.http}",
        )
        tool.wait_until_said("syncing 1 records", 2)
        assert tool.stop() == 0
    texts = {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}
    assert texts == {"found.a": "found.a\n", "found.b": "found.b\n"}
    assert "WARNING: skipping topic other (doesn't match pattern ^found)" in tool.own_lines()


def test_an_nsqd_that_cannot_be_reached(start: Start, topic: str) -> None:
    tool = start(f"--topic={topic}", source="--nsqd-tcp-address=127.0.0.1:1")
    assert tool.wait() == 1
    assert tool.own_lines() == [
        f"ERROR: couldn't create logger for new topic {topic}:"
        " dial tcp 127.0.0.1:1: connect: connection refused",
        f"FATAL: {UNWRITABLE}",
    ]


def test_nothing_to_write(start: Start) -> None:
    tool = start("--topic=bad!", "--topic=tf", "--topic-pattern=zz|bad")
    assert tool.wait() == 1
    assert tool.own_lines() == [
        "ERROR: couldn't create logger for new topic bad!: invalid topic name",
        "WARNING: skipping topic tf (doesn't match pattern zz|bad)",
        f"FATAL: {UNWRITABLE}",
    ]
    tool = start("--topic=tf", "--topic-pattern=zz")
    assert tool.wait() == 1
    assert tool.own_lines("FATAL")[-1] == (
        "FATAL: there is no topic to write: --topic-pattern fits none of --topic"
    )


def test_a_full_disk(start: Start, daemon: Daemon, topic: str, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.log").symlink_to("/dev/full")
    publish(daemon, topic, b"one", b"two")
    tool = start(f"--topic={topic}", "--filename-format=a.log")
    assert tool.wait() == 1
    assert tool.own_lines("FATAL") == [
        f"FATAL: [{topic}/nsq_to_file] writing message to disk:"
        f" write {tmp_path}/out/a.log: no space left on device"
    ]
    assert unfinished(daemon, topic) == 2
    (tmp_path / "out" / "a.log").unlink()
    again = start(f"--topic={topic}", "--filename-format=a.log")
    wait_for_lines(tmp_path / "out" / "a.log", {"one", "two"})
    assert again.stop() == 0
    until_finished(daemon, topic)


def wait_for_lines(path: Path, lines: set[str]) -> None:
    for _ in range(int(WAIT_S_MAX / POLL_S)):
        if path.exists() and lines <= set(path.read_text().splitlines()):
            return
        time.sleep(POLL_S)
    raise AssertionError(f"{path} lacks some of {lines}")


@pytest.mark.parametrize("flags", [[], ["--gzip", "--gzip-level=1"]])
def test_a_disk_that_fills_up_finishes_nothing_that_is_not_on_it(
    start: Start, daemon: Daemon, topic: str, tmp_path: Path, flags: list[str]
) -> None:
    topic = topic[:50] + ("_gzip" if flags else "_plain")
    bodies = [b"%08d" % (number * 7919 % 99_999_989) for number in range(3000)]
    publish(daemon, topic, *bodies)
    tool = start(f"--topic={topic}", "--filename-format=a<REV>", *flags, file_size_max=10_000)
    assert tool.wait() == 1
    (fatal,) = tool.own_lines("FATAL")
    assert fatal.endswith("file too large")
    missing = unfinished(daemon, topic)
    (path,) = (tmp_path / "out").iterdir()
    written = whole_lines(path)
    assert len(written) > 0
    assert len(bodies) - missing <= len(written), "finished and not on the disk"


def whole_lines(path: Path) -> list[bytes]:
    """The lines of a file that may be torn at its end."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        import zlib

        text = b""
        while data:
            reader = zlib.decompressobj(31)
            text += reader.decompress(data)
            if not reader.eof:
                break
            data = reader.unused_data
        data = text
    return data.split(b"\n")[:-1]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("d", "unable to open {out}/d: open {out}/d: is a directory"),
        ("f/a", "unable to create dir: mkdir {out}/f: not a directory"),
    ],
)
def test_what_is_in_the_way(
    start: Start, daemon: Daemon, topic: str, tmp_path: Path, name: str, reason: str
) -> None:
    out = tmp_path / "out"
    (out / "d").mkdir(parents=True)
    (out / "f").write_text("plain file\n")
    topic = f"{topic}_{name[0]}"
    publish(daemon, topic, b"one")
    tool = start(f"--topic={topic}", f"--filename-format={name}")
    assert tool.wait() == 1
    assert tool.own_lines() == [f"FATAL: [{topic}/nsq_to_file] {reason.format(out=out)}"]
    assert unfinished(daemon, topic) == 1


def test_prefix_and_level_are_for_its_own_lines(start: Start, daemon: Daemon, topic: str) -> None:
    publish(daemon, topic, b"one")
    tool = start(f"--topic={topic}", "--log-prefix=[x] ", "--log-level=error", "--sync-interval=9m")
    tool.wait_until_said("connecting to nsqd")
    assert tool.stop() == 0
    assert "[x] " not in tool.said()
    assert "[nsq_to_file]" not in tool.said()


def test_time_outs_shorter_than_the_sync_interval_are_told(start: Start, topic: str) -> None:
    tool = start(f"--topic={topic}", "--sync-interval=3s", "--consumer-opt=msg_timeout,2s")
    tool.wait_until_said("connecting to nsqd")
    assert tool.stop() == 0
    assert tool.own_lines() == [
        "WARNING: messages may be written twice:"
        " --sync-interval (3s) is not below their time-out (2s)"
    ]


@pytest.mark.parametrize("kind", ["nsqd-tcp", "lookupd-http"])
def test_an_address_without_a_port(start: Start, topic: str, kind: str) -> None:
    tool = start(f"--topic={topic[:20]}", source=f"--{kind}-address=127.0.0.1")
    assert tool.wait() == 1
    error, fatal = tool.own_lines()
    assert error.startswith(f"ERROR: couldn't create logger for new topic {topic[:20]}: ")
    assert "missing port" in error
    assert "unexpected" not in error
    assert fatal == f"FATAL: {UNWRITABLE}".replace("nsqd-tcp", kind)


def test_the_version_is_quick_to_print(start: Start) -> None:
    tool = start("--version")
    assert tool.wait() == 0
    assert tool.said() == "nsq_to_file v1.3.0\n"
