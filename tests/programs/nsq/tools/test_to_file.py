"""nsq_to_file as a program: its lines, files, signals and exit codes."""

from __future__ import annotations

import gzip
import json
import signal
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.testing.daemons import Daemon, run_nsqd
from tests.forwarding import wait_until
from tests.nsq_to_file import ToFile, publish

NO_LOGGER = "ERROR: couldn't create logger for new topic "
UNWRITABLE = (
    "FATAL: no topic can be written, for the reason above: check --topic and --nsqd-tcp-address"
)


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


def until_it_holds(path: Path, is_there: Callable[[str], bool]) -> None:
    wait_until(
        lambda: path.exists() and is_there(path.read_text()), lambda: f"{path} does not become it"
    )


def test_messages_become_lines_and_are_finished_at_the_end(
    start: Start, daemon: Daemon, topic: str, tmp_path: Path
) -> None:
    publish(daemon, topic, b"one")
    tool = start(f"--topic={topic}", "--filename-format=a.log")
    tool.wait_until_said("syncing 1 records")
    publish(daemon, topic, b"two", b"three")
    until_it_holds(tmp_path / "out" / "a.log", "one\ntwo\nthree\n".__eq__)
    assert unfinished(daemon, topic) == 2, "finished only when synced"
    assert tool.stop() == 0
    until_finished(daemon, topic)
    assert tool.own_lines() == [
        f"INFO: [{topic}/nsq_to_file] opening {tmp_path}/out/a.log",
        f"INFO: [{topic}/nsq_to_file] syncing 1 records to disk",
        f"INFO: [{topic}/nsq_to_file] syncing 2 records to disk",
    ]


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
    until_it_holds(tmp_path / "out" / "a.log", lambda text: {"one", "two"} <= {*text.split("\n")})
    assert again.stop() == 0
    until_finished(daemon, topic)


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
    written = readable(path).count(b"\n")
    assert written > 0
    assert len(bodies) - missing <= written, "finished and not on the disk"


def readable(path: Path) -> bytes:
    """What a file holds that may be torn at its end."""
    data, text = path.read_bytes(), b""
    if path.suffix != ".gz":
        return data
    while data:
        reader = zlib.decompressobj(31)
        text += reader.decompress(data)
        data = reader.unused_data if reader.eof else b""
    return text


def test_time_outs_shorter_than_the_sync_interval_are_told(start: Start, topic: str) -> None:
    tool = start(f"--topic={topic}", "--sync-interval=3s", "--consumer-opt=msg_timeout,2s")
    tool.wait_until_said("connecting to nsqd")
    assert tool.stop() == 0
    assert tool.own_lines() == [
        "WARNING: messages may be written twice:"
        " --sync-interval (3s) is not below their time-out (2s)"
    ]


@pytest.mark.parametrize(
    ("flags", "source", "lines"),
    [
        (["--topic=t"], "--nsqd-tcp-address=127.0.0.1:1",
         [NO_LOGGER + "t: dial tcp 127.0.0.1:1: connect: connection refused", UNWRITABLE]),
        (["--topic=t"], "--nsqd-tcp-address=127.0.0.1",
         [NO_LOGGER + "t: dial tcp: address 127.0.0.1: missing port in address", UNWRITABLE]),
        (["--topic=t"], "--lookupd-http-address=127.0.0.1",
         [NO_LOGGER + "t: missing port", UNWRITABLE.replace("nsqd-tcp", "lookupd-http")]),
        (["--topic=bad!", "--topic=tf", "--topic-pattern=zz|bad"], None,
         [NO_LOGGER + "bad!: invalid topic name",
          "WARNING: skipping topic tf (doesn't match pattern zz|bad)", UNWRITABLE]),
        (["--topic=tf", "--topic-pattern=zz"], None,
         ["WARNING: skipping topic tf (doesn't match pattern zz)",
          "FATAL: there is no topic to write: --topic-pattern fits none of --topic"]),
    ],
    ids=["nobody there", "no port", "no port of nsqlookupd", "bad names", "none fits"],
)  # fmt: skip
def test_nothing_to_write(
    start: Start, flags: list[str], source: str | None, lines: list[str]
) -> None:
    tool = start(*flags, source=source)
    assert tool.wait() == 1
    assert tool.own_lines() == lines
