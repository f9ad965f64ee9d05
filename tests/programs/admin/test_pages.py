"""The page and its files: settings, policies and escapes."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

from penstock.admin.pages import PATHS
from penstock.admin.verdicts.limits import LIMITS
from penstock.core.errors import ConfigError
from penstock.net.http.client.once import request
from tests.unit.admin.conftest import TIMEOUT_S, Running, StartAdmin

NODES = ("127.0.0.1:9",)


async def page(running: Running, path: str = "/", **headers: str) -> tuple[str, dict[str, str]]:
    url = f"http://127.0.0.1:{running.admin.http_port}{path}"
    answer = await request("GET", url, TIMEOUT_S, headers=headers)
    assert answer.status == 200
    return answer.body.decode(), answer.headers


def settings_of(document: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="settings">(.*?)</script>', document)
    assert found is not None
    settings: dict[str, Any] = json.loads(found[1])
    return settings


async def test_every_path_has_the_page_and_its_files_are_there(admin: StartAdmin) -> None:
    running = await admin(nsqd_http_addresses=NODES, base_path="/x")
    for path in PATHS:
        status, body = await running.ask("GET", "/x" + re.sub(":[a-z]+", "a", path).rstrip("/"))
        assert status == 200
        assert body.startswith("<!doctype html>")
    files = re.findall(r'(?:href|src)="(/x/static/[^"]+)"', body)
    assert {Path(file).suffix for file in files} == {".js", ".css", ".svg"}
    for file in files:
        assert (await running.ask("GET", file))[0] == 200
    for path in ("/x/static/a.js", "/x/fonts/a.woff"):
        assert await running.ask("GET", path) == (404, "NOT_FOUND")


async def test_the_page_is_told_who_looks_at_what(admin: StartAdmin) -> None:
    running = await admin(
        lookupd_http_addresses=NODES, admin_users=("alice",), graphite_url="http://g:8080"
    )
    document, _ = await page(running)
    assert f'"limits":{{"backlog":{LIMITS.backlog},"growth":{LIMITS.growth},' in document
    settings = settings_of(document)
    assert (settings["isAdmin"], settings["basePath"]) == (False, "")
    assert settings["lookupds"] == [*NODES]
    assert settings["graphite"] == {
        "enabled": True, "url": "http://g:8080", "prefix": "nsq.%s", "interval": 60,
        "counterFormat": "stats.counters.%s.count", "gaugeFormat": "stats.gauges.%s",
    }  # fmt: skip
    document, _ = await page(running, **{"X-Forwarded-User": "alice"})
    assert settings_of(document)["isAdmin"] is True


async def test_only_this_server_and_graphite_are_asked(admin: StartAdmin) -> None:
    running = await admin(nsqd_http_addresses=NODES, graphite_url="http://u:p@g:8080/graphite")
    _, headers = await page(running)
    policy = headers["content-security-policy"]
    assert "script-src 'self';" in policy
    assert "img-src 'self' http://g:8080;" in policy
    assert "frame-ancestors 'none'" in policy
    proxied = await admin(nsqd_http_addresses=NODES, graphite_url="http://g", proxy_graphite=True)
    document, headers = await page(proxied)
    assert "img-src 'self';" in headers["content-security-policy"]
    assert settings_of(document)["graphite"]["url"] == ""


async def test_no_option_is_markup(admin: StartAdmin) -> None:
    hostile = "</script><script>alert(1)</script>&\"'"
    running = await admin(
        nsqd_http_addresses=NODES, statsd_prefix=hostile, base_path='/"><b>', graphite_url="x"
    )
    document, _ = await page(running, "/%22%3E%3Cb%3E")
    assert "<script>alert" not in document
    assert "<b>" not in document
    assert settings_of(document)["graphite"]["prefix"] == hostile
    assert html.escape('/"><b>/api/topics') in document


async def test_a_folder_of_ones_own(admin: StartAdmin, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<i>$static</i><s>$head</s>")
    (tmp_path / "a.css").write_text("a")
    running = await admin(nsqd_http_addresses=NODES, dev_static_dir=str(tmp_path))
    assert (await page(running))[0].startswith("<i>/static/dev</i>")
    (tmp_path / "a.css").write_text("b")
    (tmp_path / "index.html").write_text("new")
    assert await running.ask("GET", "/static/dev/a.css") == (200, "b")
    assert (await page(running))[0] == "new"
    with pytest.raises(ConfigError, match=r"--dev-static-dir: .*none.*: No such file"):
        await admin(nsqd_http_addresses=NODES, dev_static_dir=str(tmp_path / "none"))
