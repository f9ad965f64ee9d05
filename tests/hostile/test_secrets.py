"""Passwords that daemons and tools are given are visible in no answer of a port and in no log."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import pytest

from penstock.net.http.client.once import request
from penstock.testing.daemons import Daemon, run_nsqadmin, run_nsqd
from tools.harness.patience import PATIENT
from tools.replay.connection import Connection

PASSWORD = "hunter2"
SECONDS = 60.0
URL = f"http://user:{PASSWORD}@127.0.0.1:1/x?token={PASSWORD}"
ADDRESS = f"user:{PASSWORD}@127.0.0.1:1"
HIDDEN = "http://user:***@127.0.0.1:1/x?token=***"


def page(daemon: Daemon, path: str) -> str:
    """The body of the answer to a GET, which must succeed."""
    answer = asyncio.run(request("GET", f"http://{daemon.http}{path}", SECONDS))
    assert answer.status == 200, answer.body
    return answer.body.decode()


def status(method: str, daemon: Daemon, path: str, body: bytes = b"") -> int:
    """The status of an answer."""
    return asyncio.run(request(method, f"http://{daemon.http}{path}", SECONDS, body=body)).status


def test_nsqd_shows_no_password_of_its_auth_servers() -> None:
    addresses = (URL, ADDRESS)
    with run_nsqd(*(f"--auth-http-address={each}" for each in addresses)) as nsqd:
        shown = json.loads(page(nsqd, "/config/auth_http_addresses"))
        assert shown == [HIDDEN, "user:***@127.0.0.1:1"]
        words = page(nsqd, "/debug/pprof/cmdline").split("\0")
        assert f"--auth-http-address={HIDDEN}" in words
        assert "--auth-http-address=user:***@127.0.0.1:1" in words
        asyncio.run(refused(nsqd))
        assert nsqd.stop() == 0
        log = nsqd.log()
    assert f"failed to auth against {HIDDEN} - " in log
    assert PASSWORD not in log


async def refused(nsqd: Daemon) -> None:
    """Send AUTH with a secret while no auth server answers."""
    client = await Connection.open(nsqd.tcp_port)
    await client.send(b"  V2AUTH\n\x00\x00\x00\x07hunter2")
    assert b"E_AUTH_FAILED" in (await client.frame())[1]
    client.close()


def test_nsqadmin_shows_no_password_of_graphite_nor_of_whom_it_notifies() -> None:
    graphite = f"http://user:{PASSWORD}@127.0.0.1:1/graphite"
    urls = (f"--graphite-url={graphite}", f"--notification-http-endpoint={URL}", *PATIENT)
    with run_nsqd() as nsqd, run_nsqadmin(f"--nsqd-http-address={nsqd.http}", *urls) as admin:
        assert page(admin, "/config/graphite_url") == "http://user:***@127.0.0.1:1/graphite"
        assert page(admin, "/config/notification_http_endpoint") == HIDDEN
        document = page(admin, "/")
        assert status("POST", admin, "/api/topics", b'{"topic": "t"}') == 200
        assert status("GET", admin, "/api/graphite?metric=rate&target=t") == 500
        admin.wait_for("failed to POST notification")
        assert admin.stop() == 0
        log = admin.log()
    assert '"url":"http://127.0.0.1:1/graphite"' in document
    assert "GRAPHITE: http://user:***@127.0.0.1:1/graphite/render" in log
    assert f"POSTing notification to {HIDDEN}" in log
    assert f"failed to POST notification - POST {HIDDEN}: " in log
    assert PASSWORD not in log + document


@pytest.mark.parametrize(
    ("tool", "flags"),
    [
        ("nsq_tail", ["--topic=t", f"--lookupd-http-address={URL}"]),
        ("nsq_tail", [f"--consumer-opt=auth_secret={PASSWORD}"]),
        ("nsq_stat", ["--topic=t", "--channel=c", f"--lookupd-http-address={ADDRESS}"]),
        ("nsq_to_http", ["--topic=t", f"--nsqd-tcp-address={ADDRESS}", f"--post={URL}"]),
    ],
)
def test_what_a_tool_complains_of_has_no_password(tool: str, flags: list[str]) -> None:
    words = [sys.executable, "-m", f"penstock.cli.{tool}", *flags]
    lines = []
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            lines.append(line)
            if "127.0.0.1:1" in line or "auth_secret" in line:
                process.terminate()
    said = "".join(lines)
    assert "***" in said or "user" not in said, "a user is shown with stars, or not at all"
    assert PASSWORD not in said
