"""The JVM's command line."""

from __future__ import annotations

from pathlib import Path

from penstock.spark.java import Java
from penstock.spark.jvm import command


def test_the_command_holds_the_settings() -> None:
    line = command(Java(Path("/j/java"), 21, "PATH"), "2g", {"spark.a": "b c"})
    assert line[0] == "/j/java"
    assert "-Xmx2g" in line
    assert line[-3:] == ["--conf", "spark.a=b c", "pyspark-shell"]
    assert "--add-modules=jdk.incubator.vector" not in line
