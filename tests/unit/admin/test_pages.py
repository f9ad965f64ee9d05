from __future__ import annotations

from .conftest import StartAdmin


async def test_every_page_says_where_the_api_is(admin: StartAdmin) -> None:
    running = await admin(nsqd_http_addresses=("127.0.0.1:9",), base_path="/x")
    for path in ("", "/topics", "/topics/t", "/topics/t/c", "/nodes", "/nodes/n", "/counter",
                 "/lookup"):  # fmt: skip
        status, body = await running.ask("GET", "/x" + path)
        assert status == 200
        assert '<a href="/x/api/topics">' in body
    for path in ("/x/static/a.js", "/x/fonts/a.woff"):
        assert await running.ask("GET", path) == (404, "NOT_FOUND")
