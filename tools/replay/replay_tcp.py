"""Replays the cases of `tcp.jsonl`: several connections to one nsqd, step by step."""

from __future__ import annotations

import asyncio
import json
import math
import shutil
import struct
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from penstock.testing.daemons import Daemon
from tools.harness.auth_server import AuthServer, secret_of
from tools.harness.certificates import Certificates

from . import raw_http
from .connection import CLOSED, FRAME_S_MAX, RESPONSE, Connection, Miss
from .layers import Deflate, Layer, LayerError, Snappy
from .parts import Names, pick

PICK_S_MAX = 30.0
"""How long statistics may lag behind the exchange they count."""
HASTE = dict.fromkeys(
    (
        "disconnect-does-not-requeue", "dpub-delivered-later", "dpub-topic-without-channel",
        "req-clamped-max", "req-delayed", "timeout-redelivery", "touch-extends",
    ),
    0.5,
)  # fmt: skip
"""Cases in which nothing comes before a time is over: on a busy machine the recorded pauses would
leave too little of it. What comes too soon comes at once.
"""

Step = dict[str, Any]


class Peers(NamedTuple):
    """What the daemon under test has around it."""

    certificates: Certificates
    auth: AuthServer


class TcpCase:
    """One case in progress. `run()` raises Miss at the first step that differs."""

    def __init__(self, case: dict[str, Any], daemon: Daemon, names: Names, peers: Peers) -> None:
        self.name: str = case["name"]
        self.steps: list[Step] = case["steps"]
        self.racy = bool(case.get("racy"))
        self.daemon = daemon
        self.names = names
        self.peers = peers
        self.connections: dict[str, Connection] = {}
        self.late_s = 0.0
        """How much longer than recorded it took to get from step to step, on a busy machine."""

    async def run(self) -> None:
        """Play all steps. Connections stay open until `end()`, as they did when recorded."""
        position = 0
        while position < len(self.steps):
            began = time.monotonic()
            step = self.steps[position]
            try:
                position += await self._play(position)
            finally:
                self.late_s += max(0.0, time.monotonic() - began - _pause_s(step))
        for step in self.steps:
            if "authd" in step:
                self._check_asked(step["authd"])

    def end(self) -> None:
        """Close all connections."""
        for connection in self.connections.values():
            connection.close()

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
        self.connections[step["c"]] = await Connection.open(self.daemon.tcp_port)

    async def send(self, step: Step, where: str) -> None:
        connection = self.connections[step["c"]]
        data = self.names.encode(step["send"])
        garbage = self.name in ("deflate-garbage", "snappy-garbage") and "hex" in step["send"][0]
        await (connection.send_below(data) if garbage else connection.send(data))

    async def upgrade(self, step: Step, where: str) -> None:
        connection = self.connections[step["c"]]
        if step["upgrade"] == "tls":
            newest = "12" if "12" in self.name else ""
            context = self.peers.certificates.context(step.get("client_cert"), newest)
            try:
                await connection.start_tls(context)
            except LayerError as error:
                if not step.get("fails"):
                    raise Miss(where, "a TLS handshake", error) from None
                return
            if step.get("fails"):
                raise Miss(where, "a refused handshake", "a TLS connection")
            return
        layer: Layer = Deflate()
        if step["upgrade"] == "snappy":
            restarts = self.name == "snappy-stream-restarted-identifier"
            layer = Snappy(restarts=restarts, odd=self.name == "snappy-uncompressed-chunk")
        connection.add(layer)

    async def authd(self, step: Step, where: str) -> None:
        """The script of the auth server; one case has an answer that is not given again."""
        secret = _secret(step["authd"])
        first = (step["authd"]["status"], step["authd"]["body"])
        again = [(500, "")] if len(step["authd"]["requests"]) > 1 else []
        self.peers.auth.answer(secret, first, *again)

    def _check_asked(self, script: Step) -> None:
        expected = [
            (request["method"], request["path"], request["headers"])
            for request in script["requests"]
        ]
        actual = [
            (asked.method, asked.path, {"Accept": asked.headers.get("accept")})
            for asked in self.peers.auth.asked(_secret(script))
        ]
        if actual != expected:
            raise Miss("requests of the auth server", expected, actual)

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
        return bool(self.names.ids.setdefault(expected["id"], message_id) == message_id)

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
            elif kind == CLOSED and all(frame.get("data") == "_heartbeat_" for frame in missing):
                break
            elif data != b"_heartbeat_":
                raise Miss(f"step {position}, any order", missing, (kind, data))
        return len(wanted)

    async def closed(self, step: Step, where: str) -> None:
        rest = await self.connections[step["c"]].closed()
        if rest is not None:
            raise Miss(where, "<closed>", rest)

    async def quiet(self, step: Step, where: str) -> None:
        seconds = step["quiet_ms"] / 1000 * HASTE.get(self.name, 1)
        data = await self.connections[step["c"]].silence(seconds)
        if data:
            raise Miss(where, f"nothing for {step['quiet_ms']} ms", data)

    async def raw(self, step: Step, where: str) -> None:
        expected = bytes.fromhex(step["raw_hex"])
        try:
            async with asyncio.timeout(FRAME_S_MAX):
                data = await self.connections[step["c"]].exactly(len(expected))
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError) as error:
            raise Miss(where, expected, error) from None
        if data != expected:
            raise Miss(where, expected, data)

    async def close(self, step: Step, where: str) -> None:
        self.connections[step["c"]].close()

    async def shutdown(self, step: Step, where: str) -> None:
        self.connections[step["c"]].half_close()

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
            await self._check_sample(0.015, 0.025, 20000, where)

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
        channel: dict[str, Any] = {}
        for _ in range(int(PICK_S_MAX / 0.05)):  # until all of them were looked at
            answer = await raw_http.call(self.daemon.http_port, "GET", path)
            channel = json.loads(answer.body)["topics"][0]["channels"][0]
            if channel["message_count"] == count and not channel["depth"]:
                break
            await asyncio.sleep(0.05)
        share = channel["in_flight_count"] / count
        if not low <= share <= high or channel["depth"] or channel["message_count"] != count:
            raise Miss(where, f"{low} to {high} of {count} in flight, depth 0", channel)


def _pause_s(step: Step) -> float:
    """How long a step takes by its nature: a pause as recorded, a message until it is due."""
    if "expect" in step and step["expect"]["type"] != RESPONSE:
        return math.inf
    milliseconds: float = step.get("quiet_ms") or step.get("sleep_ms") or 0
    return milliseconds / 1000


def _secret(script: Step) -> str:
    """The secret that a script is for; empty where nothing is asked."""
    return secret_of(script["requests"][0]["path"]) if script["requests"] else ""


_ACTIONS: dict[str, Callable[[TcpCase, Step, str], Awaitable[None]]] = {
    "open": TcpCase.open,
    "upgrade": TcpCase.upgrade,
    "authd": TcpCase.authd,
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
