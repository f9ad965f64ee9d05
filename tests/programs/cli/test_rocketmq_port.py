"""RocketMQ's broker beside an nsqd, over the same topics."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.shared.rocketmq_port import rocketmq_settings
from penstock.core.errors import ConfigError
from penstock.nsq.nsqd.nsqd_options import NsqdOptions
from penstock.testing.daemons import Daemon, MqBroker, run_mqbroker, run_nsqd
from tests.copies import ask, until_copied
from tests.forwarding import wait_until
from tools.harness.certificates import Certificates
from tools.harness.forking import completed
from tools.harness.rocketmq.raw_client import RawClient


def make_topic(client: RawClient, name: str, queues: int = 4) -> None:
    made = client.ask(
        17, topic=name, defaultTopic="TBW102", readQueueNums=queues, writeQueueNums=queues, perm=6,
        topicFilterType="SINGLE_TAG", order="false",
    )  # fmt: skip
    assert made.code == 0, made.remark


def send(client: RawClient, topic: str, queue: int, body: bytes) -> dict[str, str]:
    sent = client.ask(
        310, body, a="P", b=topic, c="TBW102", d=4, e=queue, f=0, g=1, h=0, i="", j=0, k="false"
    )
    assert sent.code == 0, sent.remark
    return sent.ext or {}


def http(broker: MqBroker, method: str, path: str, body: bytes = b"") -> bytes:
    asked = urllib.request.Request(f"http://{broker.http}{path}", body or None, method=method)
    with urllib.request.urlopen(asked, timeout=30) as answer:
        found: bytes = answer.read()
    return found


def topics(client: RawClient) -> set[str]:
    return set(json.loads(client.ask(21).body)["topicConfigTable"])


def test_topics_of_both_are_the_same(tmp_path: Path) -> None:
    with run_mqbroker(data_path=tmp_path) as broker:
        client = RawClient(broker.port)
        make_topic(client, "T")
        sent = [send(client, "T", queue, b"body%d" % queue) for queue in (0, 1, 1)]
        assert [(each["queueId"], each["queueOffset"]) for each in sent] == [
            ("0", "0"), ("1", "0"), ("1", "1"),
        ]  # fmt: skip
        http(broker, "POST", "/pub?topic=from_nsq", b"hello")
        assert "from_nsq" in topics(client)
        assert client.ask(30, topic="from_nsq", queueId=0).ext == {"offset": "1"}
        stats = json.loads(http(broker, "GET", "/stats?format=json"))
        assert {each["topic_name"] for each in stats["topics"]} >= {"T", "from_nsq"}
        client.close()
        broker.restart()
        client = RawClient(broker.port)
        assert client.ask(30, topic="T", queueId=1).ext == {"offset": "2"}
        http(broker, "POST", "/topic/delete?topic=T")
        assert "T" not in topics(client)
        client.ask(215, topic="from_nsq")
        stats = json.loads(http(broker, "GET", "/stats?format=json"))
        assert "from_nsq" not in {each["topic_name"] for each in stats["topics"]}
        client.close()
        assert broker.stop() == 0
        assert "Traceback" not in broker.log()


def test_names_that_nsq_does_not_have_are_no_trouble_to_it(tmp_path: Path) -> None:
    with run_mqbroker(data_path=tmp_path) as broker:
        client = RawClient(broker.port)
        make_topic(client, "%RETRY%G", 1)
        send(client, "%RETRY%G", 0, b"again")
        client.close()
        broker.restart()
        client = RawClient(broker.port)
        assert client.ask(30, topic="%RETRY%G", queueId=0).ext == {"offset": "1"}
        client.close()
        assert "invalid topic" not in broker.log()


def rocketmq_port(nsqd: Daemon) -> int:
    """Read from its log, where it stands soon after the others."""
    for _ in range(12_000):
        found = re.search(r"RocketMQ: listening on 127\.0\.0\.1:(\d+)\n", nsqd.log())
        if found:
            return int(found[1])
        time.sleep(0.005)
    raise AssertionError(nsqd.log())


def test_nsqd_with_the_flag(tmp_path: Path) -> None:
    config = tmp_path / "rocketmq.properties"
    config.write_text("brokerName=beside\ndurability=fsync\n")
    flags = ("--rocketmq-address=127.0.0.1:0", f"--rocketmq-config={config}")
    with run_nsqd(*flags, data_path=tmp_path / "data") as nsqd:
        client = RawClient(rocketmq_port(nsqd))
        assert "beside" in topics(client)
        client.close()
        assert "the property durability has no effect here" in nsqd.log()


def test_a_follower_opens_the_port_once_promoted_and_has_queues_and_offsets(
    tmp_path: Path,
) -> None:
    config = tmp_path / "rocketmq.properties"
    config.write_text("brokerName=beside\nflushConsumerOffsetInterval=100\n")
    flags = ("--rocketmq-address=127.0.0.1:0", f"--rocketmq-config={config}")
    with run_nsqd(*flags) as old, run_nsqd(*flags, f"--follow={old.http}") as new:
        client = RawClient(rocketmq_port(old))
        make_topic(client, "T", 3)
        for queue in (2, 0, 2):
            send(client, "T", queue, b"x")
        committed: dict[str, Any] = {"consumerGroup": "g", "topic": "T", "queueId": 2}
        assert client.ask(15, commitOffset=1, **committed).code == 0
        table = old.data_path / "config" / "consumerOffset.json"
        wait_until(lambda: table.exists() and b"T@g" in table.read_bytes(), old.log)
        client.close()
        until_copied(old, new, "T")
        assert "RocketMQ: listening" not in new.log()
        assert ask(new, "POST", "/replication/promote")[1]["whole"] is True
        client = RawClient(rocketmq_port(new))
        assert client.ask(30, topic="T", queueId=2).ext == {"offset": "2"}
        assert client.ask(14, **committed).ext == {"offset": "1"}
        send(client, "T", 1, b"goes on")
        client.close()


def test_settings_from_flags(tmp_path: Path) -> None:
    options = NsqdOptions(
        rocketmq_address="10.0.0.7:10911",
        rocketmq_namesrv_addresses=("a.example:1", "b.example:2"),
        data_path=str(tmp_path),
    )
    settings = rocketmq_settings(options)
    assert (settings.broker_ip1, settings.listen_port) == ("10.0.0.7", 10911)
    assert settings.name_servers() == ["a.example:1", "b.example:2"]
    assert settings.store_path_root_dir == str(tmp_path)
    assert rocketmq_settings(NsqdOptions(rocketmq_address=":0")).bind_address == "0.0.0.0"
    slave = tmp_path / "rocketmq.properties"
    slave.write_text("brokerRole=SLAVE\nbrokerId=1\n")
    flags: dict[str, Any]
    for flags, said in (
        ({"rocketmq_address": "x"}, "--rocketmq-address=x"),
        ({"rocketmq_namesrv_addresses": ("x",)}, "is not a host:port"),
        ({"rocketmq_config": "/nowhere"}, "failed to load"),
        ({"rocketmq_config": str(slave)}, "brokerRole=SLAVE is for mqbroker"),
    ):
        with pytest.raises(ConfigError, match=said):
            rocketmq_settings(NsqdOptions(**{"rocketmq_address": ":0"} | flags))


def test_nsqd_does_not_start_with_an_open_door(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    keys = (f"--tls-cert={certificates.cert}", f"--tls-key={certificates.key}")
    addresses = [f"--{name}-address=127.0.0.1:0" for name in ("tcp", "http", "rocketmq")]
    for flags in (("--tls-required=true", *keys), ("--auth-http-address=127.0.0.1:1",)):
        words = [*addresses, f"--data-path={tmp_path}", *flags]
        ended = completed("nsqd", *words)
        assert ended.returncode == 1
        (line,) = [line for line in ended.stderr.splitlines() if "FATAL" in line]
        assert "--rocketmq-address=127.0.0.1:0 opens to everybody what" in line
        assert "or use --rocketmq-open" in line
        assert "Traceback" not in ended.stderr


def test_nsqd_starts_when_it_is_told_that_the_door_is_open(tmp_path: Path) -> None:
    flags = ("--auth-http-address=127.0.0.1:1", "--rocketmq-address=127.0.0.1:0")
    with run_nsqd(*flags, "--rocketmq-open", data_path=tmp_path) as daemon:
        client = RawClient(rocketmq_port(daemon))
        assert client.ask(28).code == 0
        client.close()
