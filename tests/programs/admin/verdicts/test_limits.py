from __future__ import annotations

from penstock.admin.verdicts.limits import LIMITS
from tests.unit.admin.conftest import StartAdmin


async def test_the_pages_show_them(admin: StartAdmin) -> None:
    running = await admin(nsqd_http_addresses=("127.0.0.1:9",))
    _, page = await running.ask("GET", "/")
    assert f'"limits":{{"backlog":{LIMITS.backlog},"growth":{LIMITS.growth},' in page
