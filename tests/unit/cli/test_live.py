"""What ``demo`` and ``up`` show, publish and prove, without their processes."""

from __future__ import annotations

import io
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.live import flights, local_nodes
from penstock.cli.live.children import Reports, parse, report
from penstock.cli.live.display import (
    Board,
    Gauge,
    PlainDisplay,
    Service,
    TerminalDisplay,
    open_display,
)
from penstock.cli.live.local_nodes import NodePorts, Ports, left_out, nodes_of
from penstock.cli.live.proof import verdict
from penstock.cli.live.replay import _batches, _paced
from penstock.node.node_options import default_node_id
from penstock.testing.clock import FakeClock


def deliver_until(reports: Reports, ended: list[str]) -> None:
    for _ in range(6000):
        reports.deliver()
        if ended:
            return
        time.sleep(0.01)
    raise AssertionError("the end of the stream was not noticed")


def test_a_report_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    report(doing="a\nb", rate=1.5, name="Zürich")
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert parse(said) == {"doing": "a\nb", "rate": 1.5, "name": "Zürich"}


@pytest.mark.parametrize(
    "line", ["", "\n", "WARNING: x\n", '{"published": 1', "[1]\n", "17\n", "null\n", "\ufffd\0\n"]
)
def test_garbage_is_no_report(line: str) -> None:
    assert parse(line) is None


def test_reports_between_garbage_arrive_in_order_and_then_the_end() -> None:
    lines = ["noise\n", '{"a": 1}\n', "[]\n", '{"a": 2}\n', '{"a": 3']
    heard: list[dict[str, Any]] = []
    ended: list[str] = []
    reports = Reports()
    reports.follow(io.StringIO("".join(lines)), heard.append, lambda: ended.append("end"))
    deliver_until(reports, ended)
    assert (heard, ended) == ([{"a": 1}, {"a": 2}], ["end"])


def test_handlers_run_where_deliver_is_called_and_may_raise() -> None:
    reading, writing = os.pipe()
    ended: list[str] = []
    heard: list[int] = []

    def handle(facts: dict[str, Any]) -> None:
        heard.append(facts["n"])
        if facts["n"] == 1:
            raise RuntimeError("handler")

    reports = Reports()
    reports.follow(os.fdopen(reading), handle, lambda: ended.append("end"))
    with os.fdopen(writing, "w") as child:
        child.writelines(json.dumps({"n": n}) + "\n" for n in range(3))
    with pytest.raises(RuntimeError, match="handler"):
        deliver_until(reports, ended)
    deliver_until(reports, ended)
    assert heard == [0, 1, 2]


THREE = Ports(nsqds=tuple(NodePorts.of(number) for number in (1, 2, 3)))


def test_the_first_node_is_what_one_alone_would_be(tmp_path: Path) -> None:
    (alone,) = nodes_of(tmp_path, Ports())
    assert nodes_of(tmp_path, THREE)[0] == alone
    assert (alone.name, alone.tcp, alone.http) == ("nsqd", "127.0.0.1:4150", "127.0.0.1:4151")
    assert f"--node-id={default_node_id()}" in alone.flags
    assert f"--data-path={tmp_path / 'nsqd'}" in alone.flags


def test_nodes_differ_in_everything_that_two_cannot_share(tmp_path: Path) -> None:
    found = nodes_of(tmp_path, THREE)
    assert [node.name for node in found] == ["nsqd", "nsqd-2", "nsqd-3"]
    assert [node.tcp[-4:] for node in found] == ["4150", "4250", "4350"]
    shared = set.intersection(*(set(node.flags) for node in found))
    assert shared == {"--broadcast-address=127.0.0.1"}


def test_an_id_stays_below_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_nodes, "default_node_id", lambda: 1023)
    ids = [node.flags[-1] for node in nodes_of(tmp_path, THREE)]
    assert ids == ["--node-id=1023", "--node-id=0", "--node-id=1"]


def test_folders_of_nodes_that_are_not_wanted_are_found(tmp_path: Path) -> None:
    for name in ("nsqd", "nsqd-2", "nsqd-4", "nsqd-3", "nsqd-x", "spark"):
        (tmp_path / name).mkdir()
    (tmp_path / "nsqd-5").touch()
    assert left_out(tmp_path, 2) == [3, 4]
    assert left_out(tmp_path, 4) == []


def test_the_rate_is_that_of_the_last_seconds() -> None:
    clock = FakeClock()
    gauge, endless = Gauge("rows", 1000, clock), Gauge("rows")
    assert gauge.rate == 0
    for done in range(0, 1001, 100):
        gauge.set(done)
        endless.set(done)
        clock.advance(500_000_000)
    assert 150 < gauge.rate < 250
    assert (gauge.complete, endless.complete) == (True, False)
    clock.advance(10_000_000_000)
    gauge.set(1000)
    gauge.set(1000)
    assert gauge.rate < 20


def board() -> Board:
    made = Board("demo", services=[Service("nsqd", "ready", "tcp 4150")])
    gauge = Gauge("archived", 2000)
    gauge.set(1000)
    made.gauges.append(gauge)
    made.facts["lag"] = "1,000"
    made.doing = "working"
    return made


def test_plain_lines_say_each_thing_once() -> None:
    out = io.StringIO()
    clock = FakeClock()
    display = PlainDisplay(board(), out, clock)
    for _ in range(3):
        display.refresh()
        clock.advance(3_000_000_000)
    display.note("port in use")
    display.close()
    lines = [line.split("] ", 1)[1] for line in out.getvalue().splitlines()]
    counts = "archived 1,000 of 2,000 (0/s), lag 1,000"
    assert lines == ["demo", "nsqd: ready tcp 4150", "working", counts, "port in use"]


def test_a_terminal_gets_a_panel_that_holds_everything_and_a_file_plain_lines() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    display = open_display(board(), out)
    assert isinstance(display, TerminalDisplay)
    display.close()
    for part in ("demo", "nsqd", "tcp 4150", "archived", "1,000 / 2,000", "lag", "working"):
        assert part in out.getvalue()
    assert isinstance(open_display(board(), io.StringIO()), PlainDisplay)


def test_every_flight_in_time_order() -> None:
    chunks = list(flights.events())
    events = [event for chunk in chunks for event in chunk]
    assert len(events) == flights.FLIGHTS
    sample = [json.loads(event) for event in events[::5000]]
    assert [event["seq"] for event in sample] == list(range(0, flights.FLIGHTS, 5000))
    times = [(event["time_hour"], event["minute"]) for event in sample]
    assert times == sorted(times)
    assert flights.airlines()["UA"] == "United Air Lines Inc."


def test_batches_of_the_first_events() -> None:
    chunks = [[b"%d" % (chunk * 700 + i) for i in range(700)] for chunk in range(3)]
    batches = list(_batches(chunks, 1700))
    assert [len(batch) for batch in batches] == [500, 500, 500, 200]
    assert [event for batch in batches for event in batch] == [b"%d" % i for i in range(1700)]


def test_the_pace_is_held() -> None:
    started = time.perf_counter()
    assert len(list(_paced([b"x"] * 10, iter([[b"x"] * 10] * 2), 200))) == 3
    assert 0.09 < time.perf_counter() - started < 10
    assert len(list(_paced([b"x"], iter([[b"x"]] * 99), 0))) == 100


def carrier(events: int, distinct: int, first: int, last: int) -> dict[str, Any]:
    return {"events": events, "distinct": distinct, "first": first, "last": last, "delay": 1.0}


@pytest.mark.parametrize(
    ("carriers", "kept", "said"),
    [
        ([carrier(60, 60, 0, 98), carrier(40, 40, 1, 99)], True,
         "100 rows in Parquet = 100 events published, none lost, none twice"),
        ([carrier(60, 60, 0, 98), carrier(39, 39, 1, 99)], False,
         "99 rows in Parquet ≠ 100 events published, 1 lost, none twice"),
        ([carrier(61, 60, 0, 98), carrier(40, 40, 1, 99)], False,
         "101 rows in Parquet ≠ 100 events published, none lost, 1 twice"),
        ([carrier(61, 60, 0, 98), carrier(39, 39, 1, 99)], False,
         "100 rows in Parquet = 100 events published, 1 lost, 1 twice"),
        ([carrier(100, 100, 1, 100)], False,
         "100 rows in Parquet = 100 events published, none lost, none twice"),
        ([], False, "0 rows in Parquet ≠ 100 events published, 100 lost, none twice"),
    ],
)  # fmt: skip
def test_verdict(carriers: list[dict[str, Any]], kept: bool, said: str) -> None:
    assert verdict(carriers, 100) == (kept, said)
