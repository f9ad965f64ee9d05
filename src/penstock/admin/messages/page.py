"""A page of messages as the API hands it on."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from penstock.cluster.fanout import Warnings
from penstock.nsq.page import Page


def shown(page: Page, warnings: Warnings, **where: str) -> dict[str, Any]:
    """The answer of the API: from where, the page, the warnings."""
    counted = {} if page.count is UNSET else {"count": page.count}
    return {
        **where,
        **counted,
        "messages": page.messages,
        "next": page.next,
        "message": warnings.message,
    }
