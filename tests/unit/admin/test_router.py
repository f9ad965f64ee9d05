from __future__ import annotations

import gzip

import pytest

from penstock.admin.router import AdminRouter
from penstock.net.http.server.service import Later, Request, Response, text
from tests.http_heads import parse_head


async def answer(router: AdminRouter, path: str, *headers: str) -> Response:
    head = parse_head("\r\n".join([f"GET {path} HTTP/1.1", "Host: h", *headers, "", ""]).encode())
    route, param = router.resolve("GET", path, b"")
    found = route.handler(Request(head, param, b"", str))
    assert not isinstance(found, Later)
    return found if isinstance(found, Response) else await found


@pytest.fixture
def router() -> AdminRouter:
    async def slow(request: Request) -> Response:
        return text("slow")

    router = AdminRouter("/nsq/admin")
    router.add("GET", "/", lambda request: text("index"))
    router.add("GET", "/quick", lambda request: text("quick"))
    router.add("GET", "/slow", slow)
    return router


async def test_everything_is_under_the_base_path(router: AdminRouter) -> None:
    assert (await answer(router, "/nsq/admin")).body == b"index"
    assert (await answer(router, "/nsq/admin/")).status == 301
    assert (await answer(router, "/nsq/admin/quick")).body == b"quick"
    for outside in ("/", "/quick", "/nsq", "/nsq/adminquick"):
        assert (await answer(router, outside)).status == 404


async def test_without_a_base_path() -> None:
    router = AdminRouter()
    router.add("GET", "/", lambda request: text("index"))
    assert (await answer(router, "/")).body == b"index"


async def test_every_answer_is_compressed_on_demand(router: AdminRouter) -> None:
    for path, body in (("quick", b"quick"), ("slow", b"slow"), ("no", b'{"message":"NOT_FOUND"}')):
        found = (await answer(router, f"/nsq/admin/{path}", "Accept-Encoding: gzip")).body
        assert isinstance(found, bytes)
        assert gzip.decompress(found) == body
