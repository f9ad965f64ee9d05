"""Children that are watched together: who is lost is named, the daemon first."""

from __future__ import annotations

import io
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.live import children
from penstock.cli.live.children import Children, ServiceError, start
from penstock.cli.live.display import Board, PlainDisplay, Service

CHILD = """
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
    (tmp_path / "child_talker.py").write_text(CHILD)
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
