"""The JVM's command line, and its end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.spark.java import Java
from penstock.spark.jvm import Gateway, command


def test_the_command_holds_the_settings() -> None:
    line = command(Java(Path("/j/java"), 21, "PATH"), "2g", {"spark.a": "b c"})
    assert line[0] == "/j/java"
    assert "-Xmx2g" in line
    assert line[-3:] == ["--conf", "spark.a=b c", "pyspark-shell"]
    assert "--add-modules=jdk.incubator.vector" not in line


@pytest.mark.parametrize(
    ("timeout_s", "takes_s", "ending"), [(0.2, 600, -signal.SIGKILL), (60, 1, 0)]
)
def test_a_jvm_that_takes_its_time_at_the_end_is_waited_for_as_long_as_told(
    timeout_s: float, takes_s: int, ending: int
) -> None:
    program = f"import sys, time; sys.stdin.read(); time.sleep({takes_s})"
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
    Gateway(process, 0, "").close(timeout_s)
    assert process.returncode == ending
