"""Heads of requests, parsed in one piece."""

from __future__ import annotations

import httptools

from penstock.net.http.server.head import Head, HeadReader


def parse_head(raw: bytes) -> Head:
    """The head that ``raw`` is; BadRequestError or httptools.HttpParserError when it is not one."""
    reader = HeadReader()
    try:
        reader._parser.feed_data(raw)
    except httptools.HttpParserCallbackError as error:
        raise error.__context__ or error from None
    return reader.head
