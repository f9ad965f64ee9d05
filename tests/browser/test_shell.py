"""What all pages have in common."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from .conftest import OpenPage
from .site import Site

PATHS = ("/", "/topics", "/topics/orders", "/topics/orders/billing", "/nodes", "/counter", "/lookup",
         "/groups", "/deadletters", "/deadletters/payments.dead")  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_every_path_has_a_page(page: Page, path: str) -> None:
    answer = page.goto(path)
    assert answer is not None
    assert answer.status == 200


def test_the_base_path(open_page: OpenPage, site: Site) -> None:
    with site.another_admin("--base-path=/nsq") as admin:
        page = open_page(url=f"http://{admin.http}")
        page.goto("/nsq/topics")
