"""RocketMQ's own Java client, of any version that is at hand, and programs that use it.

`PENSTOCK_ROCKETMQ_JAVA` names one folder or more (`:` between them) with the jars of a client and
of its tools, as `mvn dependency:copy-dependencies` lays them out for the artifacts rocketmq-client
and rocketmq-tools.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

VARIABLE = "PENSTOCK_ROCKETMQ_JAVA"
JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m")


def version(folder: Path) -> str:
    """The client's version, as its jar says."""
    (jar,) = folder.glob("rocketmq-client-[0-9]*.jar")
    return jar.stem.removeprefix("rocketmq-client-")


FOLDERS = {
    version(Path(name)): Path(name)
    for name in os.environ.get(VARIABLE, "").split(os.pathsep)
    if name
}


def missing() -> str | None:
    """Why its programs cannot be run here; None when they can."""
    if not FOLDERS:
        return f"{VARIABLE} names no folder with the jars of RocketMQ's Java client"
    both = shutil.which("java") and shutil.which("javac")
    return None if both else "java and javac are not on PATH"


def compile_java(folder: Path, classes: Path, *sources: Path) -> str:
    """Compile these programs against a client; returns their class path."""
    classes.mkdir(exist_ok=True)
    lint = ["-Xlint:all", "-Werror"]
    command = ["javac", *lint, "-d", str(classes), "-cp", f"{folder}/*", *map(str, sources)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return f"{classes}{os.pathsep}{folder}/*"
