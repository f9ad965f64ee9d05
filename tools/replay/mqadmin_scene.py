"""Servers with a topic, three messages and a group that has consumed them, for mqadmin.

Upstream's tool was run on this scene and its output recorded (`record_mqadmin.py`); ours is run on
the same scene, command by command in the same order (`test_mqadmin.py`). What differs from run to
run, such as ports, times and ids, is masked in both.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from penstock.rocketmq.blocking import RemotingLink
from penstock.rocketmq.client import Message, MessageQueue
from penstock.rocketmq.client.blocking import Producer, PushConsumer
from penstock.rocketmq.protocol.codes import RequestCode
from tools.harness.rocketmq.servers import (
    QUICK,
    SECONDS,
    Elsewhere,
    make_topic,
    wait_for_route,
)
from tools.harness.samples import RECORDINGS

SAMPLES = RECORDINGS / "mqadmin.json"
USAGES = RECORDINGS / "mqadmin_usages.json"
TOPIC, GROUP, BROKER = "orders", "billing", "broker-a"
PRODUCERS = "shop"
CLIENT = "10.1.1.1@scene"
CONFIG = replace(QUICK, client_ip="10.1.1.1", instance_name="scene")

COMMANDS = """
updateTopic -c DefaultCluster -t made -r 2 -w 2
updateTopic -b <BROKER> -t ordered -r 2 -w 2 -o true
updateTopic -b <BROKER> -t unit -p 2 -u true -s true
updateTopicPerm -b <BROKER> -t made -p 4
updateTopicPerm -b <BROKER> -t made -p 4
updateTopicPerm -c DefaultCluster -t made -p 6
topicList
topicList -c
topicRoute -t made
topicRoute -t orders -l
topicRoute -t nosuch
topicStatus -t orders
topicClusterList -t orders
updateSubGroup -c DefaultCluster -g made-group -r 5
updateSubGroup -b <BROKER> -g other -d true -s false
getConsumerConfig -g made-group
clusterList
clusterList -m
brokerStatus -b <BROKER>
getBrokerConfig -b <BROKER>
getBrokerConfig -c DefaultCluster
updateBrokerConfig -b <BROKER> -k maxMessageSize -v 4000000
queryMsgByKey -t orders -k key-0
queryMsgByKey -t orders -k nosuch
queryMsgById -i <OFFSET_ID>
queryMsgById -i zz
queryMsgById -i <OFFSET_ID> -g billing -d <CLIENT>
queryMsgByUniqueKey -t orders -i <UNIQUE_ID>
queryMsgByOffset -t orders -b broker-a -i 0 -o 1
queryMsgByOffset -t orders -b broker-a -i 0 -o 99
printMsg -t orders -d true
printMsgByQueue -t orders -a broker-a -i 1 -d true -p true
printMsgByQueue -t orders -a broker-a -i 0 -f true
consumeMessage -t orders -b broker-a -i 0 -o 0 -c 1
queryCq -q 0 -i 0 -t orders -b <BROKER>
queryCq -q 0 -i 0 -t orders -g billing
producerConnection -g nosuch -t orders
producer -b <BROKER>
consumerConnection -g billing
consumerConnection -g nosuch
consumerStatus -g billing
consumerProgress
consumerProgress -g billing
consumerProgress -g billing -s true
consumerProgress -g nosuch
brokerConsumeStats -b <BROKER>
statsAll -t orders
updateKvConfig -s NS -k k -v v
deleteKvConfig -s NS -k k
updateOrderConf -m put -t made -v broker-a:2
updateOrderConf -m get -t made
updateOrderConf -m delete -t made
updateOrderConf -m get -t made
getNamesrvConfig
updateNamesrvConfig -k orderMessageEnable -v true
wipeWritePerm -b broker-a
addWritePerm -b broker-a
cleanExpiredCQ -b <BROKER>
cleanUnusedTopic -c DefaultCluster
deleteExpiredCommitLog -b <BROKER>
allocateMQ -t made -i 10.0.0.1
cloneGroupOffset -s billing -d cloned -t orders
resetOffsetByTime -g billing -t orders -s now
resetOffsetByTime -g cloned -t orders -s 0
skipAccumulatedMessage -g cloned -t orders
resetOffsetByTime -g nosuch -t orders -s now
clusterAclConfigVersion -b <BROKER>
getAclConfig -b <BROKER>
deleteAclConfig -b <BROKER> -a somebody
queryMsgTraceById -i <UNIQUE_ID>
sendMessage -t made -p hello -k key1 -c TagA -b broker-a -i 1
sendMessage -t made -p hello -i 1
sendMsgStatus -b broker-a -s 10 -c 2
checkMsgSendRT -t made -a 3 -s 10
clusterRT -a 3 -s 10 -i 600
clusterRT -c DefaultCluster -a 3 -p true -m room1 -i 600
exportMetadata -c DefaultCluster -f <FOLDER>
exportMetadata -c DefaultCluster -t -f <FOLDER>
exportMetadata -b <BROKER> -t -f <FOLDER>
exportMetadata -b <BROKER> -g -f <FOLDER>
exportConfigs -c DefaultCluster -f <FOLDER>
exportMetrics -c DefaultCluster -f <FOLDER>
deleteSubGroup -b <BROKER> -g other
deleteSubGroup -c DefaultCluster -g made-group -r true
deleteTopic -c DefaultCluster -t ordered
topicRoute -t ordered
startMonitoring
""".strip().splitlines()
WITH_RULES = """
updateAclConfig -b <BROKER> -a account1 -s secret-1 -i DENY -u SUB -t orders=PUB|SUB -g billing=SUB
updateAclConfig -c DefaultCluster -a account2 -s secret-2 -w 10.0.0.* -m true
updateAclConfig -b <BROKER> -a account3 -s short
updateGlobalWhiteAddr -b <BROKER> -g 10.10.103.*,192.168.0.*
updateGlobalWhiteAddr -c DefaultCluster -g 10.10.103.1
clusterAclConfigVersion -b <BROKER>
clusterAclConfigVersion -c DefaultCluster
getAclConfig -b <BROKER>
deleteAclConfig -b <BROKER> -a account1
deleteAclConfig -c DefaultCluster -a account2
""".strip().splitlines()
"""Those about access rules, on a broker that has some."""
ENDS = {"clusterRT": "broker-a", "startMonitoring": "endRound"}
"""What sub-commands that go on have printed when a round is over."""
ACCOUNT = ("administrator", "12345678")
RULES = f"accounts:\n- accessKey: {ACCOUNT[0]}\n  secretKey: '{ACCOUNT[1]}'\n  admin: true\n"

_MASKS = (
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(,\d{3})?", "<TIME>"),
    (r"\b[0-9A-F]{32,}\b", "<ID>"),
    (r"127\.0\.0\.1:\d+", "<ADDRESS>"),
    (r" *(?<![\d.])\d+\.\d+(?![\d.]) *", "<FLOAT>"),  # a longer one leaves fewer blanks
    (r"\b\d{12,}\b", "<NUMBER>"),
    (r"(spentTimeMills|undoneMsgsDelayTimeMills)=\d+", r"\1=<NUMBER>"),
    (r"\S+/plain_acl\.yml", "<FILE>"),
    (r"(org\.apache\.rocketmq\.common\.)?PlainAccessConfig.*", "<ACCOUNT>"),
)
_OF_ONE = {
    "producer": (rf"^(?!producer group \({PRODUCERS}\)).*", ""),  # the tool has producers as well
    "statsAll": (r"\s*\d+\s+\d+$", " <COUNTS>"),  # sampled each minute
    "sendMsgStatus": (r"(rt|queueId|queueOffset)=\d+", r"\1=<NUMBER>"),
    "checkMsgSendRT": (r"\d+$", "<TIME>"),
    "clusterRT": (r"\|\d+$", "|<TIME>"),
    "exportMetrics": (r": ([\d.]+|V4_9_\d)$", ": <FIGURE>"),  # the tool's version as well
    "getAclConfig": (r"(secretKey *:).*", r"\1"),  # ours shows none
    # 4.9 makes a topic ordered with a second change, 5.x and ours with the first.
    "exportMetadata": (r"(dataVersion\.counter): \d+", r"\1: <COUNT>"),
    # Upstream's is in a log, and is a group of its own, for what ours does not tell.
    "startMonitoring": (r"^.*?(?=\[MONITOR\])|.*(__MONITOR_CONSUMER|reportDeleteMsgsEvent).*", ""),
}
"""What differs from run to run in the output of one sub-command."""
_NAMES_ONLY = ("brokerStatus", "getBrokerConfig", "getNamesrvConfig")
_OF_5_X = re.compile(
    r"\.(consumeMessageOrderly|consumeTimeoutMinute|groupSysFlag|groupRetryPolicy\.type): "
)
"""Settings of groups that our broker has, and the one that was recorded does not."""
_OPTIONS_OF_5_X = ("-a,--attributes", "-o,--consumeMessageOrderly")
_TRACE = re.compile(
    r"\s+at |[\w.]+(Exception|Error)\b|Caused by|\s+\.\.\. \d+ more|See http|For more information"
)


class Scene(NamedTuple):
    """The name server, and what stands in the commands for what differs."""

    name_server: str
    values: dict[str, str]

    def whole(self, output: str) -> str:
        """An output, and the members of the JSON files that its command wrote, a line each."""
        folder = Path(self.values["FOLDER"])
        lines = [output.replace(str(folder), "<FOLDER>")]
        for path in folder.glob("*.json"):
            lines += _members("", json.loads(path.read_text(encoding="utf-8")))
            path.unlink()
        return "\n".join(lines)

    def words(self, command: str) -> list[str]:
        """The words of a command, the name server's address among them."""
        for name, value in self.values.items():
            command = command.replace(f"<{name}>", value)
        name, *words = command.split()
        return [name, "-n", self.name_server, *words]


def _members(name: str, value: object) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{name}: {value}"
        return
    for key, member in value.items():
        yield from _members(f"{name}.{key}", member)


@contextmanager
def run_scene(name_server: str, broker: str) -> Iterator[Scene]:
    """The scene on the servers at these addresses, until the end of the block."""
    make_topic(Elsewhere(broker), TOPIC, 2)
    wait_for_route(name_server, TOPIC)
    with (
        Producer(PRODUCERS, name_server, config=CONFIG) as producer,
        consuming(name_server),
        TemporaryDirectory() as folder,
    ):
        results = [
            producer.send(
                Message(TOPIC, body, tag, f"key-{number}", {"color": "blue"}),
                queue=MessageQueue(BROKER, number % 2, TOPIC),
            )
            for number, (tag, body) in enumerate((("A", b"one"), ("B", b"two"), ("A", b"three")))
        ]
        values = {
            "BROKER": broker, "CLIENT": CLIENT, "OFFSET_ID": results[0].offset_id,
            "UNIQUE_ID": results[0].id, "FOLDER": folder,
        }  # fmt: skip
        _wait_for_commits(broker, {(TOPIC, 0): 2, (TOPIC, 1): 1, (f"%RETRY%{GROUP}", 0): 0})
        _wait_for_heartbeat(broker, producer)
        yield Scene(name_server, values)


@contextmanager
def scene_with_rules(name_server: str, broker: str) -> Iterator[Scene]:
    """The scene for `WITH_RULES`: servers at these addresses whose broker has access rules."""
    with TemporaryDirectory() as folder:
        yield Scene(name_server, {"BROKER": broker, "FOLDER": folder})


def write_account(home: Path) -> None:
    """The account of mqadmin, as a folder's ROCKETMQ_HOME has it."""
    (home / "conf").mkdir(parents=True, exist_ok=True)
    key, secret = ACCOUNT
    (home / "conf" / "tools.yml").write_text(f"accessKey: {key}\nsecretKey: '{secret}'\n")


@contextmanager
def consuming(name_server: str) -> Iterator[None]:
    """A member of the group, in a thread."""
    consumer = PushConsumer(GROUP, name_server, config=CONFIG)
    consumer.subscribe(TOPIC)
    thread = threading.Thread(target=lambda: consumer.run(lambda message: None, threads=1))
    thread.start()
    try:
        yield
    finally:
        consumer.stop()
        thread.join()
        consumer.close()


def _wait_for_commits(broker: str, offsets: dict[tuple[str, int], int]) -> None:
    link = RemotingLink(broker, SECONDS)
    deadline = time.monotonic() + 2 * SECONDS
    for (topic, queue), offset in offsets.items():
        # A broker of 4.9 answers 0 all the same, for a queue without an offset.
        fields = {"consumerGroup": GROUP, "topic": topic, "queueId": queue,
                  "setZeroIfNotFound": "false"}  # fmt: skip
        while True:
            assert time.monotonic() < deadline, f"queue {queue} of {topic} was never consumed"
            answer = link.ask(RequestCode.QUERY_CONSUMER_OFFSET, fields)
            if answer.code == 0 and answer.int64("offset") == offset:
                break
            time.sleep(0.05)
    link.close()


def _wait_for_heartbeat(broker: str, producer: Producer) -> None:
    link = RemotingLink(broker, SECONDS)
    fields = {"producerGroup": PRODUCERS, "topic": TOPIC}
    deadline = time.monotonic() + 2 * SECONDS
    while link.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, fields).code:
        assert time.monotonic() < deadline, "the producer never sent a heartbeat"
        producer.work(0.05)  # its heartbeats are sent while a method runs
    link.close()


def masked(command: str, output: str, error: str = "") -> list[str]:
    """The lines of an output, sorted, without what differs from run to run.

    Java has an error as a stack trace in its output, ours is a line of its own.
    """
    lines = [line.rstrip() for line in output.splitlines()]
    told = [line for line in lines if line and not _TRACE.match(line) and not _OF_5_X.search(line)]
    if not told and any(_TRACE.match(line) for line in lines):
        error = [line for line in lines if "Exception: " in line][-1].split("Exception: ", 1)[1]
    if error:  # one that is no server's is told in words of one's own
        told.append("! " + re.sub(r" BROKER: .*", "", error) if "CODE: " in error else "! <ERROR>")
    if command.split()[0] in _NAMES_ONLY:
        told = [re.split(r"\s*[:=] ", line)[0] for line in told]
        told = [line for line in told if not line.startswith("commitLogDiskRatio_")]
    own = _OF_ONE.get(command.split()[0])
    for pattern, mask in (*_MASKS, *((own,) if own else ())):
        told = [re.sub(pattern, mask, line) for line in told]
    return sorted(line for line in told if line)


def options_of(usage: str) -> list[str]:
    """The options of 4.9 that a usage lists; blanks collapsed."""
    found: list[str] = []
    for line in usage.splitlines():
        if option := re.match(r" {1,4}(-\w,--.+|--.+)", line):
            found.append(option[1])
        elif found:
            found[-1] += f" {line}"
    others = ("--", *_OPTIONS_OF_5_X)
    return [" ".join(each.split()) for each in found if not each.startswith(others)]
