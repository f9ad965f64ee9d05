"""Third-party RocketMQ clients find their way with our name server.

There is no broker of ours yet, so what they find is a stand-in that registers as a broker does and
answers sends without storing anything; the routes decide whether a send arrives, and where.
The C++ client is that of the extra `interop`; ali-ons is installed by npm into the virtual
environment when the tests first run.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.net import tcp
from penstock.rocketmq.namesrv.daemon import NameServer
from penstock.rocketmq.namesrv.settings import NamesrvSettings
from penstock.rocketmq.protocol import registration
from penstock.rocketmq.protocol.codes import RequestCode as Q
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.registration import Registration, TopicConfig
from penstock.rocketmq.remoting import Connection, RemotingServer
from tests.unit.rocketmq.conftest import LoopThread
from tests.unit.rocketmq.raw_client import RawClient

pytestmark = pytest.mark.interop

HERE = Path(__file__).parent
ALI_ONS = "ali-ons@3.12.0"
NODE_HOME = Path(sys.prefix) / "share" / "penstock-interop" / ALI_ONS
SECONDS = 60.0
SENDS = (Q.SEND_MESSAGE, Q.SEND_MESSAGE_V2)
OFFSET = 41


class StandIn:
    """Answers as a broker would, and notes each send: topic and queue."""

    def __init__(self) -> None:
        self.sends: list[tuple[str, int]] = []

    def handle(self, connection: Connection, request: Command) -> Command:
        if request.code not in SENDS:
            return request.answer(ext={})
        is_v2 = request.code == Q.SEND_MESSAGE_V2
        topic, queue = ("b", "e") if is_v2 else ("topic", "queueId")
        self.sends.append((request.text(topic), request.int32(queue)))
        message_id = "7F000001" + "00002A9F" + "0000000000000000"
        queue_text = str(request.int32(queue))
        return request.answer(
            ext={"msgId": message_id, "queueId": queue_text, "queueOffset": str(OFFSET)}
        )

    def connected(self, connection: Connection) -> None: ...

    def disconnected(self, connection: Connection) -> None: ...


class Setting:
    """A name server and a stand-in that has registered `topic`, with one queue that takes sends and
    `readonly`, with none.
    """

    def __init__(self, folder: Path) -> None:
        self.thread = LoopThread()
        settings = NamesrvSettings()
        settings.listen_port, settings.bind_address = 0, "127.0.0.1"
        settings.kv_config_path = str(folder / "kvConfig.json")
        self.name_server = self.thread.run(NameServer.start(settings))
        self.broker = StandIn()
        self.server = RemotingServer(self.broker)
        self.listener = self.thread.run(tcp.listen(self.server, "127.0.0.1:0"))
        self.client = RawClient(self.name_server.port)
        topics = {"topic": TopicConfig("topic", 1, 1), "readonly": TopicConfig("readonly", 1, 1, 4)}
        body = registration.encode(Registration({"counter": 1, "timestamp": 1}, topics))
        answer = self.client.ask(
            Q.REGISTER_BROKER, body, brokerName="a", clusterName="c", brokerId=0,
            brokerAddr=self.listener.address, haServerAddr=self.listener.address,
        )  # fmt: skip
        assert answer.code == 0

    def close(self) -> None:
        self.client.close()
        self.thread.run(self.name_server.close())
        self.thread.run(self.listener.close())
        self.thread.loop.call_soon_threadsafe(self.server.close_connections)
        self.thread.close()


@pytest.fixture
def setting(tmp_path: Path) -> Iterator[Setting]:
    setting = Setting(tmp_path)
    yield setting
    setting.close()


def finish(command: list[str], **env: str) -> str:
    """Run a command to its end; returns its output. Fails with its errors when it fails."""
    ended = subprocess.run(
        command, env={**os.environ, **env}, capture_output=True, text=True, timeout=SECONDS
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def play(setting: Setting, command: list[str], **env: str) -> dict[str, object]:
    address = f"127.0.0.1:{setting.name_server.port}"
    output = finish([*command, address, "topic", "readonly", "none"], **env)
    outcome: dict[str, object] = json.loads(output.splitlines()[-1])
    return outcome


@pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"),
    reason="the C++ client is built for Linux on x86-64 only",
)
def test_the_cpp_client(setting: Setting, tmp_path: Path) -> None:
    command = [sys.executable, str(HERE / "run_rocketmq_cpp.py")]
    outcome = play(setting, command, HOME=str(tmp_path))  # where it writes its logs
    assert outcome["topic"] == [0, OFFSET]
    assert (outcome["readonly"], outcome["none"]) == ("ProducerSendSyncFailed",) * 2
    assert setting.broker.sends == [("topic", 0)]


@pytest.mark.skipif(
    not (shutil.which("node") and shutil.which("npm")), reason="node and npm are not on PATH"
)
def test_the_javascript_client(setting: Setting) -> None:
    if not (NODE_HOME / "node_modules" / "ali-ons").exists():
        options = ["--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(NODE_HOME)]
        finish(["npm", "install", *options, ALI_ONS])
    command = ["node", str(HERE / "run_ali_ons.js")]
    outcome = play(setting, command, NODE_PATH=str(NODE_HOME / "node_modules"))
    assert outcome["topic"] == ["SEND_OK", OFFSET]
    assert (outcome["readonly"], outcome["none"]) == ("error", "error")
    assert setting.broker.sends == [("topic", 0)]
