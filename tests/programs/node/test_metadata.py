"""A node's files and ports: nsqd.dat (NSQ spec 3.5), and which ports are open."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import ConfigError, PenstockError
from penstock.core.units import MILLISECOND
from penstock.net.http.server.router import Router
from penstock.net.http.server.service import HttpServer
from penstock.net.tcp import ListenError
from penstock.node import metadata, opening
from penstock.node.metadata import FILE_NAME
from penstock.node.ports import Ports, check_ports, server_tls
from penstock.nsq.nsqd.nsqd_options import NsqdOptions
from penstock.testing.disk import FaultyDisk
from tests import nsqds
from tests.programs.nsq.nsqd.conftest import Running, Start, faulty_disk, options


def content(path: Path) -> Any:
    return json.loads((path / FILE_NAME).read_text())


async def test_a_fresh_start_writes_the_file(start: Start, tmp_path: Path) -> None:
    await start()
    assert (tmp_path / FILE_NAME).read_bytes() == b'{"topics":[],"version":"1.3.0"}'
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600
    assert sorted(os.listdir(tmp_path)) == [FILE_NAME]


async def test_topics_and_channels_without_the_ephemeral_ones(start: Start, tmp_path: Path) -> None:
    nsqd = await start()
    for name in ("t", "u", "e%23ephemeral"):
        assert (await nsqd.post(f"/topic/create?topic={name}"))[0] == 200
    for name in ("c", "d%23ephemeral"):
        assert (await nsqd.post(f"/channel/create?topic=t&channel={name}"))[0] == 200
    await nsqd.until(lambda: len(content(tmp_path)["topics"]) == 2)
    await nsqd.until(lambda: bool(content(tmp_path)["topics"][0]["channels"]))
    assert (tmp_path / FILE_NAME).read_text() == (
        '{"topics":[{"name":"t","paused":false,"channels":[{"name":"c","paused":false}]},'
        '{"name":"u","paused":false,"channels":[]}],"version":"1.3.0"}'
    )


async def test_a_pause_is_written_before_its_answer(start: Start, tmp_path: Path) -> None:
    nsqd = await start()
    await nsqd.post("/topic/create?topic=t")
    await nsqd.post("/channel/create?topic=t&channel=c")
    await nsqd.post("/topic/pause?topic=t")
    assert content(tmp_path)["topics"][0]["paused"]
    await nsqd.post("/channel/pause?topic=t&channel=c")
    assert content(tmp_path)["topics"][0]["channels"][0]["paused"]
    await nsqd.post("/channel/unpause?topic=t&channel=c")
    assert not content(tmp_path)["topics"][0]["channels"][0]["paused"]


async def test_a_pause_that_cannot_be_written_is_told(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = faulty_disk(monkeypatch)
    nsqd = await start(data_path="/data")
    await nsqd.post("/topic/create?topic=t")
    disk.fail("replace", within=FILE_NAME, times=-1)
    assert await nsqd.post("/topic/pause?topic=t") == (500, b'{"message":"INTERNAL_ERROR"}')
    disk.heal()


@pytest.mark.parametrize("within", [FILE_NAME, "journal"])
async def test_a_pause_that_could_not_be_written_is_written_later(
    start: Start,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    within: str,
) -> None:
    """It is in effect all the same, so a kill must not end it hours after the disk was full."""
    monkeypatch.setattr(metadata, "RETRY_NS", MILLISECOND)
    disk = faulty_disk(monkeypatch)
    nsqd = await start(data_path="/data")
    await nsqd.post("/topic/create?topic=t")
    for operation in ("append", "replace"):
        disk.fail(operation, within=within, times=-1)
    assert (await nsqd.post("/topic/pause?topic=t"))[0] == 500
    if within == FILE_NAME:
        await nsqd.until(lambda: "failed to persist metadata" in caplog.text)
    disk.heal()
    await nsqd.until(lambda: b'"paused":true' in disk.content(f"/data/{FILE_NAME}"))


@pytest.mark.parametrize("empty", ["null", "[]", None])
async def test_the_file_makes_topics_and_channels(
    start: Start, tmp_path: Path, empty: str | None
) -> None:
    none = "" if empty is None else f',"channels":{empty}'
    (tmp_path / FILE_NAME).write_text(
        '{"topics":[{"name":"t","paused":true,"channels":[{"name":"c","paused":true},'
        '{"name":"d"}]},{"name":"u"' + none + '}],"version":"1.2.0"}'
    )
    topics = (await start()).nsqd.node.broker.topics
    assert list(topics) == ["t", "u"]
    assert (topics["t"].paused, topics["u"].paused) == (True, False)
    assert {name: c.paused for name, c in topics["t"].channels.items()} == {"c": True, "d": False}
    assert topics["u"].channels == {}


async def test_invalid_names_are_skipped_with_a_warning(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE_NAME).write_text(
        '{"topics":[{"name":"../x"},{"name":"t","channels":[{"name":"b c"},{"name":"c"}]}]}'
    )
    topics = (await start()).nsqd.node.broker.topics
    assert list(topics) == ["t"]
    assert list(topics["t"].channels) == ["c"]
    assert "skipping creation of invalid topic ../x" in caplog.text
    assert "skipping creation of invalid channel b c" in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"topics":5}',
        '{"topics":["t"]}',
        '{"topics":[{}]}',
        '{"topics":[{"name":5}]}',
        '{"topics":[{"name":"t","channels":[7]}]}',
        '{"topics":[{"name":"t","channels":[{"name":null}]}]}',
        "[" * 100_000,
        "\udcff",
    ],
)
async def test_a_file_that_is_none_stops_the_start_and_stays(tmp_path: Path, text: str) -> None:
    path = tmp_path / FILE_NAME
    data = text.encode("utf-8", "surrogateescape")
    path.write_bytes(data)
    with pytest.raises(PenstockError) as refused:
        await nsqds.start(options(tmp_path))
    start = f"failed to load metadata - failed to parse metadata in {path} - "
    assert str(refused.value).startswith(start)
    assert path.read_bytes() == data  # for whoever mends it


async def test_what_happens_meanwhile_is_written_once(start: Start, tmp_path: Path) -> None:
    nsqd = await start()
    before = (tmp_path / FILE_NAME).stat().st_ino
    for number in range(20):
        nsqd.nsqd.node.registry.topic(f"t{number}")
    await nsqd.until(lambda: len(content(tmp_path)["topics"]) == 20)
    await asyncio.sleep(0.1)
    assert (tmp_path / FILE_NAME).stat().st_ino != before


async def test_what_an_answer_has_waited_for_is_not_written_again(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    nsqd = await start()
    await nsqd.post("/topic/create?topic=t")
    await nsqd.post("/channel/create?topic=t&channel=c")
    assert (await nsqd.post("/channel/delete?topic=t&channel=c"))[0] == 200
    written = caplog.text.count("NSQ: persisting")
    await asyncio.sleep(3 * metadata._COALESCE_S)
    assert caplog.text.count("NSQ: persisting") == written


async def test_trouble_with_the_file_ends_nothing(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = faulty_disk(monkeypatch)
    nsqd = await start(data_path="/data")
    disk.fail("replace", within=FILE_NAME, times=-1)
    await nsqd.publish("t", b"x")
    await nsqd.until(lambda: "failed to persist metadata" in caplog.text)
    await nsqd.stop()  # the messages are saved all the same
    disk.heal()
    again = await start(data_path="/data")
    assert (await again.topic("t"))["depth"] == 1


async def test_an_unwritable_data_path_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = faulty_disk(monkeypatch)
    disk.fail("replace", within=FILE_NAME, times=-1)
    with pytest.raises(PenstockError, match="failed to persist metadata - "):
        await nsqds.start(options("/data"))


async def killed_when_full(start: Start, monkeypatch: pytest.MonkeyPatch, room: int) -> FaultyDisk:
    """A disk that is full, of an nsqd that was killed with two messages."""
    disk = faulty_disk(monkeypatch)
    nsqd = await start(data_path="/data")
    for path in ("/topic/create?topic=t", "/channel/create?topic=t&channel=c"):
        assert (await nsqd.post(path))[0] == 200
    await nsqd.publish("t", b"1", b"2")
    await nsqd.until(lambda: b'"c"' in disk.content(f"/data/{FILE_NAME}"))
    disk.fill(room)
    assert await nsqd.post("/pub?topic=t", bytes(100)) == (503, b'{"message":"DISK_FULL"}')
    assert (await nsqd.post("/topic/create?topic=new"))[0] == 503
    left = deepcopy(disk)  # by a kill
    left.crash("written")
    left.fill(room)
    disk.heal()
    await nsqd.stop()
    monkeypatch.setattr(opening, "PatientDisk", lambda: left)
    return left


@pytest.mark.parametrize("room", [0, 50], ids=["no byte", "a few"])
async def test_a_node_that_was_killed_on_a_full_disk_serves_its_consumers(
    start: Start, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """A few bytes are enough for the ids of a new topic, and no more."""
    disk = await killed_when_full(start, monkeypatch, room)
    nsqd = await start(data_path="/data")
    assert (await nsqd.channel("t"))["depth"] == 2
    client = await nsqd.connect()
    assert await client.ask(b"SUB t c\n") == b"OK"
    client.send(b"RDY 2\n")
    assert [(await client.message()).body for _ in range(2)] == [b"1", b"2"]
    topics = (await nsqd.json("/stats?format=json"))["topics"]
    assert [each["topic_name"] for each in topics] == ["t"], "the other was refused"
    disk.heal()
    await nsqd.until(lambda: publishes(nsqd))


async def publishes(nsqd: Running) -> bool:
    return (await nsqd.post("/pub?topic=t", bytes(100)))[0] == 200


async def test_a_file_that_is_right_is_not_written(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = faulty_disk(monkeypatch)
    nsqd = await start(data_path="/data")
    await nsqd.post("/topic/create?topic=t")
    await nsqd.stop()
    disk.fail("replace", within=FILE_NAME, times=-1)
    nsqd = await start(data_path="/data")
    assert (await nsqd.post("/topic/pause?topic=t"))[0] == 500, "now it has to be"
    disk.heal()


async def test_a_file_that_has_to_change_is_written_once_there_is_room(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As after an upgrade, which the file names."""
    monkeypatch.setattr(metadata, "RETRY_NS", MILLISECOND)
    disk = await killed_when_full(start, monkeypatch, 0)
    path = f"/data/{FILE_NAME}"
    changed = disk.content(path).replace(b"1.3.0", b"1.2.1")
    disk.cut(path, 0)
    disk.overwrite(path, changed)
    nsqd = await start(data_path="/data")
    assert (await nsqd.channel("t"))["depth"] == 2
    assert f"failed to persist metadata - {path}: No space left on device" in caplog.text
    disk.heal()
    await nsqd.until(lambda: b"1.3.0" in disk.content(path))


async def test_a_full_disk_with_nothing_on_it_is_no_data_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    faulty_disk(monkeypatch).fill()
    with pytest.raises(PenstockError, match="failed to persist metadata - /data/nsqd"):
        await nsqds.start(options("/data"))


def port_options(**changes: object) -> NsqdOptions:
    return NsqdOptions(**{"tcp_address": "", "http_address": "", "https_address": "", **changes})


async def test_ports_without_an_address_stay_closed() -> None:
    ports = Ports(port_options())
    await ports.open(asyncio.Protocol, asyncio.Protocol, asyncio.Protocol)
    assert (ports.tcp, ports.http, ports.https) == (0, 0, 0)
    assert (ports.broadcast_tcp, ports.broadcast_http) == (0, 0)
    await ports.close()


async def test_others_are_told_the_real_port_or_the_one_of_the_options() -> None:
    ports = Ports(port_options(tcp_address="127.0.0.1:0", http_address="127.0.0.1:0",
                          broadcast_http_port=4444))  # fmt: skip
    await ports.open(asyncio.Protocol, asyncio.Protocol, None)
    assert ports.broadcast_tcp == ports.tcp > 0
    assert ports.broadcast_http == 4444 != ports.http
    await ports.close()


async def test_closing_also_closes_those_that_were_open_before_a_failure() -> None:
    taken = Ports(port_options(tcp_address="127.0.0.1:0"))
    await taken.open(asyncio.Protocol, asyncio.Protocol, None)
    ports = Ports(port_options(tcp_address="127.0.0.1:0", http_address=f"127.0.0.1:{taken.tcp}"))
    with pytest.raises(ListenError):
        await ports.open(asyncio.Protocol, asyncio.Protocol, None)
    await ports.close()
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", ports.tcp)
    await taken.close()


async def test_taken_ports_are_seen_before_any_is_opened() -> None:
    taken = Ports(port_options(tcp_address="127.0.0.1:0"))
    await taken.open(asyncio.Protocol, asyncio.Protocol, None)
    address = f"127.0.0.1:{taken.tcp}"
    with pytest.raises(ListenError):
        check_ports(port_options(http_address=address))
    with pytest.raises(ListenError):
        check_ports(port_options(https_address=address, tls_cert="cert.pem"))
    check_ports(port_options(https_address=address))  # without a certificate it is not opened
    await taken.close()


async def test_the_port_for_followers_is_open_by_itself() -> None:
    ports = Ports(port_options(), "127.0.0.1:0")
    assert ports.replication == 0
    await ports.open_replication(HttpServer(Router()))
    assert ports.replication > 0
    assert not ports.is_replication_secure
    await ports.close()


async def test_ports_that_the_system_chose_are_kept() -> None:
    chosen = port_options(tcp_address="127.0.0.1:0", broadcast_tcp_port=4444)
    ports = Ports(chosen)
    await ports.open(asyncio.Protocol, asyncio.Protocol, None)
    kept, number = ports.kept(chosen), ports.tcp
    await ports.close()
    assert kept.tcp_address == f"127.0.0.1:{number}"
    assert Ports(kept).kept(kept) is kept


def test_a_certificate_needs_its_key_and_a_key_its_certificate() -> None:
    assert server_tls(port_options()) is None
    with pytest.raises(ConfigError, match="--tls-key is missing beside --tls-cert"):
        server_tls(port_options(tls_cert="cert.pem"))
    with pytest.raises(ConfigError, match="--tls-cert is missing beside --tls-key"):
        server_tls(port_options(tls_key="key.pem"))
    with pytest.raises(ConfigError, match="/nope"):
        server_tls(port_options(tls_cert="/nope", tls_key="/nope"))
