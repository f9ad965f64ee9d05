"""What runs for ``demo`` and ``up``: watched children, daemons, folders and a small client."""

from __future__ import annotations

import io
import json
import re
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from penstock.cli.live import children, local_nodes
from penstock.cli.live.children import (
    Child,
    Children,
    Reports,
    ServiceError,
    start,
    stop_all,
    wait_for_ping,
)
from penstock.cli.live.daemons import Daemons
from penstock.cli.live.display import Board, PlainDisplay, Service
from penstock.cli.live.flights import TOPIC
from penstock.cli.live.folder import FolderError, make_folder
from penstock.cli.live.local_nodes import HOST, NodePorts, Ports, PortsInUseError
from penstock.cli.live.small_client import Wire, WireError
from penstock.cli.live.tally import CHANNEL
from penstock.core.ids import counter
from penstock.log_api.log_client import LogClient
from penstock.nsq.client import Config
from penstock.nsq.client.blocking import Consumer, Producer
from penstock.nsq.client.lookup import Node, lookup
from penstock.nsq.protocol.frames import HEARTBEAT_FRAME, OK_FRAME, MessageBlock, Response, error
from penstock.testing.daemons import Daemon, run_nsqd
from tests.forwarding import wait_until
from tests.metrics_pages import ask
from tests.unit.cli.nodes_at_work import Commands
from tools.harness.ports import unused_address
from tools.harness.processes import left_over, marked, marked_environment
from tools.harness.streams import exactly
from tools.harness.terminals import screen

CHILD = """
import sys
from penstock.cli.live.children import report
report(state="ready")
print("to the log", file=sys.stderr, flush=True)
for line in sys.stdin:
    report(heard=line.strip())
    if line.startswith("die"):
        sys.exit(3)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "talking_child.py").write_text(CHILD)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "talking_child"


def test_reports_come_in_order_and_death_is_noticed(module: str, tmp_path: Path) -> None:
    child = start("talker", module, [], tmp_path / "log", talks=True)
    heard: list[dict[str, Any]] = []
    reports = Reports()
    assert child.process.stdout is not None
    reports.follow(child.process.stdout, heard.append)
    child.tell("one")
    child.require_alive()
    child.tell("die")
    child.process.wait(60)

    def all_came() -> bool:
        reports.deliver()
        return len(heard) >= 3

    wait_until(all_came, lambda: str(heard))
    assert heard == [{"state": "ready"}, {"heard": "one"}, {"heard": "die"}]
    with pytest.raises(ServiceError, match=r"(?s)talker ended with code 3.*to the log"):
        child.require_alive()
    child.tell("nobody listens")
    alive = start("talker", module, [], tmp_path / "log", talks=True)
    assert alive.process.stdout is not None
    with alive.process.stdout:
        assert stop_all([child, alive]) == []
    assert alive.ended


def test_a_daemon_that_ends_instead_of_answering(tmp_path: Path) -> None:
    child = start("broken", "no_such_module", [], tmp_path / "log")
    with pytest.raises(ServiceError, match=r"(?s)broken ended with code 1.*No module named"):
        wait_for_ping(child, "127.0.0.1:9")


WATCHED = """
import signal, sys
from penstock.cli.live.children import report
if "deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
report(state="ready")
print("not a report", flush=True)
for line in sys.stdin:
    word = line.strip()
    if word == "finish":
        report(finished=True)
        break
    if word == "fail":
        report(error="no more")
        sys.exit(1)
    if word == "die":
        sys.exit(3)
    if word == "leave":
        break
"""
DAEMON = "import time\ntime.sleep(600)\n"


class Stage:
    """Children: one talker named Spark and one daemon named nsqd."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = io.StringIO()
        self.board = Board("test", services=[Service("nsqd", "ready"), Service("Spark", "ready")])
        self.children = Children(self.board, PlainDisplay(self.board, self.out))
        self.heard: list[dict[str, Any]] = []

    def talker(self, *arguments: str, name: str = "Spark") -> children.Child:
        log = self.folder / f"{name}.log"
        child = self.children.start_talker(
            name, "child_talker", list(arguments), log, self.heard.append
        )
        self.until(lambda: name in self.children.ready)
        return child

    def daemon(self) -> children.Child:
        child = start("nsqd", "child_daemon", [], self.folder / "nsqd.log")
        self.children.all.append(child)
        return child

    def until(self, reached: Callable[[], bool]) -> None:
        for _ in range(6000):
            self.children.check()
            if reached():
                return
            time.sleep(0.01)
        raise AssertionError("it did not come to that")

    def states(self) -> dict[str, str]:
        return {service.name: service.state for service in self.board.services}


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    (tmp_path / "child_talker.py").write_text(WATCHED)
    (tmp_path / "child_daemon.py").write_text(DAEMON)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    stage = Stage(tmp_path)
    yield stage
    for child in stage.children.all:
        child.kill()
        child.stop()


def never() -> bool:
    return False


def test_one_that_finished_may_end(stage: Stage) -> None:
    child = stage.talker()
    child.tell("finish")
    stage.until(lambda: "Spark" in stage.children.finished)
    child.process.wait(60)
    stage.children.check()
    assert stage.heard == [{"state": "ready"}, {"finished": True}]


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("die", r"^Spark ended with code 3"),
        ("leave", r"^Spark ended with code 0"),
        ("fail", r"^Spark: no more$"),
    ],
)
def test_a_talker_that_is_lost(stage: Stage, word: str, said: str) -> None:
    stage.daemon()
    stage.talker().tell(word)
    with pytest.raises(ServiceError, match=said):
        stage.until(never)
    stage.children.stop()
    assert stage.states() == {"nsqd": "stopped", "Spark": "failed"}
    assert all(child.ended for child in stage.children.all)


def test_the_daemon_is_named_before_those_it_took_along(stage: Stage) -> None:
    talker = stage.talker()
    daemon = stage.daemon()
    talker.tell("fail")
    daemon.process.terminate()
    for child in (talker, daemon):
        child.process.wait(60)
    with pytest.raises(ServiceError, match=rf"^nsqd ended with code -{signal.SIGTERM:d}"):
        stage.until(never)
    stage.children.stop()
    assert stage.states() == {"nsqd": "failed", "Spark": "stopped"}


def test_one_that_does_not_stop_is_killed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "_STOP_TIMEOUT_S", 0.2)
    child = stage.talker("deaf")
    stage.children.stop()
    assert child.process.returncode == -signal.SIGKILL
    assert "Spark did not stop by itself and was killed" in stage.out.getvalue()


def test_an_interrupt_while_stopping_kills_the_rest(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaf, daemon = stage.talker("deaf"), stage.daemon()

    def interrupted(_: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(children.Child, "stop", interrupted)
    with pytest.raises(KeyboardInterrupt):
        stage.children.stop()
    monkeypatch.undo()
    assert deaf.process.returncode == daemon.process.returncode == -signal.SIGKILL


PARENT_WATCH = "penstock.cli.live.parent_watch"
PARENT = """
import subprocess, sys, time, os
from pathlib import Path
from penstock.cli.live.children import start
child = start("sleeper", "sleeping_child", [], Path(sys.argv[1]), talks=True)
print(child.process.stdout.readline(), flush=True)
time.sleep(600)
"""
ORPHAN = "import sys, time\nprint('up', sys.argv[1:], __name__, flush=True)\ntime.sleep(600)\n"


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's help is Linux only")
def test_a_killed_parent_takes_its_children_along(tmp_path: Path) -> None:
    (tmp_path / "sleeping_child.py").write_text(ORPHAN)
    environment = {**marked_environment(), "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", PARENT, str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "up [] __main__\n"
        processes = marked(environment)
        assert len(processes) == 2
        assert any(each.endswith(" -m sleeping_child ") for each in processes.values()), processes
        parent.kill()
    assert left_over(environment, 60) == {}


def test_nothing_starts_for_a_parent_that_is_gone() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", PARENT_WATCH, "1", "penstock.cli.nsqd", "--version"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 1
    assert ended.stderr == "the parent was gone before the start\n"
    assert ended.stdout == ""


@pytest.fixture
def started() -> Iterator[list[Child]]:
    found: list[Child] = []
    yield found
    stop_all(found)


def nodes_of(admin: str) -> list[object]:
    """The nodes that nsqadmin, at this URL, has heard of."""
    with urllib.request.urlopen(f"{admin}api/nodes", timeout=30) as answer:
        return list(json.load(answer)["nodes"] or ())


def found_by(daemons: Daemons) -> list[Node]:
    """The nodes with topic t that nsqlookupd knows."""
    return lookup([daemons.lookupd_http], "t", 60.0)


def test_a_topic_is_found_and_held(tmp_path: Path, started: list[Child]) -> None:
    board = Board("test")
    daemons = Daemons(tmp_path, Ports.free(), board)
    assert [service.state for service in board.services] == ["waiting"] * 3
    daemons.start(started)
    assert [(service.name, service.state) for service in board.services] == [
        ("nsqlookupd", "ready"), ("nsqd", "ready"), ("nsqadmin", "ready"),
    ]  # fmt: skip
    admin = board.service("nsqadmin").detail
    wait_until(lambda: bool(nodes_of(admin)), lambda: "nsqd has not told nsqlookupd of itself")
    assert len(nodes_of(admin)) == 1
    for address in (daemons.lookupd_http, daemons.nsqd_http, urlsplit(admin).netloc):
        assert ask(address, "/metrics")[0] == 200
    daemons.create_topic("t")
    (node,) = found_by(daemons)
    assert f"{node.broadcast_address}:{node.tcp_port}" == daemons.nsqd_tcp
    daemons.hold_for_archive("t")
    with LogClient(daemons.nsqd_http) as log:
        assert list(log.offsets("t").groups.values()) == [{0: 0}]
    assert stop_all(started) == []
    assert [child.process.returncode for child in started] == [0, 0, 0]
    assert (tmp_path / "nsqd").is_dir()

    with pytest.raises(ServiceError, match="nsqd did not create topic u"):
        daemons.create_topic("u")


def test_several_nodes_share_a_directory_and_an_admin(tmp_path: Path, started: list[Child]) -> None:
    board = Board("test")
    daemons = Daemons(tmp_path, Ports.free(2), board)
    daemons.start(started)
    assert [(service.name, service.state) for service in board.services] == [
        ("nsqlookupd", "ready"), ("nsqd", "ready"), ("nsqd-2", "ready"), ("nsqadmin", "ready"),
    ]  # fmt: skip
    for node in daemons.nodes:
        with Producer(node.tcp) as producer:
            producer.publish("t", node.name.encode())
    wait_until(lambda: len(found_by(daemons)) == 2, lambda: str(found_by(daemons)))
    found = found_by(daemons)
    tcp = {f"{node.broadcast_address}:{node.tcp_port}" for node in found}
    assert tcp == {node.tcp for node in daemons.nodes}
    with Consumer(
        "t", "c", lookupd_http_addresses=[daemons.lookupd_http], config=Config(max_in_flight=2)
    ) as consumer:
        ids = {message.body: int(message.id, 16) for message in islice(consumer, 2)}
    assert ids.keys() == {b"nsqd", b"nsqd-2"}
    numbers = {identifier - counter(identifier) for identifier in ids.values()}
    assert len(numbers) == 2, "messages of different nodes could have one id"
    assert stop_all(started) == []
    for name in ("nsqd", "nsqd-2"):
        assert (tmp_path / name / "nsqd.dat").exists()
        assert (tmp_path / f"{name}.log").stat().st_size


def test_a_daemon_that_cannot_start_is_named(tmp_path: Path, started: list[Child]) -> None:
    ports = Ports.free()
    daemons = Daemons(tmp_path, ports, Board("test"))
    with (
        socket.create_server((HOST, ports.nsqds[0].tcp)),
        pytest.raises(ServiceError, match=r"(?s)nsqd ended with code 1.*address already in use"),
    ):
        daemons.start(started)
    assert [child.name for child in started] == ["nsqlookupd", "nsqd", "nsqadmin"]
    assert stop_all(started) == []


def test_free_ports_are_different_and_others_follow_from_a_nodes_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for count in (1, 3):
        free = Ports.free(count)
        assert free.taken() == []
        assert len(free.nsqds) == count
        assert len(set(free.all())) == 3 + 2 * count
    monkeypatch.setattr(local_nodes, "_is_free", lambda port: True)
    assert Ports.require(1) == Ports()
    assert Ports.require(3).nsqds == (
        NodePorts(4150, 4151), NodePorts(4250, 4251), NodePorts(4350, 4351),
    )  # fmt: skip
    assert len(set(Ports.require(9).all())) == 3 + 2 * 9


def test_a_taken_port_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert port in Ports(nsqds=(NodePorts(4150, port),)).taken()
    monkeypatch.setattr(local_nodes, "_is_free", lambda port: port != 4151)
    with pytest.raises(PortsInUseError, match="port 4151 already in use"):
        Ports.require()
    monkeypatch.setattr(local_nodes, "_is_free", lambda port: port not in (4171, 4251))
    with pytest.raises(PortsInUseError, match="port 4171, 4251 already in use"):
        Ports.require(2)


def test_a_folder_is_made_with_those_above_it_and_a_file_in_its_place_is_named(
    tmp_path: Path,
) -> None:
    for _ in range(2):
        make_folder(tmp_path / "a" / "b", "")
    assert list((tmp_path / "a" / "b").iterdir()) == []
    file = tmp_path / "file"
    file.touch()
    for folder in (file, file / "inside"):
        said = f"nothing can be written to {folder}: not a directory; take another"
        with pytest.raises(FolderError, match=f"^{re.escape(said)}$"):
            make_folder(folder, "take another")


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is a folder that not even root fills")
def test_a_folder_that_is_there_and_takes_nothing_is_refused() -> None:
    with pytest.raises(FolderError, match=r"^nothing can be written to /proc/self: .*; remedy$"):
        make_folder(Path("/proc/self"), "remedy")


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (("up", "--free-ports", "--data-path=run"), "take another with --data-path"),
        (("demo",), "start the demo in another folder"),
    ],
    ids=["up", "demo"],
)
def test_commands_say_so_in_one_line(
    words: tuple[str, ...], remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    command: Commands,
) -> None:  # fmt: skip
    (tmp_path / "run").touch()
    monkeypatch.chdir(tmp_path)
    ended = command(*words)
    said = f"penstock: nothing can be written to run: not a directory; {remedy}\n"
    assert (ended.code, ended.err) == (1, said)


SECONDS = 60
Script = Callable[[socket.socket], None]


@contextmanager
def scripted(script: Script) -> Iterator[str]:
    """A server that plays this to one client."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.settimeout(SECONDS)
                script(peer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join(SECONDS)


def message(body: bytes) -> bytes:
    return struct.pack(">IIqH", 30 + len(body), 2, 1, 1) + b"%016x" % 7 + body


def test_heartbeats_are_answered_and_the_rest_comes_in_order() -> None:
    heard: list[bytes] = []

    def script(peer: socket.socket) -> None:
        heard.append(exactly(peer, 4))
        data = OK_FRAME + HEARTBEAT_FRAME + message(b"one") + message(b"two")
        peer.sendall(data[:13])
        peer.sendall(data[13:])
        heard.append(exactly(peer, 4))

    with scripted(script) as address:
        wire = Wire(address)
        frames = wire.frames()
        first = next(frames)
        assert isinstance(first, Response)
        bodies: list[bytes] = []
        while len(bodies) < 2:
            block = next(frames)
            assert isinstance(block, MessageBlock)
            bodies += [bytes(each.body) for each in block]
        assert bodies == [b"one", b"two"]
        with pytest.raises(WireError, match="nsqd closed the connection"):
            next(frames)
        wire.close()
    assert heard == [b"  V2", b"NOP\n"]


def test_an_error_frame_and_nobody_are_errors() -> None:
    def script(peer: socket.socket) -> None:
        exactly(peer, 4)
        peer.sendall(error("E_BAD_TOPIC no"))

    with scripted(script) as address:
        wire = Wire(address)
        with pytest.raises(WireError, match="nsqd says E_BAD_TOPIC no"):
            next(wire.frames())
        wire.close()
    address = unused_address()
    with pytest.raises(WireError, match=f"nsqd at {address} cannot be reached"):
        Wire(address)


@pytest.fixture
def nsqd() -> Iterator[Daemon]:
    with run_nsqd() as daemon:
        yield daemon


@pytest.fixture
def tally(nsqd: Daemon) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "penstock.cli.live.tally", nsqd.tcp, "1200"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def next_report(tally: subprocess.Popen[str]) -> dict[str, Any]:
    assert tally.stdout is not None
    return dict(json.loads(tally.stdout.readline()))


def test_it_counts_finishes_and_stops(nsqd: Daemon, tally: subprocess.Popen[str]) -> None:
    assert next_report(tally) == {"state": "ready"}
    with Producer(nsqd.tcp) as producer:
        for _ in range(3):
            producer.multi_publish(TOPIC, [b"event"] * 400)
    counts: list[int] = []
    report: dict[str, Any] = {}
    while "finished" not in report:
        report = next_report(tally)
        counts.append(report["consumed"])
        assert report["again"] == 0
    assert counts == sorted(counts)
    assert counts[-1] == 1200
    assert tally.wait(60) == 0
    with urllib.request.urlopen(f"http://{nsqd.http}/stats?format=json", timeout=30) as answer:
        (topic,) = json.load(answer)["topics"]
    (channel,) = topic["channels"]
    assert (channel["channel_name"], channel["depth"]) == (CHANNEL, 0)
    assert channel["message_count"] == 1200


def test_an_nsqd_that_goes_away_is_reported(nsqd: Daemon, tally: subprocess.Popen[str]) -> None:
    assert next_report(tally) == {"state": "ready"}
    nsqd.kill()
    assert next_report(tally)["error"].startswith("nsqd closed the connection")
    assert tally.wait(60) == 1


def test_ctrl_c_leaves_one_panel_and_the_terminal_as_it_was(tmp_path: Path) -> None:
    command = ("up", "--no-spark", "--free-ports", f"--data-path={tmp_path / 'up'}")
    with screen(*command, columns=80, lines=40) as shown:
        shown.until(lambda text: text.count(" ready ") == 3)
        during = shown.modes()[3]
        assert isinstance(during, int)
        assert not during & termios.ECHO
        shown.type("\x03")  # no signal, as the terminal controls no process here
        shown.process.send_signal(signal.SIGINT)
        assert shown.ended() == 0
        text = shown.text()
        assert (text.count("╭"), text.count("╰")) == (1, 1), text
        assert "^C" not in text
        assert shown.modes() == shown.before
