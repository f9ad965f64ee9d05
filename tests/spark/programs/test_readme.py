"""The README's commands and its program for Spark, run as they stand there."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

from penstock.nsq.client.blocking import Producer
from penstock.testing.daemons import run_nsqd
from tests.pages import DOCS, ROOT, blocks, commands

README = ROOT / "README.md"


def pipeline_commands(page: Path) -> list[list[str]]:
    return [words for words in commands(page) if words[:2] == ["penstock", "pipeline"]]


def ended(words: list[str], folder: Path) -> str:
    """What a command says; it must end well."""
    done = subprocess.run(
        [sys.executable, "-m", "penstock.cli.penstock", *words[1:]],
        cwd=folder, capture_output=True, text=True, timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def test_its_archive_is_written(tmp_path: Path) -> None:
    archive, *_ = pipeline_commands(README)
    asked = ["--lookupd-http-address", "127.0.0.1:4161"]
    assert archive[-2:] == asked
    with run_nsqd("--retention-time=1h") as nsqd:
        with Producer(nsqd.tcp) as producer:
            producer.publish("test", b"hello world 1")
        ended([*archive[:-2], "--nsqd-http-address", nsqd.http], tmp_path)
    assert list((tmp_path / "run" / "archive" / "test").rglob("*.parquet"))


def test_its_pipeline_passes_its_tests_and_is_that_of_the_tutorial(tmp_path: Path) -> None:
    _, init, test, run = pipeline_commands(README)
    ended(init, tmp_path)
    assert ended(test, tmp_path).endswith("1 passed, 0 failed\n")
    of_tutorial = {shlex.join(words) for words in pipeline_commands(DOCS / "tutorial-spark.md")}
    assert {shlex.join(words) for words in (init, test, run)} <= of_tutorial, "it runs them all"


def test_the_query_ends_on_ctrl_c_without_a_traceback(tmp_path: Path) -> None:
    (code,) = (text for text in blocks(README, "python") if "spark" in text)
    with run_nsqd("--retention-time=1h") as nsqd:
        with Producer(nsqd.tcp) as producer:
            producer.publish("test", b"hello world 1")
        asked = '"lookupd_http_address": "127.0.0.1:4161"'
        assert asked in code
        program = tmp_path / "query.py"
        program.write_text(code.replace(asked, f'"nsqd_http_address": "{nsqd.http}"'))
        with subprocess.Popen(
            [sys.executable, str(program)], cwd=tmp_path, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            said = ""
            while "|hello world 1|" not in said:
                line = process.stdout.readline()
                assert line, said
                said += line
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does
            rest, _ = process.communicate(timeout=180)
    assert process.returncode == 0, rest
    # A worker of PySpark may say that its pipe broke; the program itself says nothing.
    assert "KeyboardInterrupt" not in rest
    assert "py4j" not in rest
    assert "ERROR" not in rest
