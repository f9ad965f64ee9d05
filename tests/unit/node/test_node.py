"""A node from its start to its end, without a port; its data path and its options."""

from __future__ import annotations

import asyncio
import inspect
import socket
from pathlib import Path
from typing import Any, NoReturn

import pytest

from penstock.broker.publish.bounds import Overflow
from penstock.core.errors import ConfigError, LaterFormatError, PenstockError, StorageError
from penstock.core.settings.option_kinds import Choice
from penstock.core.settings.options import load
from penstock.core.units import HOUR, MILLISECOND
from penstock.net.loop import StopRequested
from penstock.node import housekeeping
from penstock.node.dialect import Dialect, LogView, StagingError
from penstock.node.http.log_views import NsqView
from penstock.node.node_options import NodeOptions, default_node_id
from penstock.node.opening import open_node as open_with
from penstock.nsq.nsqd.data_path import open_node
from penstock.nsq.nsqd.nsqd_options import NsqdOptions
from penstock.nsq.protocol.bodies import Bodies
from penstock.nsq.protocol.dead_letters import DeadLetterFrames
from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.broker.log_view import RocketView
from penstock.storage.durability import Durability
from penstock.storage.store import Store
from tests.programs.nsq.nsqd.conftest import TIMEOUT_S, faulty_disk


def options(path: Path | str, **changes: object) -> NsqdOptions:
    return NsqdOptions(data_path=str(path), node_id=7, **changes)


async def test_what_was_published_is_there_again(tmp_path: Path) -> None:
    node = await open_node(options(tmp_path))
    node.start()
    told: list[StorageError | None] = []
    node.commits.publish(node.registry.topic("t"), Bodies.single(b"x"), 0, told.append)
    await node.close()  # which commits what is staged
    assert told == [None]
    again = await open_node(options(tmp_path))
    assert again.broker.topics["t"].log.next_offset == 1
    assert again.health == "OK"
    await again.close()


async def test_nothing_is_deleted_before_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Daemons may keep messages that no channel or group holds, once they are open."""
    monkeypatch.setattr(housekeeping, "TICK_S", 0)
    node = await open_node(options(tmp_path, max_bytes_per_file=1, sync_timeout=MILLISECOND))
    topic = node.registry.topic("t")
    for _ in range(3):
        node.commits.publish(topic, Bodies.single(bytes(100)), 0, lambda error: None)
        await node.commits.settle()
    node.registry.channel(topic, "c").empty()
    for _ in range(100):
        await asyncio.sleep(0)
    assert topic.log.start_offset == 0
    node.start()
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            if topic.log.start_offset:
                break
            await asyncio.sleep(0)
    await node.close()


async def test_publishes_that_wait_for_copies_are_given_up_in_time(tmp_path: Path) -> None:
    node = await open_node(options(tmp_path, replicas_acked=1, replicas_timeout=MILLISECOND))
    node.start()
    assert node.replicas is not None
    topic = node.registry.topic("t")
    told = asyncio.get_running_loop().create_future()
    node.followers.heard("b", {})
    node.commits.publish(topic, Bodies.single(b"x"), 0, told.set_result)
    async with asyncio.timeout(TIMEOUT_S):
        assert str(await told) == "not copied within 0.001 s"
    await node.close()


async def test_a_node_that_needs_a_lease_is_ready_while_it_holds_one(tmp_path: Path) -> None:
    node = await open_node(options(tmp_path, needs_lease=True))
    node.start()
    assert node.lease is not None
    missing = "NOK - this node holds no lease: penstock lease has not renewed it"
    assert (node.vitals.missing(), node.health) == ([missing], "OK")
    node.lease.grant(node.clock.monotonic_ns() + HOUR, ())
    assert node.vitals.missing() == []
    await node.close()


async def test_a_disk_that_fails_shows_in_the_health(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = faulty_disk(monkeypatch)
    node = await open_node(options("/data"))
    topic = node.registry.topic("t")
    disk.fail("append", times=-1)
    node.commits.publish(topic, Bodies.single(b"x"), 0, lambda error: None)
    await node.commits.settle()
    assert node.health.startswith("NOK - ")
    node.start()
    assert node.vitals.missing() == [node.health]
    disk.heal()
    await node.close()


async def test_a_node_that_cannot_write_at_its_end_says_so_and_lets_go(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = faulty_disk(monkeypatch)
    node = await open_node(options("/data"))
    node.registry.topic("t")
    disk.fail("append", times=-1)
    disk.fail("replace", times=-1)
    disk.fail("sync", times=-1)
    await node.close()
    assert "failed to persist metadata - " in caplog.text
    assert "failed to save everything - " in caplog.text
    disk.heal()
    again = await open_node(options("/data"))
    assert list(again.broker.topics) == ["t"]
    await again.close()


# --- Opening a data path for the daemons over it -------------------------------------------------


def as_it_is(store: Store) -> None:
    """Prepare nothing."""


async def test_names_of_other_dialects_stay_out_of_nsqs_file(tmp_path: Path) -> None:
    node = await open_with(NodeOptions(data_path=str(tmp_path)), as_it_is, DeadLetterFrames)
    node.registry.topic("%RETRY%g")
    node.registry.topic("t")
    await node.close()
    text = (tmp_path / "nsqd.dat").read_text()
    assert '"t"' in text
    assert "RETRY" not in text


async def test_a_file_that_is_none_lets_go_of_the_data_path(tmp_path: Path) -> None:
    options = NodeOptions(data_path=str(tmp_path))
    (tmp_path / "nsqd.dat").write_text("{")
    with pytest.raises(PenstockError, match=r"^failed to load metadata - ") as refused:
        await open_with(options, as_it_is, DeadLetterFrames)
    assert not isinstance(refused.value, ConfigError)  # its text needs no words before it
    (tmp_path / "nsqd.dat").unlink()
    await (await open_with(options, as_it_is, DeadLetterFrames)).close()


async def test_a_store_that_is_refused_is_let_go(tmp_path: Path) -> None:
    def refuse(store: Store) -> NoReturn:
        raise ConfigError("not this one")

    options = NodeOptions(data_path=str(tmp_path))
    with pytest.raises(ConfigError, match="not this one"):
        await open_with(options, refuse, DeadLetterFrames)
    assert not (tmp_path / "nsqd.dat").exists()
    await (await open_with(options, as_it_is, DeadLetterFrames)).close()


async def test_a_data_path_in_use_is_named(tmp_path: Path) -> None:
    options = NodeOptions(data_path=str(tmp_path))
    node = await open_with(options, as_it_is, DeadLetterFrames)
    with pytest.raises(ConfigError, match=r"^failed to lock data-path: "):
        await open_with(options, as_it_is, DeadLetterFrames)
    await node.close()


@pytest.mark.parametrize("reason", [LaterFormatError("version 9"), StopRequested()])
async def test_a_start_that_ends_early_lets_go_of_the_data_path(
    tmp_path: Path, reason: Exception
) -> None:
    def end(store: Store) -> NoReturn:
        raise reason

    options = NodeOptions(data_path=str(tmp_path))
    with pytest.raises(type(reason)):
        await open_with(options, end, DeadLetterFrames)
    await (await open_with(options, as_it_is, DeadLetterFrames)).close()


async def test_a_data_path_of_a_later_version_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "ids.json").write_text('{"version": 9}')
    with pytest.raises(LaterFormatError):
        await open_with(NodeOptions(data_path=str(tmp_path)), as_it_is, DeadLetterFrames)
    assert not (tmp_path / "nsqd.dat").exists()


def parse(*argv: str) -> NodeOptions:
    return load(NodeOptions, argv, "a daemon")


@pytest.mark.parametrize("level", list(Durability))
def test_durability(level: Durability) -> None:
    assert parse(f"--durability={level.value.upper()}").durability is level
    kind = Choice(Durability, "durability", "level")
    assert kind.from_config(level.value) is level
    assert kind.show(level) == level.value


def test_an_unknown_durability_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse("--durability=hope")
    assert ended.value.code == 2
    assert "unknown durability 'hope' (memory, write, fsync)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"node_id": 1024}, "--node-id must be [0,1024)"),
        ({"node_id": -1}, "--node-id must be [0,1024)"),
        (
            {"e2e_processing_latency_percentiles": (0.5, 1.5)},
            "invalid E2E processing latency percentile: 1.5",
        ),
        ({"sync_timeout": 0}, "--sync-timeout must be greater than 0"),
        ({"max_attempts": 65536}, "--max-attempts must be [0,65535]"),
        ({"dead_letter_topic": "no name"}, "--dead-letter-topic=no name makes no topic name"),
        ({"group_retention": -1}, "--group-retention must not be negative"),
        ({"max_depth": -1}, "--max-depth and --max-bytes must not be negative"),
        (
            {
                "e2e_processing_latency_percentiles": (0.5,),
                "e2e_processing_latency_window_time": 0,
            },
            "--e2e-processing-latency-window-time must be greater than 0",
        ),
        (
            {"follow": "a:4151", "durability": Durability.MEMORY},
            "--follow needs --durability=write or fsync",
        ),
        (
            {"replicas_acked": -1},
            "--replicas-acked must not be negative, --replicas-timeout not 0",
        ),
        (
            {"replicas_acked": 1, "durability": Durability.MEMORY},
            "--replicas-acked needs --durability=write or fsync",
        ),
        ({"promote_hook_timeout": 0}, "--promote-hook-timeout must be greater than 0"),
    ],
)
def test_values_that_cannot_work_are_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        NodeOptions(**changes).check()
    assert str(refused.value) == text


def test_the_node_id_comes_from_the_host_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "localhost")
    assert default_node_id() == 16


@pytest.mark.parametrize("policy", list(Overflow))
def test_overflow(policy: Overflow) -> None:
    assert parse(f"--overflow={policy.value}").overflow is policy
    kind = Choice(Overflow, "overflow policy", "policy")
    assert kind.from_config(policy.value) is policy
    assert kind.show(policy) == policy.value


def test_an_unknown_overflow_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse("--overflow=burn")
    assert ended.value.code == 2
    assert "unknown overflow policy 'burn' (refuse, drop-oldest)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("protocol", "implementation"),
    [(LogView, NsqView), (LogView, RocketView), (Dialect, RocketBroker)],
)
def test_each_dialect_offers_what_the_others_ask_for(protocol: type, implementation: type) -> None:
    wanted = {name: value for name, value in vars(protocol).items()
              if inspect.isfunction(value) and not name.startswith("_")}  # fmt: skip
    assert wanted
    for name, value in wanted.items():
        offered = inspect.signature(getattr(implementation, name)).parameters
        assert list(offered) == list(inspect.signature(value).parameters), name


def test_a_refused_chunk_says_why_as_far_as_there_is_more_to_say() -> None:
    refused = StagingError("MSG_TOO_BIG", "message 3 has 9 bytes")
    assert (refused.code, refused.text) == ("MSG_TOO_BIG", "message 3 has 9 bytes")
    assert str(refused) == "MSG_TOO_BIG: message 3 has 9 bytes"
    assert str(StagingError("INVALID_TOPIC")) == "INVALID_TOPIC"
