"""/config/:opt (NSQ spec 2.6)."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from penstock.nsq.nsqd.options import NsqdOptions
from tests.programs.nsq.nsqd.conftest import Running, Start


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("id", b"7"),
        ("log_prefix", b"[nsqd] "),
        ("statsd_address", b""),
        ("statsd_interval", b"60000000000"),
        ("statsd_mem_stats", b"true"),
        ("statsd_udp_packet_size", b"508"),
        ("statsd_exclude_ephemeral", b"false"),
        ("e2e_processing_latency_percentiles", b"[]"),
        ("e2e_processing_latency_window_time", b"600000000000"),
        ("enable_experiment", b"[]"),
        ("metrics", b"false"),
        ("broadcast_address", b"127.0.0.1"),
        ("msg_timeout", b"60000000000"),
        ("snappy", b"true"),
        ("nsqlookupd_tcp_addresses", b"[]"),
        ("log_level", b"2"),
        ("tls_min_version", b"769"),
        ("tls_required", b"0"),
        ("topology_zone", b""),
        ("durability", b"write"),
        ("max_msg_size", b"1048576"),
    ],
)
async def test_look(nsqd: Running, name: str, shown: bytes) -> None:
    assert await nsqd.get(f"/config/{name}") == (200, shown)


async def test_what_was_decided_at_the_start_is_filled_in(start: Start) -> None:
    nsqd = await start()
    port = nsqd.nsqd.ports.http
    assert (await nsqd.get("/config/broadcast_http_port"))[1] == b"%d" % port
    assert (await nsqd.get("/config/broadcast_tcp_port"))[1] == b"%d" % nsqd.nsqd.ports.tcp
    assert (await nsqd.get("/config/statsd_prefix"))[1] == b"nsq.127_0_0_1_%d." % port
    nsqd = await start(data_path=_new(nsqd), broadcast_http_port=9, statsd_prefix="")
    assert (await nsqd.get("/config/broadcast_http_port"))[1] == b"9"
    assert (await nsqd.get("/config/statsd_prefix"))[1] == b""


async def test_percentiles_as_numbers(start: Start) -> None:
    nsqd = await start(e2e_processing_latency_percentiles=(1.0, 0.99, 0.5))
    shown = await nsqd.get("/config/e2e_processing_latency_percentiles")
    assert shown == (200, b"[1,0.99,0.5]")


def _new(nsqd: Running) -> str:
    path = Path(nsqd.nsqd.options.data_path) / "other"
    path.mkdir()
    return str(path)


async def test_every_option_can_be_looked_at(nsqd: Running) -> None:
    hidden = {"version", "config", "verbose", "worker_id"}
    for option in NsqdOptions.declared.values():
        if option.name not in hidden:
            assert (await nsqd.get(f"/config/{option.key}"))[0] == 200, option.key


@pytest.mark.parametrize("name", ["nothing", "node_id", "max-msg-size", "ID", "verbose"])
async def test_what_is_no_option(nsqd: Running, name: str) -> None:
    assert await nsqd.get(f"/config/{name}") == (400, b'{"message":"INVALID_OPTION"}')


async def test_the_log_level_changes_at_once(nsqd: Running) -> None:
    logger = logging.getLogger("penstock")
    before = logger.level
    try:
        assert await nsqd.http("PUT", "/config/log_level", b"Error") == (200, b"4")
        assert logger.level == logging.ERROR
        assert await nsqd.get("/config/log_level") == (200, b"4")
    finally:
        logger.setLevel(before)


@pytest.mark.parametrize(
    ("name", "body", "status", "code"),
    [
        ("log_level", b"loud", 400, "INVALID_VALUE"),
        ("log_level", b'"info"', 400, "INVALID_VALUE"),
        ("log_level", b"\xff", 400, "INVALID_VALUE"),
        ("log_level", b"", 413, "INVALID_VALUE"),
        ("log_level", b"x" * 101, 413, "INVALID_VALUE"),
        ("nsqlookupd_tcp_addresses", b"{", 400, "INVALID_VALUE"),
        ("nsqlookupd_tcp_addresses", b'"a:1"', 400, "INVALID_VALUE"),
        ("nsqlookupd_tcp_addresses", b"[1]", 400, "INVALID_VALUE"),
        ("max_msg_size", b"5", 400, "INVALID_OPTION"),
        ("nothing", b"5", 400, "INVALID_OPTION"),
    ],
)
async def test_what_cannot_be_set(
    start: Start, name: str, body: bytes, status: int, code: str
) -> None:
    nsqd = await start(max_msg_size=100)
    expected = (status, b'{"message":"%s"}' % code.encode())
    assert await nsqd.http("PUT", f"/config/{name}", body) == expected


async def test_lookupd_addresses_are_set_and_echoed(nsqd: Running) -> None:
    body = json.dumps(["127.0.0.1:1"]).encode()
    path = "/config/nsqlookupd_tcp_addresses"
    assert await nsqd.http("PUT", path, body) == (200, b'["127.0.0.1:1"]')
    assert list(nsqd.nsqd.lookup.peers) == ["127.0.0.1:1"]
    assert await nsqd.http("PUT", path, b"null") == (200, b"null")
    assert nsqd.nsqd.lookup.peers == {}
    assert await nsqd.get(path) == (200, b"[]")
