"""The pages' paths. There are no pages yet: each says so, and where the API is."""

from __future__ import annotations

import html

from penstock.admin.router import AdminRouter
from penstock.net.http import Request, Response
from penstock.nsq.http_api import plain_response

_PATHS = ("/", "/topics", "/topics/:topic", "/topics/:topic/:channel", "/nodes", "/nodes/:node",
          "/counter", "/lookup")  # fmt: skip


def add_pages(router: AdminRouter) -> None:
    """Routes every path that has a page in nsqadmin, and those of the pages' files."""
    page = _page(router.under_base("/api/topics"))
    for path in _PATHS:
        router.add("GET", path, lambda request: page)
    for path in ("/static/:asset", "/fonts/:asset"):
        router.add("GET", path, _no_asset)


def _page(api: str) -> Response:
    link = f'<a href="{html.escape(api)}">{html.escape(api)}</a>'
    text = (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>nsqadmin</title>\n'
        f"<p>nsqadmin has no pages yet; its HTTP API is at {link}.</p>\n</html>\n"
    )
    return Response(200, text.encode(), "text/html")


def _no_asset(request: Request) -> Response:
    return plain_response("NOT_FOUND", 404)
