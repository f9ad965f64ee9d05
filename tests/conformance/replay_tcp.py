"""Replays the cases of `tcp.jsonl`: several connections to one nsqd, step by step."""

from __future__ import annotations

import asyncio
import json
import shutil
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from penstock.testing.daemons import Daemon

from . import raw_http
from .parts import Names, pick, shorten

FRAME_S_MAX = 15.0
"""Longest wait for a frame: a deferred message of a new channel may be 5 s late in Go."""
PICK_S_MAX = 1.0
"""How long statistics may lag behind the exchange they count."""

Step = dict[str, Any]


class Miss(Exception):
    """The daemon did something else than recorded: the step, what was expected, what came."""

    def __init__(self, where: str, expected: object, actual: object) -> None:
        super().__init__(where, expected, actual)
        self.where, self.expected, self.actual = where, shorten(expected), shorten(actual)


class Connection:
    """One client connection of a case."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        """Send; a connection the server has closed meanwhile shows in a later step."""
        with suppress(ConnectionError):
            self.writer.write(data)
            await self.writer.drain()

    async def frame(self) -> tuple[int, bytes]:
        """The next frame: type and data; type -1 is the end of the connection, -2 silence."""
        try:
            async with asyncio.timeout(FRAME_S_MAX):
                size, kind = struct.unpack(">ii", await self.reader.readexactly(8))
                return kind, await self.reader.readexactly(size - 4)
        except (asyncio.IncompleteReadError, ConnectionError):
            return -1, b"<closed>"
        except TimeoutError:
            return -2, b"<nothing>"

    async def closed(self) -> bytes | None:
        """None when the connection ends, else what came instead."""
        try:
            async with asyncio.timeout(FRAME_S_MAX):
                return await self.reader.read(4096) or None
        except ConnectionError:
            return None
        except TimeoutError:
            return b"<still open>"

    async def silence(self, seconds: float) -> bytes:
        """What arrives within this time; nothing is wanted."""
        try:
            async with asyncio.timeout(seconds):
                return await self.reader.read(4096) or b"<closed>"
        except ConnectionError:
            return b"<closed>"
        except TimeoutError:
            return b""


class TcpCase:
    """One case in progress. `run()` raises Miss at the first step that differs."""

    def __init__(self, case: dict[str, Any], daemon: Daemon, names: Names) -> None:
        self.steps: list[Step] = case["steps"]
        self.racy = bool(case.get("racy"))
        self.daemon = daemon
        self.names = names
        self.connections: dict[str, Connection] = {}

    async def run(self) -> None:
        """Play all steps. Connections stay open until `end()`, as they did when recorded."""
        position = 0
        while position < len(self.steps):
            position += await self._play(position)

    def end(self) -> None:
        """Close all connections."""
        for connection in self.connections.values():
            connection.writer.close()

    async def _play(self, position: int) -> int:
        """Play the step at this position; returns how many steps that took."""
        step = self.steps[position]
        where = f"step {position}"
        if "expect" in step and self.racy:
            return await self._expect_unordered(position)
        for key, action in _ACTIONS.items():
            if key in step:
                await action(self, step, where)
                return 1
        raise ValueError(f"unknown step {step}")

    async def open(self, step: Step, where: str) -> None:
        streams = await asyncio.open_connection("127.0.0.1", self.daemon.tcp_port)
        self.connections[step["c"]] = Connection(*streams)

    async def send(self, step: Step, where: str) -> None:
        await self.connections[step["c"]].send(self.names.encode(step["send"]))

    async def expect(self, step: Step, where: str) -> None:
        kind, data = await self.connections[step["c"]].frame()
        if not self._is(step["expect"], kind, data):
            raise Miss(where, step["expect"], (kind, data))

    def _is(self, expected: Step, kind: int, data: bytes) -> bool:
        """Whether this frame is the expected one; binds the id of a message."""
        if kind != expected["type"]:
            return False
        if kind != 2:
            return self._is_text(expected, data.decode(errors="replace"))
        attempts, message_id = struct.unpack_from(">H16s", data, 8)
        if attempts != expected["attempts"] or data[26:] != self.names.encode(expected["body"]):
            return False
        return self.names.ids.setdefault(expected["id"], message_id) == message_id

    def _is_text(self, expected: Step, text: str) -> bool:
        if "data_parts" in expected:
            return text == self.names.encode(expected["data_parts"]).decode()
        return self.names.matches(expected["data"], text)

    async def _expect_unordered(self, position: int) -> int:
        """A run of frames whose order, and whose number of heartbeats, may vary."""
        name = self.steps[position]["c"]
        wanted = []
        for step in self.steps[position:]:
            if "expect" not in step or step["c"] != name:
                break
            wanted.append(step["expect"])
        missing = list(wanted)
        while missing:
            kind, data = await self.connections[name].frame()
            found = next((frame for frame in missing if self._is(frame, kind, data)), None)
            if found is not None:
                missing.remove(found)
            elif kind < 0 and all(frame.get("data") == "_heartbeat_" for frame in missing):
                break
            elif data != b"_heartbeat_":
                raise Miss(f"step {position}, any order", missing, (kind, data))
        return len(wanted)

    async def closed(self, step: Step, where: str) -> None:
        rest = await self.connections[step["c"]].closed()
        if rest is not None:
            raise Miss(where, "<closed>", rest)

    async def quiet(self, step: Step, where: str) -> None:
        data = await self.connections[step["c"]].silence(step["quiet_ms"] / 1000)
        if data:
            raise Miss(where, f"nothing for {step['quiet_ms']} ms", data)

    async def raw(self, step: Step, where: str) -> None:
        expected = bytes.fromhex(step["raw_hex"])
        try:
            async with asyncio.timeout(FRAME_S_MAX):
                data = await self.connections[step["c"]].reader.readexactly(len(expected))
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError) as error:
            raise Miss(where, expected, error) from None
        if data != expected:
            raise Miss(where, expected, data)

    async def close(self, step: Step, where: str) -> None:
        self.connections[step["c"]].writer.close()

    async def shutdown(self, step: Step, where: str) -> None:
        self.connections[step["c"]].writer.write_eof()

    async def sleep(self, step: Step, where: str) -> None:
        await asyncio.sleep(step["sleep_ms"] / 1000)

    async def http(self, step: Step, where: str) -> None:
        """Statistics are asked again for a moment, as nothing says when a FIN was processed."""
        method, path = step["http"]["method"], self.names.fill(step["http"]["path"])
        body = step["http"].get("body")
        data = None if body is None else self.names.encode(body)
        for _ in range(int(PICK_S_MAX / 0.05)):
            answer = await raw_http.call(self.daemon.http_port, method, path, data)
            try:
                return self._check_answer(step, answer, where)
            except Miss:
                if "pick" not in step:
                    raise
            await asyncio.sleep(0.05)
        return self._check_answer(step, answer, where)

    def _check_answer(self, step: Step, answer: raw_http.Answer, where: str) -> None:
        text = answer.body.decode(errors="replace")
        if answer.status != step["status"]:
            raise Miss(where, step["status"], (answer.status, text))
        if "body" in step and not self.names.matches_unordered(step["body"], text):
            raise Miss(where, step["body"], text)
        if "body_contains" in step and step["body_contains"] not in text:
            raise Miss(where, step["body_contains"], text)
        for path, expected in step.get("pick", {}).items():
            actual = pick(json.loads(text), path)
            if actual != expected:
                raise Miss(f"{where}, {path}", expected, actual)

    async def note(self, step: Step, where: str) -> None:
        """Some notes are steps told in words."""
        text = step["note"]
        if text.startswith("the data directory is removed"):
            await self._connect_bystander()
            while self.daemon.data_path.exists():  # nsqd may be writing its metadata just now
                shutil.rmtree(self.daemon.data_path, ignore_errors=True)
        elif text.startswith("the data directory is created"):
            self.daemon.data_path.mkdir()
        elif "published with MPUB from a second connection" in text:
            await self._publish_many(int(text.split()[0]))
        elif "37 % and 47 %" in text:
            await self._check_sample(0.37, 0.47, 5000, where)
        elif text.startswith("about 2 %"):
            await self._check_sample(0.012, 0.028, 20000, where)

    async def _connect_bystander(self) -> None:
        """A client of another case, which was connected and shows in the recorded statistics."""
        await self.open({"c": "bystander"}, "")
        parts = ["  V2PUB bystander\n", {"sized": "x"}, "SUB bystander c\n"]
        await self.connections["bystander"].send(self.names.encode(parts))
        for _ in range(2):
            await self.connections["bystander"].frame()

    async def _publish_many(self, count: int) -> None:
        """Messages for the topic the first connection subscribed to, 500 at a time."""
        topic = next(part for step in self.steps for part in step.get("send", ()) if "SUB" in part)
        name = topic.split()[1]
        for _ in range(count // 500):
            body = [{"i32": 500}, *[{"sized": "x"}] * 500]
            await self.connections["p"].send(self.names.encode([f"MPUB {name}\n", {"sized": body}]))
            await self.connections["p"].frame()

    async def _check_sample(self, low: float, high: float, count: int, where: str) -> None:
        path = next(step["http"]["path"] for step in self.steps if "http" in step)
        answer = await raw_http.call(self.daemon.http_port, "GET", path)
        channel = json.loads(answer.body)["topics"][0]["channels"][0]
        share = channel["in_flight_count"] / count
        if not low <= share <= high or channel["depth"] or channel["message_count"] != count:
            raise Miss(where, f"{low} to {high} of {count} in flight, depth 0", channel)


_ACTIONS: dict[str, Callable[[TcpCase, Step, str], Awaitable[None]]] = {
    "open": TcpCase.open,
    "send": TcpCase.send,
    "expect": TcpCase.expect,
    "closed": TcpCase.closed,
    "quiet_ms": TcpCase.quiet,
    "raw_hex": TcpCase.raw,
    "close": TcpCase.close,
    "shutdown": TcpCase.shutdown,
    "sleep_ms": TcpCase.sleep,
    "http": TcpCase.http,
    "note": TcpCase.note,
}
