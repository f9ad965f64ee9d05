"""The broker's properties: Java's names and defaults, and what is refused."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from penstock.core.errors import ConfigError
from penstock.rocketmq.broker.broker_settings import BrokerSettings
from penstock.storage.durability import Durability
from tests.unit.net.certificates import Certificates


def loaded(text: str) -> BrokerSettings:
    settings, unknown = BrokerSettings.load(text)
    assert unknown == []
    return settings


def test_defaults_are_javas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    settings = BrokerSettings()
    declared = settings.declared()
    assert {name: getattr(settings, declared[name]) for name in JAVA} == JAVA
    assert settings.broker_name == socket.gethostname()
    assert settings.namesrv_addr == ""
    assert settings.store_path_root_dir.endswith("/store")
    assert settings.check() == []


def test_a_user_without_a_home_names_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with pytest.raises(ConfigError, match="set storePathRootDir"):
        BrokerSettings().checked_store()
    assert loaded("storePathRootDir=data").checked_store() == "data"


JAVA = {
    "listenPort": 10911, "brokerClusterName": "DefaultCluster", "brokerId": 0,
    "brokerPermission": 6, "defaultTopicQueueNums": 8, "autoCreateTopicEnable": True,
    "autoCreateSubscriptionGroup": True, "enablePropertyFilter": False,
    "fileReservedTime": 72, "maxMessageSize": 4194304,
    "transactionTimeOut": 6000, "transactionCheckMax": 15, "transactionCheckInterval": 60000,
    "longPollingEnable": True, "shortPollingTimeMills": 1000, "compressedRegister": False,
    "registerNameServerPeriod": 30000, "flushConsumerOffsetInterval": 5000,
    "maxTransferBytesOnMessageInMemory": 262144, "maxTransferCountOnMessageInMemory": 32,
    "flushDiskType": "ASYNC_FLUSH", "brokerRole": "ASYNC_MASTER", "syncFlushTimeout": 5000,
}  # fmt: skip


def test_a_sample_configuration_of_java_has_no_unknown_property() -> None:
    settings = loaded(
        "brokerClusterName=DefaultCluster\nbrokerName=broker-a\nbrokerId=0\ndeleteWhen=04\n"
        "fileReservedTime=48\nbrokerRole=ASYNC_MASTER\nflushDiskType=SYNC_FLUSH\n"
        "brokerIP1=10.0.0.7\nmappedFileSizeCommitLog=1073741824\nsendMessageThreadPoolNums=4\n"
        "storePathCommitLog=/elsewhere\nhaListenPort=10912\ntls.server.mode=disabled\n"
    )
    assert settings.broker_ip1 == "10.0.0.7"
    assert settings.durability_level is Durability.FSYNC


def test_kinds_of_properties() -> None:
    settings, declared = BrokerSettings(), set(BrokerSettings.declared())
    assert not declared & BrokerSettings.without_effect
    assert BrokerSettings.at_start_only <= declared
    assert set(BrokerSettings.important) <= declared
    assert not {"important", "atStartOnly", "fixed"} & declared
    assert settings.black_list() == {"configBlackList", "brokerConfigPath"}
    assert BrokerSettings.load("brokerNmae=x")[1] == ["brokerNmae"]  # sic
    lines = settings.important_text().splitlines()
    assert "brokerRole=ASYNC_MASTER" in lines
    assert set(lines) < set(settings.as_text().splitlines())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("flushDiskType=SOMETIMES", "flushDiskType must be ASYNC_FLUSH or SYNC_FLUSH"),
        ("durability=paper", "durability must be memory, write or fsync"),
        ("brokerPermission=9", "brokerPermission must be 0 to 7"),
        ("maxMessageSize=-1", "maxMessageSize must not be negative"),
        ("messageDelayLevel=1s 2x", "messageDelayLevel holds '2x'"),
        ("namesrvAddr=nowhere", "the name server address 'nowhere' is not a host:port"),
        ("namesrvAddr=:9876", "is not a host:port"),
        ("listenPort=x", "listenPort must be a number"),
    ],
)
def test_values_that_make_no_sense(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        BrokerSettings.load(text)


SLAVE = "brokerRole=SLAVE\nbrokerId=1"
FOLLOWING = f"{SLAVE}\nhaMasterAddress=a:1"
SYNC = "brokerRole=SYNC_MASTER"
TLS = "tls.server.certPath=c\ntls.server.keyPath=k\ntls.ha.enable=true"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("brokerRole=MASTER", "brokerRole must be ASYNC_MASTER, SYNC_MASTER or SLAVE"),
        ("brokerRole=SLAVE", "needs a brokerId greater than 0"),
        (SLAVE, "needs namesrvAddr"),
        (f"{FOLLOWING}\ndurability=memory", "durability=write or fsync"),
        (f"{FOLLOWING}\naclEnable=true", "replicationSecretFile"),
        (f"{FOLLOWING}\npromotedBrokerRole=SLAVE",
         "promotedBrokerRole must be ASYNC_MASTER or SYNC_MASTER"),
        (f"{FOLLOWING}\npromoteMaxLag=soon", "promoteMaxLag must be a duration such as 1s, or a"),
        (f"{SYNC}\ndurability=memory", "nothing of it is copied"),
        (f"{SYNC}\naclEnable=true", "replicationSecretFile"),
        *((f"{role}\n{nsq}=127.0.0.1:0", "NSQ's publishes do not wait for a slave")
          for role in (SYNC, f"{FOLLOWING}\npromotedBrokerRole=SYNC_MASTER")
          for nsq in ("nsqTcpAddress", "nsqHttpAddress")),
        ("tls.ha.need.client.auth=want", "tls.ha.need.client.auth must be none or require"),
        ("tls.ha.need.client.auth=require", "needs tls.ha.enable=true"),
        ("tls.ha.enable=true", "needs tls.server.certPath and tls.server.keyPath"),
        (f"{TLS}\ntls.ha.need.client.auth=require", "needs tls.ha.trustCertPath"),
    ],
)  # fmt: skip
def test_values_that_do_not_go_together(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        loaded(text).check()


def test_an_update_is_taken_as_a_whole_or_not_at_all() -> None:
    settings = BrokerSettings()
    with pytest.raises(ConfigError):
        settings.update({"maxMessageSize": "7", "brokerPermission": "9"})
    assert (settings.max_message_size, settings.broker_permission) == (4194304, 6)
    settings.update({"maxMessageSize": "7"})
    assert settings.max_message_size == 7


def test_roles() -> None:
    synced = loaded("brokerRole=SYNC_MASTER\nbrokerId=3")
    assert [warning.split("=")[0] for warning in synced.check()] == ["brokerId"]
    assert synced.is_sync_master
    assert synced.broker_id == 0
    nsq = "nsqTcpAddress=127.0.0.1:0\nnsqHttpAddress=127.0.0.1:0"
    assert loaded(f"brokerRole=ASYNC_MASTER\npromotedBrokerRole=SYNC_MASTER\n{nsq}").check() == []


def test_a_slave_and_what_it_is_once_promoted() -> None:
    slave = loaded("brokerRole=SLAVE\nbrokerId=2\nnamesrvAddr=a:1\nhaListenPort=7")
    assert slave.check() == []
    assert (slave.is_slave, slave.broker_id) == (True, 2)
    master = slave.as_master()
    assert (master.is_slave, master.broker_id, master.ha_listen_port) == (False, 0, 7)
    assert not master.is_sync_master
    slave.update({"promotedBrokerRole": "SYNC_MASTER"})
    assert slave.as_master().is_sync_master


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("", "0.0.0.0:10912"),
        ("listenPort=0", "0.0.0.0:0"),
        ("haListenPort=7\nbindAddress=::1", "[::1]:7"),
        ("durability=memory", ""),
        ("aclEnable=true", ""),
        ("aclEnable=true\nreplicationSecretFile=/s", "0.0.0.0:10912"),
    ],
)
def test_the_port_for_slaves(text: str, address: str) -> None:
    assert loaded(text).ha_address() == address


def test_certificates_shut_the_port_for_slaves_as_a_secret_does(tmp_path: Path) -> None:
    files = Certificates(tmp_path)
    closed = (f"aclEnable=true\ntls.server.mode=enforcing\ntls.server.certPath={files.cert}\n"
              f"tls.server.keyPath={files.key}\n")  # fmt: skip
    assert loaded(closed).ha_address() == ""
    assert loaded(closed).ha_tls() is None
    assert loaded(closed).ha_url("a:1") == "a:1"
    with_secret = loaded(f"{closed}replicationSecretFile=/s")
    assert "slaves copy without TLS" in with_secret.check()[0]
    secured = f"{closed}tls.ha.enable=true\ntls.ha.trustCertPath={files.ca}\n"
    assert loaded(secured).ha_address() == "", "TLS alone lets everybody in"
    assert loaded(secured).ha_tls() is not None
    shut = loaded(f"{secured}tls.ha.need.client.auth=require")
    assert shut.ha_address() == "0.0.0.0:10912"
    assert shut.check() == []
    assert shut.ha_tls() is not None
    assert [shut.ha_url(each) for each in ("", "a:1", "https://a:1")] == [
        "", "https://a:1", "https://a:1",
    ]  # fmt: skip


def test_durability_wins_over_flush_disk_type() -> None:
    assert loaded("").durability_level is Durability.WRITE
    assert loaded("flushDiskType=SYNC_FLUSH\ndurability=memory").durability_level is (
        Durability.MEMORY
    )


def test_name_servers() -> None:
    settings = loaded("namesrvAddr=a.example:1; [::1]:2;a.example:1;")
    assert settings.name_servers() == ["a.example:1", "[::1]:2"]
