"""Record what upstream's mqadmin prints on the scene: `python -m tests.conformance.record_mqadmin`.

`PENSTOCK_ROCKETMQ_JAVA` names the folder with the jars of 4.9.7.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.rocketmq.mqadmin.sub_commands import SUB_COMMANDS
from penstock.testing.daemons import run_mqbroker, run_mqnamesrv
from tests.conformance.mqadmin_scene import (
    COMMANDS,
    SAMPLES,
    USAGES,
    Scene,
    masked,
    options_of,
    run_scene,
)
from tests.interop.test_rocketmq_java import FOLDERS, JVM, compile_java
from tests.programs.rocketmq.client.servers import wait_for_broker


class JavaTool:
    """Upstream's mqadmin in one JVM."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, words: list[str]) -> str:
        """What a command prints."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(words) + "\n")
        self._process.stdin.flush()
        return "".join(iter(self._process.stdout.readline, ".\n"))


@contextmanager
def java_tool(home: Path) -> Iterator[JavaTool]:
    """The tool, until the end of the block."""
    folder = next(FOLDERS[name] for name in FOLDERS if name.startswith("4.9"))
    (home / "conf").mkdir(parents=True)
    class_path = compile_java(folder, home / "classes", "Admin")
    (home / "conf" / "logback_tools.xml").write_text("<configuration/>")
    words = [f"-Drocketmq.client.logRoot={home}", f"-Duser.home={home}"]
    command = ["java", *JVM, *words, f"-Djava.io.tmpdir={home}", "-cp", class_path, "Admin"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=home,
        env={**os.environ, "ROCKETMQ_HOME": str(home)},
    )  # fmt: skip
    try:
        yield JavaTool(process)
    finally:
        process.kill()
        process.communicate()


def record(scene: Scene, tool: JavaTool) -> list[tuple[str, list[str]]]:
    """Each command with its masked output."""
    return [(command, masked(command, tool.run(scene.words(command)))) for command in COMMANDS]


def main() -> None:
    """Write the samples."""
    with (
        tempfile.TemporaryDirectory() as home,
        run_mqnamesrv() as name_server,
        run_mqbroker(name_server=name_server.rocketmq) as broker,
        java_tool(Path(home)) as tool,
    ):
        usages = {each.name: options_of(tool.run(["help", each.name])) for each in SUB_COMMANDS}
        wait_for_broker(name_server, "broker-a")
        with run_scene(name_server.rocketmq, broker.rocketmq) as scene:
            found = record(scene, tool)
    USAGES.write_text(json.dumps(usages, indent=1) + "\n", encoding="utf-8")
    SAMPLES.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
