"""RocketMQ's own Java client as a popping consumer, which versions from 5 on can be."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from penstock.nsq.client.blocking import Producer
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.testing.daemons import run_mqbroker, run_mqnamesrv
from tools.harness.rocketmq.java import FOLDERS, JVM, compile_java, missing
from tools.harness.rocketmq.raw_client import RawClient

from .java_sources import java_source

COUNT = 20
SECONDS = 180.0


def compiled(program: str, folder: Path) -> str:
    """The class path of a program for the newest client of version 5; skips without one."""
    able = [name for name in FOLDERS if int(name.split(".")[0]) >= 5]
    if not able or missing():
        pytest.skip(missing() or "no client of version 5 is at hand")
    return compile_java(FOLDERS[max(able)], folder / "classes", java_source(program))


def test_a_java_consumer_pops(tmp_path: Path) -> None:
    class_path = compiled("Pop", tmp_path)
    with run_mqnamesrv() as names, run_mqbroker(name_server=names.rocketmq) as broker:
        client = RawClient(broker.port)
        answer = client.ask(
            RequestCode.UPDATE_AND_CREATE_TOPIC, topic="T", defaultTopic="TBW102", perm=6,
            readQueueNums=4, writeQueueNums=4, topicFilterType="SINGLE_TAG", order="false",
        )  # fmt: skip
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, b'{"groupName":"G"}')
        mode = {"consumerGroup": "G", "topic": "T", "mode": "POP", "popShareQueueNum": 0}
        answer = client.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, json.dumps(mode).encode())
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        with Producer(broker.tcp) as producer:
            producer.multi_publish("T", [b"%d" % number for number in range(COUNT)])
        ended = subprocess.run(
            ["nice", "java", *JVM, f"-Duser.home={tmp_path}", "-cp", class_path, "Pop",
             names.rocketmq, "T", "G", str(COUNT)],
            capture_output=True, text=True, timeout=SECONDS, env={**os.environ},
        )  # fmt: skip
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert sorted(ended.stdout.splitlines()) == sorted(f"{n} true" for n in range(COUNT))
        # All is acknowledged: nothing is hidden, and nothing comes again.
        again = client.ask(RequestCode.POP_MESSAGE, consumerGroup="G", topic="T", queueId=-1,
                           maxMsgNums=32, invisibleTime=1000, pollTime=0, bornTime=1,
                           initMode=0)  # fmt: skip
        assert again.code == ResponseCode.POLLING_TIMEOUT
        peeked = client.ask(RequestCode.PEEK_MESSAGE, consumerGroup="G", topic="T", queueId=-1,
                            maxMsgNums=32)  # fmt: skip
        assert peeked.code == ResponseCode.PULL_NOT_FOUND
        client.close()


STEPS = """\
FOUND
a 0
b 0
POLLING_NOT_FOUND
changed OK true
changed OK true
FOUND
a 1
b 1
acknowledged OK
acknowledged OK
FOUND
c 0
"""


def test_a_java_client_pops_in_order(tmp_path: Path) -> None:
    """One batch of a queue at a time, counted and acknowledged by receipts that Java makes."""
    class_path = compiled("PopInOrder", tmp_path)
    with run_mqbroker() as broker:
        client = RawClient(broker.port)
        client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, b'{"groupName":"G"}')
        with Producer(broker.tcp) as producer:
            producer.multi_publish("T", [b"a", b"b", b"c"])
        ended = subprocess.run(
            ["nice", "java", *JVM, f"-Duser.home={tmp_path}", "-cp", class_path, "PopInOrder",
             f"127.0.0.1:{broker.port}", "T", "G"],
            capture_output=True, text=True, timeout=SECONDS, env={**os.environ},
        )  # fmt: skip
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert ended.stdout == STEPS
        offset = client.ask(RequestCode.QUERY_CONSUMER_OFFSET, consumerGroup="G", topic="T",
                            queueId=0)  # fmt: skip
        assert offset.ext == {"offset": "2"}
        client.close()
