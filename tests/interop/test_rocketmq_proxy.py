"""RocketMQ's own proxy before our name server and broker, and Apache's Python client before that.

The jars and the client are fetched at the first time, 120 MB, into build/interop.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock.rocketmq.blocking import RemotingLink
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.testing.daemons import run_rocketmq

from .rocketmq_proxy import missing, python, run_proxy

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")

HERE = Path(__file__).parent
SECONDS = 300.0
COUNT = 20
KINDS = {"plain": "NORMAL", "ordered": "FIFO", "delayed": "DELAY", "transactions": "TRANSACTION"}
"""The topics, which are named for what the client does, and the type of their messages."""


@dataclass
class Proxied:
    """A proxy before servers of ours."""

    address: str
    home: Path

    def does(self, work: str) -> Any:
        """What the client says of its work in the topic of that name."""
        ended = subprocess.run(
            [python(), HERE / "run_rocketmq_python.py", self.address, work, work, f"group-{work}"],
            capture_output=True, text=True, timeout=SECONDS,
            env={"HOME": str(self.home), "PATH": ""},
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr[-3000:]
        return json.loads(ended.stdout)


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    home = tmp_path_factory.mktemp("proxy")
    with run_rocketmq(transactionTimeOut=1000, transactionCheckInterval=1000) as servers:
        link = RemotingLink(servers.broker.rocketmq, SECONDS)
        for topic, kind in KINDS.items():
            make(link, topic, kind)
        link.close()
        with run_proxy(home / "java", servers.name_server.rocketmq) as address:
            yield Proxied(address, home)


def make(link: RemotingLink, topic: str, kind: str) -> None:
    """Make a topic, and its group: one that gets messages in order where they are in order."""
    fields = {
        "topic": topic, "defaultTopic": "TBW102", "perm": 6, "readQueueNums": 2,
        "writeQueueNums": 2, "topicFilterType": "SINGLE_TAG", "order": "false",
        "attributes": f"+message.type={kind}",
    }  # fmt: skip
    answer = link.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
    assert answer.code == 0, answer.remark
    group = {"groupName": f"group-{topic}", "consumeMessageOrderly": kind == "FIFO"}
    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    answer = link.ask(code, {}, json.dumps(group).encode())
    assert answer.code == 0, answer.remark


def test_what_is_sent_comes_once(proxied: Proxied) -> None:
    assert proxied.does("plain") == {
        "ids": COUNT, "bodies": [str(number) for number in range(COUNT)], "tags": ["A"],
        "same": True,
    }  # fmt: skip


def test_messages_of_a_group_come_in_their_order(proxied: Proxied) -> None:
    assert proxied.does("ordered") == {
        "groups": {f"g{number}": list(range(number, COUNT, 2)) for number in range(2)}
    }


def test_a_message_comes_at_its_time(proxied: Proxied) -> None:
    assert proxied.does("delayed") == {"body": "later", "early": False}


def test_transactions_end_as_their_producer_says(proxied: Proxied) -> None:
    """At once, and when the broker asks."""
    assert proxied.does("transactions") == {"bodies": ["checked", "kept"]}
