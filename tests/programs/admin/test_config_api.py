from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.unit.admin.conftest import Running, StartAdmin, Two


@pytest.fixture(autouse=True)
def _level() -> Iterator[None]:
    log = logging.getLogger("penstock")
    before = log.level
    yield
    log.setLevel(before)


@pytest.fixture
async def running(two: Two, admin: StartAdmin) -> Running:
    return await admin(lookupd_http_addresses=(two.lookupd.address,), admin_users=("alice",))


@pytest.mark.parametrize(
    ("option", "shown"),
    [
        ("log_level", "2"),
        ("base_path", "/"),
        ("graphite_url", ""),
        ("statsd_interval", "60000000000"),
        ("admin_users", '["alice"]'),
        ("nsqd_http_addresses", "[]"),
        ("proxy_graphite", "false"),
    ],
)
async def test_look(running: Running, option: str, shown: str) -> None:
    assert await running.ask("GET", f"/config/{option}") == (200, shown)


@pytest.mark.parametrize("option", ["nosuch", "version", "config", "LOG_LEVEL"])
async def test_options_that_are_none(running: Running, option: str) -> None:
    invalid = (400, '{"message":"INVALID_OPTION"}')
    assert await running.ask("GET", f"/config/{option}") == invalid
    assert await running.ask("PUT", f"/config/{option}", b"x") == invalid


async def test_the_log_level(running: Running) -> None:
    assert await running.ask("PUT", "/config/log_level", b"WARN") == (200, "3")
    assert logging.getLogger("penstock").level == logging.WARNING
    for body in (b"loud", b"\xff", b'"info"'):
        answer = await running.ask("PUT", "/config/log_level", body)
        assert answer == (400, '{"message":"INVALID_VALUE"}')
    for body in (b"", b"x" * ((1 << 20) + 1)):
        answer = await running.ask("PUT", "/config/log_level", body)
        assert answer == (413, '{"message":"INVALID_VALUE"}')


async def test_other_nsqlookupds(running: Running, two: Two) -> None:
    path = "/config/nsqlookupd_http_addresses"
    assert await running.ask("PUT", path, b'["127.0.0.1:9"]') == (200, '["127.0.0.1:9"]')
    assert (await running.ask("GET", "/api/topics"))[0] == 502
    assert await running.ask("PUT", path, b"null") == (200, "null")
    assert await running.ask("GET", path) == (200, "[]")
    assert await running.ask("PUT", path, [two.lookupd.address]) == (
        200, f'["{two.lookupd.address}"]',
    )  # fmt: skip
    assert (await running.get("/api/topics"))["topics"] == ["t"]
    for body in (b"x", b'"x"', b"[1]", b"{}", b"[" * 100_000):
        assert (await running.ask("PUT", path, body))[0] == 400


async def test_from_elsewhere(two: Two, admin: StartAdmin) -> None:
    running = await admin(
        lookupd_http_addresses=(two.lookupd.address,), allow_config_from_cidr="10.0.0.0/8"
    )
    for method in ("GET", "PUT"):
        answer = await running.ask(method, "/config/log_level", b"")
        assert answer == (403, '{"message":"FORBIDDEN"}')


async def test_secrets_of_rocketmq_are_shown_to_nobody(admin: StartAdmin) -> None:
    secret = ("access_key,me", "secret_key,s3cret")
    running = await admin(rocketmq_namesrv_addresses=("127.0.0.1:1",), rocketmq_client_opts=secret)
    status, text = await running.ask("GET", "/config/rocketmq_client_opts")
    assert (status, "s3cret" in text) == (400, False)
    assert await running.get("/config/rocketmq_namesrv_addresses") == ["127.0.0.1:1"]
