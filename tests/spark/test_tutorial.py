"""The commands of docs/tutorial-spark.md, run as they stand there over daemons on other ports.

Two of those that start Spark are programs, ``test`` and ``run``; the others take that of the tests.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from penstock.testing.daemons import Daemon, Nsqadmin, run_nsqadmin, run_nsqd
from tools.pages.documentation import replaced

ROOT = Path(__file__).parents[2]
TUTORIAL = (ROOT / "docs" / "tutorial-spark.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WAIT_S = 400

Found = TypeVar("Found")


def blocks(language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(TUTORIAL) if kind == language]


class Reader:
    """Somebody who follows the tutorial in a folder, over daemons on other ports."""

    def __init__(self, folder: Path, nsqd: Daemon, admin: Nsqadmin) -> None:
        self.folder, self._nsqd, self._admin = folder, nsqd, admin
        self._running: list[subprocess.Popen[bytes]] = []
        self._log = folder / "out.log"
        bin_ = str(Path(sys.executable).parent)
        self._environment = os.environ | {"PATH": f"{bin_}:{os.environ['PATH']}"}

    def here(self, text: str) -> str:
        """The text with the addresses of these daemons, also where the usual one is not named."""
        own = {
            "127.0.0.1:4150": self._nsqd.tcp, "127.0.0.1:4151": self._nsqd.http,
            "pipeline sql ": f"pipeline sql --nsqd-http-address={self._nsqd.http} ",
        }  # fmt: skip
        return replaced(text, own)

    def pipelines(self) -> dict[str, Any]:
        """What nsqadmin shows of pipelines, by name."""
        with urllib.request.urlopen(f"http://{self._admin.http}/api/pipelines") as answer:
            found = json.load(answer)["pipelines"]
        return {each["name"]: each for each in found}

    def topics(self) -> list[str]:
        """The names that nsqadmin shows."""
        with urllib.request.urlopen(f"http://{self._admin.http}/api/topics") as answer:
            return json.load(answer)["topics"] or []

    def publish(self, topic: str, body: Any) -> None:
        url = f"http://{self._nsqd.http}/pub?topic={topic}"
        urllib.request.urlopen(url, data=json.dumps(body).encode(), timeout=30).close()

    def run(self, command: str) -> str:
        """What the command prints; it must go well."""
        done = subprocess.run(
            ["bash", "-ec", self.here(command)], cwd=self.folder, env=self._environment,
            capture_output=True, text=True, timeout=WAIT_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def running(self, command: str) -> Iterator[None]:
        """The command in a terminal that is left alone; Ctrl-C ends it."""
        with self._log.open("ab") as output:
            process = subprocess.Popen(
                ["bash", "-c", self.here(command)], cwd=self.folder, env=self._environment,
                stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        self._running.append(process)
        try:
            yield
            self._check()
        finally:
            self._running.remove(process)
            os.killpg(process.pid, signal.SIGINT)
            process.wait(WAIT_S)

    def until(self, look: Callable[[], Found]) -> Found:
        """What the reader waits for, while all that runs goes on."""
        deadline = time.monotonic() + WAIT_S
        while not (found := look()):
            self._check()
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.2)
        return found

    def _check(self) -> None:
        """All that runs is to go on."""
        assert all(each.poll() is None for each in self._running), self._log.read_text()


class Commands(NamedTuple):
    """The blocks of the shell, in the order of the tutorial."""

    install: str
    up: str
    publish: str
    init: str
    validate: str
    test: str
    run: str
    status: str
    read: str
    read_bad: str
    metrics: str


COMMANDS = Commands(*blocks("sh"))


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Somebody who has come to step 4: daemons run, and the pipeline's file is written."""
    with (
        run_nsqd("--broadcast-address=127.0.0.1", "--metrics") as nsqd,
        run_nsqadmin(f"--nsqd-http-address={nsqd.http}", "--history-interval=1s") as admin,
    ):
        reader = Reader(tmp_path_factory.mktemp("tutorial"), nsqd, admin)
        (reader.folder / "api.py").write_text(blocks("python")[0])
        reader.run(COMMANDS.init)
        yield reader


def test_the_file_that_it_shows_is_written_and_passes_its_test(
    penstock: Callable[..., object], reader: Reader, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    file = reader.folder / "metrics.toml"
    written = re.sub(r" +#.*", "", file.read_text()).partition("\n[[tests]]")[0]
    assert blocks("toml")[0].strip() in written
    monkeypatch.chdir(reader.folder)
    penstock(*shlex.split(COMMANDS.validate)[1:])
    assert "metrics reads nsq api_requests" in capsys.readouterr().out
    assert reader.run(COMMANDS.test).endswith(blocks("text")[0])


def test_the_pipeline_runs_and_is_seen(reader: Reader) -> None:
    file = reader.folder / "metrics.toml"
    file.write_text(reader.here(file.read_text()))
    with ExitStack() as stack:
        stack.enter_context(reader.running(COMMANDS.publish))
        reader.until(lambda: "api_requests" in reader.topics())  # as nsqadmin's page shows
        stack.enter_context(reader.running(COMMANDS.run))
        reader.until(lambda: reader.pipelines().get("metrics", {}).get("rows_written"))
        reader.until(lambda: reader.pipelines().get("metrics.bad", {}).get("rows_read"))
        found = reader.pipelines()
        assert {each["state"] for each in found.values()} == {"running"}
        assert (found["metrics"]["rows_bad"], found["metrics"]["error"]) == (1, "")
        assert found["metrics"]["state_rows"] > 0
        assert "running" in reader.run(COMMANDS.status)
        metrics = reader.run(COMMANDS.metrics)
        assert 'nsqd_pipeline_rows_read_total{pipeline="metrics"' in metrics
    assert {each["state"] for each in reader.pipelines().values()} == {"stopped"}


def test_the_result_is_read(
    penstock: Callable[..., object], reader: Reader, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The first statement as a word of the command, the second on its standard input."""
    minute, letter = (json.loads(each) for each in blocks("json"))
    reader.publish("api_metrics", minute)
    reader.publish("api_requests.bad", letter)
    penstock(*shlex.split(reader.here(COMMANDS.read))[1:])
    found = re.search(r"\{.*\}", capsys.readouterr().out)
    assert found
    assert set(json.loads(found[0])) == set(minute)
    *command, statement = shlex.split(reader.here(COMMANDS.read_bad))
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{statement};\n"))
    penstock(*command[1:])
    assert letter["body"] in capsys.readouterr().out


@pytest.mark.parametrize("page", re.findall(r"\]\((?!http)([\w/.-]+)", TUTORIAL))
def test_its_links_lead_somewhere(page: str) -> None:
    assert (ROOT / "docs" / page).exists()
