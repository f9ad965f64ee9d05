"""The cases of `net/http/server/test_guard.py` that need a port or a process."""

from __future__ import annotations

import asyncio

from penstock.net import tcp
from penstock.net.http.server.service import HttpServer, Request, Response, Router, text


async def test_a_body_of_another_site_is_not_read_and_the_connection_ends() -> None:
    taken: list[bytes] = []

    def take(request: Request) -> Response:
        taken.append(request.body)
        return text("taken")

    router = Router()
    router.add("POST", "/x", take)
    listener = await tcp.listen(HttpServer(router), "127.0.0.1:0", "HTTP")
    try:
        for origin, status in (("h", b"200"), ("e", b"403"), ("h", b"200"), ("e", b"403")):
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            lines = ("POST /x HTTP/1.1", "Host: h", f"Origin: http://{origin}", "Content-Length: 3")
            writer.write("\r\n".join([*lines, "", "abc"]).encode())
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 " + status), answer
            assert (b"Connection: close" in answer) is (status == b"403")
            writer.close()
    finally:
        await listener.close()
    assert taken == [b"abc", b"abc"]
