"""The README's program for Spark, run as it stands; its archive is in test_archive.py."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

from penstock.nsq.client.blocking import Producer
from penstock.testing.daemons import run_nsqd
from tools.harness.processes import rest_of
from tools.pages.documentation import DOCS, ROOT, blocks, commands

README = ROOT / "README.md"
TUTORIAL = DOCS / "tutorial-spark.md"


def test_its_pipeline_is_that_of_the_tutorial() -> None:
    """Its commands are run by tests/spark/test_tutorial.py."""
    init, test, run = [
        shlex.join(words) for words in commands(README)
        if words[:2] == ["penstock", "pipeline"] and "archive" not in words
    ]  # fmt: skip
    assert {init, test, run} <= {shlex.join(words) for words in commands(TUTORIAL)}


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
            rest = rest_of(process, 500)
    assert process.returncode == 0, rest
    # A worker of PySpark may say that its pipe broke; the program itself says nothing.
    assert "KeyboardInterrupt" not in rest
    assert "py4j" not in rest
    assert "ERROR" not in rest
