"""The JVM's command line and end, the Java that is found, and imports that brokers do without."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.spark import java
from penstock.spark.java import Java
from penstock.spark.jvm import Gateway, command
from tests.unit.spark.test_session import fake_java


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


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("25", 25), ("1.8.0_402", 1)])
def test_a_java_without_a_release_file_is_asked(tmp_path: Path, version: str, major: int) -> None:
    assert java.java_version(fake_java(tmp_path, version, release=False)) == major


def test_the_wrapper_drops_one_argument_and_keeps_the_rest(tmp_path: Path) -> None:
    program = tmp_path / "real java"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    home = java.wrapped_home(program, tmp_path / "home")
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "$HOME"]
    answer = subprocess.run([home / "bin" / "java", *given], capture_output=True, text=True)
    assert answer.stdout.splitlines() == ["-Xmx1g", "a b", "", "$HOME"]


@pytest.mark.parametrize("module", ["penstock", "penstock.cli.nsqd", "penstock.cli.penstock"])
def test_no_spark_without_need(module: str) -> None:
    code = f"import sys, {module}; sys.exit(any(m in sys.modules for m in ('pyspark', 'pyarrow')))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
