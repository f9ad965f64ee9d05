"""Record what upstream's mqadmin prints on the scene: `python -m tools.replay.record_mqadmin`.

`PENSTOCK_ROCKETMQ_JAVA` names the folder with the jars of 4.9.7.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from penstock.rocketmq.mqadmin.sub_commands import SUB_COMMANDS
from penstock.testing.daemons import run_mqbroker, run_mqnamesrv
from tools.harness.rocketmq.java import FOLDERS, JVM, compile_java
from tools.harness.rocketmq.servers import run_servers, wait_for_broker

from .mqadmin_scene import (
    COMMANDS,
    ENDS,
    RULES,
    SAMPLES,
    USAGES,
    WITH_RULES,
    Scene,
    masked,
    options_of,
    run_scene,
    scene_with_rules,
    write_account,
)

ADMIN = Path(__file__).with_name("Admin.java")
"""Upstream's mqadmin, command after command in one JVM."""


class JavaTool:
    """Upstream's mqadmin in one JVM."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._log = log

    def run(self, words: list[str]) -> str:
        """What a command prints, of one that goes on until the end of a round."""
        end = ENDS.get(words[0], "")
        if words[0] != "startMonitoring":
            return self._run(words, end)
        self._run(words, "")  # it is left at work, and tells its log
        while end not in (told := self._log.read_text(encoding="utf-8")):
            time.sleep(0.05)
        return "\n".join(line for line in told.splitlines() if "[MONITOR]" in line)

    def _run(self, words: list[str], end: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join([end, *words]) + "\n")
        self._process.stdin.flush()
        return "".join(iter(self._process.stdout.readline, ".\n"))


@contextmanager
def java_tool(home: Path) -> Iterator[JavaTool]:
    """The tool, until the end of the block."""
    folder = next(FOLDERS[name] for name in FOLDERS if name.startswith("4.9"))
    write_account(home)
    class_path = compile_java(folder, home / "classes", ADMIN)
    (home / "conf" / "logback_tools.xml").write_text("<configuration/>")
    words = [f"-Drocketmq.client.logRoot={home}", f"-Duser.home={home}"]
    command = ["java", *JVM, *words, f"-Djava.io.tmpdir={home}", "-cp", class_path, "Admin"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=home,
        env={**os.environ, "ROCKETMQ_HOME": str(home)},
    )  # fmt: skip
    try:
        yield JavaTool(process, home / "rocketmq_client.log")
    finally:
        process.kill()
        process.communicate()


def record(scene: Scene, tool: JavaTool, commands: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Each command with its masked output."""
    return [
        (command, masked(command, scene.whole(tool.run(scene.words(command)))))
        for command in commands
    ]


def main() -> None:
    """Write the samples."""
    with (
        tempfile.TemporaryDirectory() as home,
        run_mqnamesrv() as name_server,
        run_mqbroker(name_server=name_server.rocketmq) as broker,
        java_tool(Path(home) / "tool") as tool,
    ):
        usages = {each.name: options_of(tool.run(["help", each.name])) for each in SUB_COMMANDS}
        wait_for_broker(name_server, "broker-a")
        with run_scene(name_server.rocketmq, broker.rocketmq) as scene:
            found = record(scene, tool, COMMANDS)
        (Path(home) / "plain_acl.yml").write_text(RULES)
        rules = {"aclEnable": "true", "nsqOpen": "true", "aclDirectory": home}
        with (
            run_servers(**rules) as servers,
            scene_with_rules(servers.address, servers.broker.rocketmq) as scene,
        ):
            found += record(scene, tool, WITH_RULES)
    USAGES.write_text(json.dumps(usages, indent=1) + "\n", encoding="utf-8")
    SAMPLES.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
