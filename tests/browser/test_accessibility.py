"""Every page and dialog, as axe sees it; `make test` leaves dark, phones and dialogs out.

RocketMQ's pages are in test_rocketmq.py, which has a cluster for them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import pytest
from playwright.sync_api import Page, expect

from tools.browser.shooting import DESKTOP, PHONE
from tools.browser.site import Site
from tools.browser.watching import Watcher

from .axe import followed, in_all_looks, problems, settled
from .conftest import OpenPage

_TABLE: Final = "table"


class Shown(NamedTuple):
    """A page: its path, where `{node}` is the first node, and what it shows last."""

    path: str
    shown: str = _TABLE


PAGES: Final = {
    "overview": Shown("/"),
    "topics": Shown("/topics"),
    "topics, none found": Shown("/topics?topics.find=nothing-of-this-name", ".empty"),
    "a topic": Shown("/topics/orders"),
    "a topic with groups": Shown("/topics/prices"),
    "all nodes' messages": Shown("/topics/orders?tab=messages"),
    "one node's messages": Shown("/topics/notes?tab=messages&from=oldest&open=0.1.2"),
    "a search": Shown("/topics/notes?tab=messages&q=plain"),
    "no such topic": Shown("/topics/no-such-topic", ".empty"),
    "a channel": Shown("/topics/orders/billing"),
    "a paused channel": Shown("/topics/sensors/alarms"),
    "a channel's messages": Shown("/topics/clicks/archive?tab=messages"),
    "deferred messages": Shown("/topics/reminders/mailer?tab=deferred"),
    "nodes": Shown("/nodes?open={node}"),
    "a node": Shown("/nodes/{node}?open=orders,orders/billing", "tr.detail table"),
    "no such node": Shown("/nodes/127.0.0.1:1", ".empty"),
    "groups": Shown("/groups"),
    "a group on its nodes": Shown("/groups?open=prices%2Ftraders"),
    "pipelines": Shown("/pipelines"),
    "a pipeline": Shown("/pipelines/6a1d2c60-0000-4000-8000-000000000001", "pre.sql"),
    "a failed pipeline": Shown("/pipelines/6a1d2c60-0000-4000-8000-000000000003", ".notice.bad"),
    "dead letters": Shown("/deadletters"),
    "a topic's dead letters": Shown("/deadletters/payments.dead"),
    "lookup": Shown("/lookup", ".tree"),
    "counter": Shown("/counter", ".counter"),
}
_GO_NOWHERE: Final = """
() => {
  history.pushState(null, "", "/no/such/page");
  dispatchEvent(new PopStateEvent("popstate"));
}
"""
WITH_MISSING: Final = {"no such topic": (404, 502), "no such node": (404,)}
"""The statuses that the server answers pages of what is not there."""
DIALOGS: Final = {
    "publish": ("/topics/orders", "Publish"),
    "pause a topic": ("/topics/orders", "Pause"),
    "empty a topic": ("/topics/orders", "Empty"),
    "delete a topic": ("/topics/clicks", "Delete"),
    "tombstone": ("/topics/orders", "Tombstone"),
    "rewind": ("/topics/clicks/archive", "Rewind"),
    "unpause a channel": ("/topics/sensors/alarms", "Unpause"),
    "empty a channel": ("/topics/clicks/archive", "Empty"),
    "delete a channel": ("/topics/clicks/archive", "Delete"),
    "replay": ("/topics/notes?tab=messages&q=plain", "Replay all that match"),
    "forget a topic": ("/lookup", "Delete topic retired"),
    "forget a channel": ("/lookup", "Delete channel once of retired"),
}


def test_every_page(page: Page, site: Site, watcher: Watcher) -> None:
    watcher.expect(*(status for each in WITH_MISSING.values() for status in each))
    found: list[str] = []
    page.goto("/counter")
    for path, shown in PAGES.values():
        found += problems(followed(page, path.format(node=site.nodes[0]), shown))
    page.evaluate(_GO_NOWHERE)
    expect(page.locator("h1")).to_have_text("Not found")
    assert [*found, *problems(page)] == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_in_all_looks(page: Page, site: Site, watcher: Watcher, name: str) -> None:
    watcher.expect(*WITH_MISSING.get(name, ()))
    path, shown = PAGES[name]
    assert in_all_looks(settled(page, path.format(node=site.nodes[0]), shown)) == []


@pytest.mark.parametrize(("path", "name"), DIALOGS.values(), ids=list(DIALOGS))
def test_a_dialog(page: Page, path: str, name: str) -> None:
    page.goto(path)
    page.locator("main").get_by_role("button", name=name, exact=True).first.click()
    check_dialog(page)


def check_dialog(page: Page) -> None:
    """Looks at the dialog that is open, in each theme and at each width."""
    expect(page.get_by_role("dialog")).to_be_visible()
    expect(page.get_by_role("dialog").locator(".loading")).to_have_count(0)
    assert in_all_looks(page) == []


def test_the_dialogs_of_chosen_messages(page: Page) -> None:
    page.goto("/topics/reminders/mailer?tab=deferred")
    page.locator("tbody").get_by_role("checkbox").first.check()
    for name in ("Deliver 1 now", "Cancel 1"):
        page.get_by_role("button", name=name).click()
        check_dialog(page)
        page.keyboard.press("Escape")
    page.goto("/deadletters/payments.dead")
    page.locator("tbody").get_by_role("checkbox").first.check()
    page.get_by_role("button", name="Resend 1").click()
    check_dialog(page)


def test_the_keys_and_the_palette(page: Page) -> None:
    page.goto("/topics")
    expect(page.locator(_TABLE)).to_be_visible()
    page.keyboard.press("?")
    check_dialog(page)
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    expect(page.get_by_role("option", name="orders").first).to_be_visible()
    check_dialog(page)
    page.get_by_role("combobox").fill("no such name anywhere")
    expect(page.get_by_role("option")).to_have_count(0)
    check_dialog(page)


def test_a_link_to_no_page(page: Page) -> None:
    settled(page, "/topics", _TABLE)
    page.evaluate(_GO_NOWHERE)
    expect(page.locator("h1")).to_have_text("Not found")
    assert in_all_looks(page) == []


def test_what_is_told_after_an_action(page: Page, site: Site) -> None:
    site.make("told", "c", bodies=(b"one",))
    page.goto("/topics/told/c")
    page.locator("main").get_by_role("button", name="Pause").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.locator(".toast")).to_be_visible()
    assert in_all_looks(page) == []


def test_a_server_that_is_gone(page: Page, watcher: Watcher) -> None:
    watcher.expect_lost_server()
    settled(page, "/topics", _TABLE)
    page.context.set_offline(True)
    page.keyboard.press("r")
    expect(page.locator(".notice, .notice").first).to_be_visible()
    found = in_all_looks(page)
    page.context.set_offline(False)
    assert found == []


def test_on_a_phone_a_groups_state_lag_and_outlook_come_first(open_page: OpenPage) -> None:
    page = open_page(viewport=PHONE)
    page.goto("/groups")
    heads = page.locator("#table-groups thead th")
    expect(heads.nth(0)).to_contain_text("Group")
    expect(heads.nth(1)).to_contain_text("State")
    expect(heads.nth(2)).to_contain_text("Lag")
    expect(heads.nth(3)).to_contain_text("Caught up")
    page.set_viewport_size(DESKTOP)
    page.reload()
    expect(heads.nth(1)).to_contain_text("Topic")
