"""Pages that show messages, as axe sees them: light and dark, with dialogs, on a phone."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from .conftest import OpenPage
from .shooting import DESKTOP, PHONE

PAGES = {
    "all nodes": "/topics/orders?tab=messages",
    "one node": "/topics/notes?tab=messages&from=oldest&open=0.1.2",
    "a search": "/topics/notes?tab=messages&q=plain",
    "a topic": "/topics/orders",
    "a channel": "/topics/orders/billing",
    "what a channel needs": "/topics/clicks/archive?tab=messages",
    "deferred": "/topics/reminders/mailer?tab=deferred",
    "dead letters": "/deadletters/payments.dead",
}
DIALOGS = {
    "publish": ("/topics/orders", "Publish"),
    "rewind": ("/topics/clicks/archive", "Rewind"),
    "empty": ("/topics/clicks/archive", "Empty"),
}


def problems(page: Page) -> list[str]:
    """What axe has against the page, a line for each element."""
    found = Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {node['target']} {node['failureSummary']}"
        for each in found
        for node in each["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES.values(), ids=list(PAGES))
def test_a_page(open_page: OpenPage, path: str, scheme: str) -> None:
    page = open_page(color_scheme=scheme)
    page.goto(path)
    expect(page.locator("main table").first).to_be_visible()
    assert problems(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("path", "name"), DIALOGS.values(), ids=list(DIALOGS))
def test_a_dialog(open_page: OpenPage, path: str, name: str, scheme: str) -> None:
    page = open_page(color_scheme=scheme)
    page.goto(path)
    page.locator("main").get_by_role("button", name=name, exact=True).first.click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert problems(page) == []


def test_a_phone(open_page: OpenPage) -> None:
    page = open_page(viewport=PHONE)
    page.goto(PAGES["all nodes"])
    expect(page.locator("tr.message").first).to_be_visible()
    assert problems(page) == []


def test_on_a_phone_a_groups_lag_and_outlook_come_first(open_page: OpenPage) -> None:
    page = open_page(viewport=PHONE)
    page.goto("/groups")
    heads = page.locator("#table-groups thead th")
    expect(heads.nth(0)).to_contain_text("Group")
    expect(heads.nth(1)).to_contain_text("Lag")
    expect(heads.nth(2)).to_contain_text("Caught up")
    page.set_viewport_size(DESKTOP)
    page.reload()
    expect(heads.nth(1)).to_contain_text("Topic")
