"""The cases of `spark/test_java.py` that need a port or a process."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from penstock.spark import java
from tests.unit.spark.test_session import fake_java


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
