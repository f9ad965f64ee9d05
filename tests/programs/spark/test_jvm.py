"""The JVM's command line and its death."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.spark.java import Java
from penstock.spark.jvm import SparkStartError, command, launch


def test_the_command_holds_the_settings() -> None:
    line = command(Java(Path("/j/java"), 21, "PATH"), "2g", {"spark.a": "b c"})
    assert line[0] == "/j/java"
    assert "-Xmx2g" in line
    assert line[-3:] == ["--conf", "spark.a=b c", "pyspark-shell"]
    assert "--add-modules=jdk.incubator.vector" not in line


def test_a_java_that_ends_at_once(tmp_path: Path) -> None:
    broken = tmp_path / "java"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    with pytest.raises(SparkStartError, match="ended at once with code 3"):
        launch(Java(broken, 21, "PATH"), "1g", {}, None)


def test_the_error_that_ended_it_is_said(tmp_path: Path) -> None:
    broken = tmp_path / "java"
    broken.write_text(
        '#!/bin/sh\necho \'Exception in thread "main" java.lang.RuntimeException: '
        "[not found: io.delta#delta;1]'\necho '\tat org.apache.Foo'\nexit 1\n"
    )
    broken.chmod(0o755)
    with (tmp_path / "spark.log").open("ab") as log, pytest.raises(SparkStartError) as failed:
        launch(Java(broken, 21, "PATH"), "1g", {}, log)
    said = "Spark's JVM ended at once with code 1: [not found: io.delta#delta;1]"
    assert str(failed.value) == said
