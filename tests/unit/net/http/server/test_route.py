from __future__ import annotations

from penstock.net.http.server.message import Request, text
from penstock.net.http.server.route import Route


def test_a_route_is_safe_and_told_of_unless_it_says_otherwise() -> None:
    def handler(request: Request) -> object:
        raise AssertionError("nobody asked")

    plain = Route(handler, 10, text("too large", 413))  # type: ignore[arg-type]
    assert (plain.is_safe, plain.quiet, plain.begin) == (True, False, None)
    assert (plain.max_body, plain.too_large.status) == (10, 413)
