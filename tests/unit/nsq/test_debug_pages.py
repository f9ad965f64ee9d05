from __future__ import annotations

import pytest

from penstock.net.http import Request, Response
from penstock.net.http_head import parse_head
from penstock.nsq.debug_pages import add_debug_pages
from penstock.nsq.http_api import NsqRouter


async def page(path: str, method: str = "GET") -> Response:
    router = NsqRouter()
    add_debug_pages(router, index="/debug/pprof/")
    route, _ = router.resolve(method, path, b"")
    found = route.handler(Request(parse_head(b"GET / HTTP/1.0\r\n\r\n"), "", b"", str))
    assert isinstance(found, Response)
    return found


@pytest.mark.parametrize(
    ("path", "contains"),
    [
        ("/debug/pprof/", b'href="/debug/pprof/heap"'),
        ("/debug/pprof/cmdline", b"pytest"),
        ("/debug/pprof/symbol", b"num_symbols"),
        ("/debug/pprof/heap", b"generation 2"),
        ("/debug/pprof/goroutine", b"test_debug_pages.py"),
        ("/debug/pprof/profile", b"Go"),
        ("/debug/pprof/block", b"Go"),
        ("/debug/pprof/threadcreate", b"Go"),
    ],
)
async def test_every_page_answers(path: str, contains: bytes) -> None:
    found = await page(path)
    assert found.status == 200
    assert isinstance(found.body, bytes)
    assert contains in found.body


async def test_the_index_elsewhere_redirects() -> None:
    assert (await page("/debug/pprof")).status == 301
    assert (await page("/debug/pprof/symbol", "POST")).status == 200
