"""A member of a group that is Java's client, in a process of its own."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from pathlib import Path

from tools.harness.rocketmq.java import JVM, compile_java

SHARER = Path(__file__).with_name("Sharer.java")


class JavaMember:
    """The program `Sharer.java`: which queues it holds, and what it has handled."""

    def __init__(self, jars: Path, home: Path, handled: Callable[[int], object]) -> None:
        """``handled`` is told each number."""
        home.mkdir(parents=True, exist_ok=True)
        class_path = compile_java(jars, home / "classes", SHARER)
        self._command = [
            "java", *JVM, "-Drocketmq.client.rebalance.waitInterval=1000", f"-Duser.home={home}",
            "-cp", class_path, "Sharer",
        ]  # fmt: skip
        self._handled = handled
        self._process: Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self.queues: list[int] = []
        self.count = 0
        """Messages that it has handled."""

    async def start(self, address: str, group: str, topic: str, retries: int) -> None:
        """Start it; it joins the group in its own time."""
        self._process = await asyncio.create_subprocess_exec(
            *self._command, address, group, topic, str(retries),
            stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL,
        )  # fmt: skip
        self._reading = asyncio.create_task(self._read(self._process))

    async def _read(self, process: Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            word, *numbers = line.decode().split() or [""]
            if word == "held":
                self.queues = [int(each) for each in numbers]
            elif word == "handled":
                self.count += 1
                self._handled(int(numbers[0]))

    async def die(self) -> None:
        """Kill it, without a word to anybody."""
        if self._process is not None and self._reading is not None:
            self._process.kill()
            await self._process.wait()
            await self._reading
        self._process, self.queues = None, []
