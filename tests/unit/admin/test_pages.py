from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.admin.options import AdminOptions
from penstock.admin.pages import PATHS
from penstock.core.errors import ConfigError
from penstock.net.http_client import request

from .conftest import StartAdmin

NODES = ("127.0.0.1:9",)


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
