"""What the tools share, nsq_stat and nsq_tail: lines and codes as Go's, ends, tables, output."""

from __future__ import annotations

import asyncio
import errno
import io
import logging
import os
import re
import sys
from pathlib import Path

import pytest
from msgspec import structs
from rich.console import Console

from penstock import __version__
from penstock.cluster.cluster import Cluster
from penstock.cluster.producers import Producer
from penstock.cluster.stats import ChannelStats
from penstock.cluster.upstream_errors import NoAnswerError
from penstock.net.tasks import spawn
from penstock.nsq.client import Config
from penstock.nsq.client.errors import NotConnected
from penstock.nsq.client.events import tell
from penstock.nsq.tools import lines
from penstock.nsq.tools.consumers import new_consumer
from penstock.nsq.tools.entry import enter
from penstock.nsq.tools.errors import (
    OutputClosed,
    ToolError,
    describe,
    exit_code,
    say,
    writing_stdout,
)
from penstock.nsq.tools.flags import ConsumerFlags, parse
from penstock.nsq.tools.forwarding import Report, Timings, percentile, summary
from penstock.nsq.tools.lifecycle import Stop, closed_on, until
from penstock.nsq.tools.lines import ClientFormatter
from penstock.nsq.tools.stat import ColourTable, Row, StatFlags, report
from penstock.nsq.tools.tail import ColourView, PlainView, Stdout


@pytest.mark.parametrize("flag", ["-version", "--version"])
def test_the_version_needs_no_module(
    flag: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["nsq_tail", flag])
    with pytest.raises(SystemExit) as left:
        enter("nsq_tail", "no.such.module")
    assert left.value.code == 0
    assert capsys.readouterr().out == f"nsq_tail v1.3.0 of Penstock {__version__}\n"


def test_what_a_tool_refuses_is_its_line_and_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["to_nsq"])
    with pytest.raises(SystemExit) as left:
        enter("to_nsq", "penstock.nsq.tools.to_nsq")
    assert left.value.code == 1
    assert capsys.readouterr().err.endswith(" --topic required\n")


TIME = r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d"


def test_a_line_as_go_logs_it(capsys: pytest.CaptureFixture[str]) -> None:
    say("hello")
    assert re.fullmatch(f"{TIME} hello\n", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (ToolError("--topic required"), 1, "--topic required"),
        (ToolError("late", code=3), 3, "late"),
        (ExceptionGroup("", [ExceptionGroup("", [ToolError("inner")])]), 1, "inner"),
        (KeyError("x"), 1, "unexpected KeyError: 'x'"),
    ],
)
def test_one_line_and_a_code(
    error: Exception, code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(error) == code
    assert re.fullmatch(f"{TIME} {re.escape(text)}\n", capsys.readouterr().err)


def test_an_error_that_was_logged_already_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(ToolError()) == 1
    assert capsys.readouterr().err == ""


def test_reasons() -> None:
    refused = "dial tcp h:1: connect: connection refused"
    assert describe(NotConnected("h:1", refused)) == refused
    assert describe(NotConnected("h:1", "closed")) == "h:1: closed"
    assert describe(OSError(errno.ENOSPC, "No space left on device", "/f")) == (
        "/f: no space left on device"
    )
    assert describe(ValueError("two\nlines")) == "unexpected ValueError: two lines"


def test_writing_to_nobody_and_to_a_full_disk() -> None:
    with pytest.raises(OutputClosed), writing_stdout():
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")
    with pytest.raises(ToolError) as caught, writing_stdout():
        raise OSError(errno.ENOSPC, "No space left on device")
    reason = "write /dev/stdout: no space left on device"
    assert str(caught.value) == f"ERROR: failed to write to os.Stdout - {reason}"


def record(text: str, level: int = logging.INFO, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord(lines.CLIENT, level, "", 0, text, None, None)
    if fields:
        made.nsq = fields
    return made


def shown(formatter: ClientFormatter, made: logging.LogRecord) -> str:
    line = formatter.format(made)
    assert re.match(TIME, line)
    return line[20:]


def test_consumers_and_producers_have_numbers() -> None:
    formatter = ClientFormatter()
    formatter.number("h:1")
    one = record("[t/c] (h:2) connecting to nsqd", topic="t", channel="c", address="h:2")
    assert shown(formatter, one) == "INF    2 [t/c] (h:2) connecting to nsqd"
    again = record("[t/c] late", logging.WARNING, topic="t", channel="c")
    assert shown(formatter, again) == "WRN    2 [t/c] late"
    producer = record("(h:1) stopping", address="h:1")
    assert shown(formatter, producer) == "INF    1 (h:1) stopping"


def test_others_records_have_no_number_and_no_traceback() -> None:
    made = record("task failed", logging.ERROR)
    made.exc_info = (ValueError, ValueError("no\nway"), None)
    assert shown(ClientFormatter(), made) == "task failed: ValueError: no way"


def test_what_the_client_tells_goes_to_what_stderr_is_by_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines.install()
    lines.count_producer("h:8")
    lines.count_consumer("t", "c8")
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    tell(logging.INFO, "connecting", "connecting to nsqd", address="h:9", topic="t", channel="c8")
    tell(logging.DEBUG, "connected", "connected", address="h:9")
    assert re.fullmatch(
        TIME + r" INF +\d+ \[t/c8\] \(h:9\) connecting to nsqd\n", stderr.getvalue()
    )


def test_what_a_stranger_sent_stays_in_its_line() -> None:
    made = record("said x\r2009/01/23 01:23:23 INF\x1b[2J\u2028y", logging.ERROR)
    said = r"said x\r2009/01/23 01:23:23 INF\x1b[2J\u2028y"
    assert shown(ClientFormatter(), made) == said


# --- consumers, and how a tool comes to its end


def test_a_consumer_is_the_next_one_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    formatter = ClientFormatter()
    monkeypatch.setattr(lines, "_formatter", formatter)
    flags = ConsumerFlags(nsqd_tcp_addresses=("127.0.0.1:4150",))
    for topic in ("b", "a"):
        assert new_consumer(flags, topic, "c", Config()).topic == topic
    assert (formatter.number("b/c"), formatter.number("a/c")) == (1, 2)


@pytest.mark.parametrize("kind", ["nsqd_tcp_addresses", "lookupd_http_addresses"])
def test_what_is_no_address(kind: str) -> None:
    with pytest.raises(ToolError, match="missing port"):
        new_consumer(ConsumerFlags(**{kind: ("h",)}), "t", "c", Config())


async def test_until_ends_the_body_wherever_it_waits() -> None:
    stop = Stop()
    asyncio.get_running_loop().call_later(0.01, stop.request)
    async with until(stop):
        await asyncio.Event().wait()
    assert stop.requested


async def test_until_lets_a_body_end_by_itself_and_fail_by_itself() -> None:
    async with until(Stop()):
        pass
    with pytest.raises(TimeoutError):
        async with until(Stop()):
            raise TimeoutError


class Closable:
    def __init__(self, slow: bool = False) -> None:
        self.closed = asyncio.Event()
        self._slow = slow

    async def close(self, grace: float = 0.0) -> None:
        if self._slow:
            await asyncio.sleep(0.02)
        self.closed.set()


async def test_consumers_are_closed_when_asked_to_end_and_only_then() -> None:
    stop, consumers = Stop(), [Closable(), Closable(slow=True)]
    async with closed_on(stop, *consumers):
        pass
    assert not consumers[0].closed.is_set()
    async with closed_on(stop, *consumers):
        stop.request()
        await consumers[0].closed.wait()
    assert consumers[1].closed.is_set(), "it had its time, although the body had ended"


async def test_a_body_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.nsq.tools.lifecycle._LINGER_S", 0.01)
    stop = Stop()
    async with closed_on(stop, Closable()):
        stop.request()
        await asyncio.Event().wait()


# --- what the forwarding tools share


MS = 1_000_000


def test_addresses_have_lines_where_there_are_several(capsys: pytest.CaptureFixture[str]) -> None:
    for addresses in (["a"], ["a", "b"]):
        report = Report(addresses, 100)
        for timings in (report.of["a"], report.all):
            timings.add(1_000_000, 101)
    told = [line.split(" ", 2)[2] for line in capsys.readouterr().err.splitlines()]
    times = "finished 100 - 99th: 1.00ms - 95th: 1.00ms - avg: 1.00ms"
    assert told == [f"[aggregate]: {times}", f"[a]: {times}", f"[aggregate]: {times}"]


def told(every: int, *added: tuple[int, int]) -> list[str]:
    lines: list[str] = []
    timings = Timings("[aggregate]:", every, lines.append)
    for duration, count in added:
        timings.add(duration, count)
    return lines


def test_a_line_for_every_so_many_the_first_one_late() -> None:
    assert told(100, *[(MS, 1)] * 100) == []
    line = "[aggregate]: finished 100 - 99th: 1.00ms - 95th: 1.00ms - avg: 1.00ms"
    assert told(100, *[(MS, 1)] * 101) == [line]
    assert told(100, *[(MS, 1)] * 200) == [line]
    assert told(100, *[(MS, 1)] * 201) == [line, line]


def test_messages_together_count_as_one_by_one() -> None:
    one_by_one = [(duration * MS, 1) for duration in (1, 2, 3) for _ in range(117)]
    together = [(duration * MS, 117) for duration in (1, 2, 3)]
    assert told(100, *one_by_one) == told(100, *together)
    assert len(told(100, (MS, 1001))) == 10


def test_few_values_bring_a_warning_and_none_turn_it_off() -> None:
    warning = (
        "Warning: use more than 100 status values for accurate percentiles (configured with 2)"
    )
    line = "[aggregate]: finished 2 - 99th: 1.00ms - 95th: 1.00ms - avg: 1.00ms"
    assert told(2, (MS, 3)) == [warning, line]
    assert told(100) == told(0, (MS, 1000)) == told(-1, (MS, 1000)) == []


def test_percentiles_are_upstreams() -> None:
    assert percentile(50, [1, 2, 3, 4]) == 4
    assert percentile(95, list(range(1000))) == 951
    assert percentile(99, [7]) == 7


def test_the_line() -> None:
    durations = [round(n * MS / 8) for n in range(1, 101)]
    expected = "[a]: finished 100 - 99th: 12.50ms - 95th: 12.12ms - avg: 6.31ms"
    assert summary("[a]:", durations) == expected


# --- nsq_stat


async def test_a_cluster_that_has_or_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes: list[Producer] = []

    async def producers(*_: object) -> list[Producer]:
        return nodes

    async def stats(*_: object, **__: object) -> list[str]:
        raise NoAnswerError("why")

    monkeypatch.setattr(Cluster, "topic_producers", producers)
    monkeypatch.setattr(Cluster, "stats", stats)
    flags = parse(StatFlags, ["--topic=t", "--channel=c", "--nsqd-http-address=h:1"], "nsq_stat")
    with pytest.raises(ToolError, match=r"failed to query any nsqd: no node has the topic t$"):
        await report(flags, Stop())
    nodes.append(Producer())
    with pytest.raises(ToolError, match=r"^ERROR: failed to get nsqd stats - why$"):
        await report(flags, Stop())


def test_the_count_is_a_number_of_32_bits(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(StatFlags, ["--count=3000000000"], "nsq_stat")
    assert "value out of range" in capsys.readouterr().err.splitlines()[0]


BEFORE = ChannelStats(depth=3, message_count=13)
NOW = ChannelStats(depth=6, memory_depth=5, backend_depth=1, in_flight_count=2, message_count=20,
                   client_count=1)  # fmt: skip


def test_rates_are_truncated() -> None:
    row = Row.of(BEFORE, NOW, 2.0)
    assert (row.ingress, row.egress) == (3, 2)
    assert (row.total, row.mem, row.disk, row.inflt, row.messages) == (6, 5, 1, 2, 20)
    assert Row.of(NOW, BEFORE, 2.0).ingress == -3


def lines_of(table: ColourTable, console: Console) -> list[str]:
    with console.capture() as captured:
        table.header()
        table.row(Row.of(BEFORE, NOW, 2.0))
    return captured.get().splitlines()


def test_a_person_gets_aligned_columns() -> None:
    for width in (120, 70):
        console = Console(width=width, color_system=None)
        rule, names, row = lines_of(ColourTable(console), console)
        assert [at for at, char in enumerate(names) if char == "│"] == [
            at for at, char in enumerate(row) if char == "│"
        ]
        assert len(rule) == len(names) == len(row) <= max(width, 80)


def test_big_numbers_widen_their_column() -> None:
    console = Console(width=120, color_system=None)
    table = ColourTable(console)
    with console.capture() as captured:
        table.row(Row.of(BEFORE, structs.replace(NOW, depth=10**12), 2.0))
    assert len({len(line) for line in captured.get().splitlines()}) == 1


def test_colours() -> None:
    console = Console(width=120, force_terminal=True, color_system="standard")
    assert "\x1b[32m      3\x1b[0m" in lines_of(ColourTable(console), console)[2]


# --- nsq_tail


async def test_a_file_gets_all_of_it(tmp_path: Path) -> None:
    with (tmp_path / "f").open("wb") as file:
        output = Stdout(file.fileno())
        await output.write(b"one\n")
        await output.write(b"two\n")
        await output.closed()  # there is no reader who could go
    assert (tmp_path / "f").read_bytes() == b"one\ntwo\n"


async def test_a_slow_reader_does_not_hold_up_the_loop() -> None:
    reader, writer = os.pipe()
    data = bytes(1_000_000)  # more than a pipe holds
    try:
        writing = spawn(Stdout(writer).write(data), "write")
        await asyncio.sleep(0.01)
        assert not writing.done()
        got = 0
        while got < len(data):
            got += len(await asyncio.to_thread(os.read, reader, 1 << 16))
        await writing
    finally:
        os.close(reader)
        os.close(writer)


async def test_a_pipe_that_does_not_wait_gets_all_of_it() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    data = bytes(1_000_000)  # more than a pipe holds

    async def write() -> None:
        try:
            await Stdout(writer).write(data)
        finally:
            os.close(writer)  # after which the reader gets what is left, and the end

    writing = spawn(write(), "write")
    try:
        got = 0
        while part := await asyncio.to_thread(os.read, reader, 1 << 16):
            got += len(part)
        await writing
        assert got == len(data)
    finally:
        os.close(reader)


async def test_a_reader_who_goes_is_noticed() -> None:
    reader, writer = os.pipe()
    try:
        output = Stdout(writer)
        waiting = asyncio.gather(output.closed(), return_exceptions=True)
        os.close(reader)
        assert isinstance((await waiting)[0], OutputClosed)
        with pytest.raises(OutputClosed):
            await output.write(b"x")
    finally:
        os.close(writer)


def coloured(topic: str, *bodies: bytes, print_topic: bool = False, colours: bool = False) -> str:
    console = Console(
        width=40, force_terminal=colours, color_system="standard" if colours else None
    )
    view = ColourView(console, ["long_topic", "t"], print_topic)
    return view.render(topic, bodies).decode()


def test_a_program_gets_the_bytes() -> None:
    bodies = [b"one", b"\xff\x00", b"with\nnewline"]
    assert PlainView(False).render("t", bodies) == b"one\n\xff\x00\nwith\nnewline\n"
    assert PlainView(True).render("t", bodies[:2]) == b"t | one\nt | \xff\x00\n"


def test_topics_stand_in_a_column_and_lines_under_each_other() -> None:
    assert coloured("t", b"a\nb", print_topic=True) == "t          │ a\n           │ b\n"
    assert coloured("long_topic", b"c", print_topic=True) == "long_topic │ c\n"


def test_a_person_is_safe_from_control_characters() -> None:
    assert coloured("t", b"\x1b[2Jx\x07\r", b"\xff", "\u202ey".encode()) == (
        "\\x1b[2Jx\\x07\\x0d\n\\xff\n\\u202ey\n"
    )
    assert coloured("t", b"a\r\nb") == "a\nb\n"


def test_long_bodies_are_not_cut_or_folded() -> None:
    assert coloured("t", b"x" * 100) == "x" * 100 + "\n"


def test_json_has_colours_and_markup_has_none() -> None:
    assert "\x1b[" in coloured("t", b'{"a": 1}', colours=True)
    assert coloured("t", b"[bold]x[/bold]") == "[bold]x[/bold]\n"
