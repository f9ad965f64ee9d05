"""RocketMQ's mqadmin administers our broker and name server.

What is asserted was printed by the same commands with Java's servers. See `test_rocketmq_java` for
`PENSTOCK_ROCKETMQ_JAVA`; the commands are those of 4.9, whose folder must be among those named.
All run in one JVM, in this order.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode as Q
from penstock.rocketmq.protocol.messages import message, properties
from tools.harness.rocketmq.java import FOLDERS, JVM, VARIABLE, compile_java, missing
from tools.harness.rocketmq.programs import Servers, run_servers, wait_until
from tools.replay.record_mqadmin import ADMIN

from .java_sources import java_source
from .rocketmq_play import constants_env

FOLDER = next((FOLDERS[name] for name in FOLDERS if name.startswith("4.9")), None)
IDLE = "idle"
"""The topic and the group of a client that is there all the time; four messages are consumed."""


class Admin:
    """A JVM that runs mqadmin's commands, and another one with a producer and a consumer."""

    def __init__(self, servers: Servers, home: Path, class_path: str) -> None:
        (home / "conf").mkdir()
        (home / "conf" / "logback_tools.xml").write_text("<configuration/>")
        self.servers = servers
        self.home = home
        words = [f"-Drocketmq.client.logRoot={home}", f"-Duser.home={home}"]
        java = ["java", *JVM, *words, f"-Djava.io.tmpdir={home}", "-cp", class_path]
        env = {**os.environ, **constants_env(), "ROCKETMQ_HOME": str(home)}
        options: dict[str, Any] = {
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "text": True,
            "env": env,
        }
        servers.create_topic(IDLE)
        self.idle = subprocess.Popen([*java, "Flows", IDLE, servers.address, IDLE], **options)
        self.tool = subprocess.Popen([*java, "Admin"], cwd=home, **options)
        self.replacements: dict[str, str] = {}
        """What stands in the commands for what differs from run to run."""

    def wait(self) -> None:
        """Until the client has consumed its messages."""
        assert self.idle.stdout is not None
        assert self.idle.stdout.readline() == "READY\n"
        ask = self.servers.ask
        pulled = ask(
            Q.PULL_MESSAGE, consumerGroup=IDLE, topic=IDLE, queueId=0, queueOffset=0, maxMsgNums=1,
            sysFlag=4, commitOffset=0, suspendTimeoutMillis=0, subscription="*", subVersion=0,
        )  # fmt: skip
        stored = next(message.decode_all(pulled.body))
        members = fastjson.loads(ask(Q.GET_CONSUMER_LIST_BY_GROUP, consumerGroup=IDLE).body)
        self.replacements = {
            "BROKER": f"127.0.0.1:{self.servers.broker_port}",
            "OFFSET_ID": stored.offset_id,
            "UNIQUE_ID": properties.value_of(stored.properties, "UNIQ_KEY") or "",
            "CLIENT": members["consumerIdList"][0],
            "HOME": str(self.home),
        }

    def __call__(self, command: str) -> str:
        """Run a command; returns what it printed."""
        for name, value in self.replacements.items():
            command = command.replace(f"<{name}>", value)
        name, *words = command.split()
        line = "\t".join(["", name, "-n", self.servers.address, *words])
        assert self.tool.stdin is not None
        assert self.tool.stdout is not None
        self.tool.stdin.write(line + "\n")
        self.tool.stdin.flush()
        return "".join(iter(self.tool.stdout.readline, ".\n"))

    def wait_for_commit(self) -> None:
        """Until the client has committed its offsets."""

        def is_committed(queue: int) -> bool:
            answer = self.servers.ask(
                Q.QUERY_CONSUMER_OFFSET, consumerGroup=IDLE, topic=IDLE, queueId=queue
            )
            return answer.code == 0 and answer.int64("offset") == 1

        wait_until(lambda: all(map(is_committed, range(4))), "commit of the offsets")

    def close(self) -> None:
        for process in (self.idle, self.tool):
            process.kill()
            process.communicate()


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Admin]:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    if FOLDER is None:
        pytest.skip(f"{VARIABLE} names no client 4.9")
    home = tmp_path_factory.mktemp("mqadmin")
    class_path = compile_java(FOLDER, home / "classes", java_source("Flows"), ADMIN)
    with run_servers(home / "servers") as servers:
        admin = Admin(servers, home, class_path)
        try:
            admin.wait()
            yield admin
        finally:
            admin.close()


# Each command, and what its output must contain: regular expressions, blanks for any blanks.
COMMANDS: list[tuple[str, tuple[str, ...]]] = [
    # topics
    ("updateTopic -c DefaultCluster -t made -r 2 -w 2",
     (r"create topic to \S+ success", r"readQueueNums=2, writeQueueNums=2, perm=RW-")),
    ("updateTopic -b <BROKER> -t ordered -r 2 -w 2 -o true",
     (r"isOrder=true, orderConf=\[broker-a:2\]", r"order=true")),
    ("updateTopicPerm -b <BROKER> -t ordered -p 4",
     (r"update topic perm from 6 to 4 in \S+ success",)),
    ("topicList", (r"\nmade\n", r"\nTBW102\n", r"%RETRY%idle\n", r"SCHEDULE_TOPIC_XXXX")),
    ("topicList -c DefaultCluster", (r"DefaultCluster idle idle\s",)),
    ("topicRoute -t made", (r'"brokerAddrs":\{0:"<BROKER>"', r'"writeQueueNums":2')),
    ("topicRoute -t nosuch", (r"CODE: 17 DESC: No topic route info .*: nosuch",)),
    ("topicClusterList -t made", (r"DefaultCluster",)),
    # groups and the broker itself
    ("updateSubGroup -c DefaultCluster -g made-group -r 5",
     (r"create subscription group to \S+ success", r"retryMaxTimes=5")),
    ("clusterList", (r"DefaultCluster broker-a 0 <BROKER> V4_9_\d",)),
    ("clusterList -m", (r"DefaultCluster broker-a 0 0 4 \d",)),
    ("brokerStatus -b <BROKER>",
     (r"brokerVersionDesc : V4_9_\d", r"msgPutTotalTodayNow : 4", r"putTps :",
      r"commitLogMinOffset : \d+", r"dispatchBehindBytes : 0",
      r"sendThreadPoolQueueCapacity : 10000", r"pullThreadPoolQueueCapacity : 100000",
      r"queryThreadPoolQueueCapacity : 20000", r"EndTransactionThreadPoolQueueCapacity: 100000")),
    ("getBrokerConfig -b <BROKER>", (r"brokerName = broker-a", r"maxMessageSize = 4194304")),
    ("updateBrokerConfig -b <BROKER> -k maxMessageSize -v 4000000",
     (r"update broker config success, <BROKER>",)),
    ("updateBrokerConfig -b <BROKER> -k fileReservedTime -v 48",
     (r"update broker config success, <BROKER>",)),
    ("getBrokerConfig -b <BROKER>", (r"maxMessageSize = 4000000",)),
    # messages
    ("sendMessage -t made -p hello -k key1 -c TagA", (r"broker-a [01] SEND_OK [0-9A-F]{32}",)),
    ("checkMsgSendRT -t made -a 3 -s 10", (r"(broker-a [01] true \d+\s+){3}Avg RT",)),
    ("sendMsgStatus -b broker-a -s 10 -c 2", (r"(rt=\d+ms, .*SEND_OK.*\n){2}",)),
    ("topicStatus -t made", (r"broker-a 0 0 [1-3] 20\d\d-", r"broker-a 1 0 [1-3] 20\d\d-")),
    ("queryMsgByKey -t made -k key1", (r"\n[0-9A-F]{32,} [01] 0\n",)),
    ("queryMsgByKey -t made -k nosuch", (r"CODE: 208 DESC: query message by key finished",)),
    ("queryMsgById -i <OFFSET_ID>",
     (r"OffsetID: <OFFSET_ID>", r"Tags: \[A\]", r"Keys: \[key-0\]", r"consumerGroup=idle")),
    ("queryMsgByUniqueKey -t idle -i <UNIQUE_ID>", (r"Queue Offset: 0", r"Keys: \[key-0\]")),
    ("queryMsgByOffset -t idle -b broker-a -i 0 -o 0", (r"OffsetID: <OFFSET_ID>",)),
    ("queryMsgByOffset -t idle -b broker-a -i 0 -o 99", (r"^\s*$",)),
    ("printMsg -t made -d true", (r"minOffset=0, maxOffset=[1-3], MessageQueue", r"BODY: hello")),
    ("printMsgByQueue -t idle -a broker-a -i 1 -d true -p true", (r"queueOffset=0.*BODY: 1\n",)),
    ("consumeMessage -t idle -b broker-a -i 0 -o 0 -c 1",
     (r"Consume ok", r"status=NO_NEW_MSG, offset=1")),
    ("queryCq -q 0 -i 0 -t idle -b <BROKER>",
     (r"max: 1, min: 0", r"physicSize=\d+, tagsCode=65,")),
    # clients
    ("producerConnection -g idle -t idle", (r"0001 \S+ 127.0.0.1:\d+ JAVA V4_9_\d",)),
    ("consumerConnection -g idle",
     (r"<CLIENT> 127.0.0.1:\d+ JAVA V4_9_\d", r"%RETRY%idle \*", r"MessageModel: CLUSTERING",
      r"ConsumeFromWhere: CONSUME_FROM_FIRST_OFFSET")),
    ("consumerConnection -g nosuch", (r"CODE: 17 .*%RETRY%nosuch",)),
    ("consumerStatus -g idle", (r"1 <CLIENT> V4_9_\d", r"Same subscription", r"Rebalance OK")),
    ("consumerStatus -g idle -s", (r"1 <CLIENT> V4_9_\d", r"Rebalance OK")),
    ("resetOffsetByTime -g nosuch -t idle -s now", (r"CODE: 1 DESC: .*nosuch",)),
    ("getConsumerConfig -g idle", (r"retryMaxTimes = 16", r"consumeBroadcastEnable = true")),
    # the name server
    ("updateKvConfig -s NS -k k -v v", (r"create or update kv config to namespace success",)),
    ("deleteKvConfig -s NS -k k", (r"delete kv config from namespace success",)),
    ("updateOrderConf -m put -t made -v broker-a:2", (r"update orderConf success",)),
    ("updateOrderConf -m get -t made", (r"orderConf=\[broker-a:2\]",)),
    ("updateOrderConf -m delete -t made", (r"delete orderConf success",)),
    ("getNamesrvConfig", (r"orderMessageEnable = false",)),
    ("updateNamesrvConfig -k orderMessageEnable -v true", (r"orderMessageEnable : true",)),
    ("wipeWritePerm -b broker-a", (r"wipe write perm of broker\[broker-a\] .* OK, \d+",)),
    ("topicRoute -t idle", (r'"perm":4',)),
    ("addWritePerm -b broker-a", (r"add write perm of broker\[broker-a\] .* OK, \d+",)),
    # the rest
    ("cleanExpiredCQ -b <BROKER>", (r"success",)),
    ("cleanUnusedTopic -b <BROKER>", (r"success",)),
    ("allocateMQ -t made -i 10.0.0.1,10.0.0.2",
     (r'"10.0.0.2":\[\{"brokerName":"broker-a","queueId":[01],"topic":"made"\}\]',)),
    ("exportMetadata -c DefaultCluster -f <HOME>/export", (r"export \S+metadata.json success",)),
    ("exportMetadata -c DefaultCluster -t -f <HOME>/export", (r"export \S+topic.json success",)),
    ("exportConfigs -c DefaultCluster -f <HOME>/export", (r"export \S+configs.json success",)),
    ("exportMetrics -c DefaultCluster -f <HOME>/export", (r"export \S+metrics.json success",)),
    # progress: by now the client has committed, as it does 10 s after its start
    ("consumerProgress", (r"idle 1 V4_9_\d PUSH CLUSTERING \d+ 0",)),
    ("consumerProgress -g idle", (r"idle broker-a 3 1 1 0 20\d\d-", r"Diff Total: 0")),
    ("consumerProgress -g idle -s true", (r"idle broker-a 3 1 1 \S+ 0 20\d\d-",)),
    ("consumerProgress -g nosuch", (r"CODE: 17 .*%RETRY%nosuch",)),
    ("brokerConsumeStats -b <BROKER>", (r"idle idle broker-a 3 1 1 0 ", r"Diff Total: 0")),
    ("cloneGroupOffset -s idle -d cloned -t idle", (r"clone group offset success",)),
    ("resetOffsetByTime -g idle -t idle -s now", (r"(broker-a [0-3] 1\s+){4}",)),
    ("statsAll -t idle", (r"idle idle 0 \d+\.\d\d \d+\.\d\d 4 [45]\n",)),
    ("statsAll", (r"made 0 \d+\.\d\d \d NO_CONSUMER",)),
    ("skipAccumulatedMessage -g idle -t idle", (r"(broker-a [0-3] 1\s+){4}",)),
    # and away
    ("deleteSubGroup -c DefaultCluster -g made-group -r true",
     (r"delete subscription group \[made-group\] from broker \[<BROKER>\] .* success",
      r"delete topic \[%RETRY%made-group\] from cluster \[DefaultCluster\] success")),
    ("deleteTopic -c DefaultCluster -t ordered",
     (r"delete topic \[ordered\] from cluster \[DefaultCluster\] success",
      r"delete topic \[ordered\] from NameServer success")),
    ("topicRoute -t ordered", (r"CODE: 17 ",)),
]  # fmt: skip
COMMITTED = "consumerProgress"


@pytest.mark.parametrize(
    ("command", "expected"), COMMANDS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_command(admin: Admin, command: str, expected: tuple[str, ...]) -> None:
    if command == COMMITTED:
        admin.wait_for_commit()
    output = admin(command)
    for pattern in expected:
        for name, value in admin.replacements.items():
            pattern = pattern.replace(f"<{name}>", re.escape(value))
        assert re.search(pattern.replace(" ", r"\s+"), output), output
