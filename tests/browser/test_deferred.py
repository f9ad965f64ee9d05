"""The tab of a channel's deferred messages: what is next, deliver now, cancel; who may not."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tools.browser.shooting import shoot
from tools.browser.site import Site, ask, until

from .conftest import OpenPage, StartAdmin

STEP_MS = 600_000
NUMBER = 4


def put_off(site: Site, topic: str) -> str:
    """A topic with deferred messages in its channel `c`; the path of the tab."""
    site.make(topic, "c")

    def are_all_put_off() -> bool:
        """What comes while the topic starts waits in the channel; then once more."""
        assert ask(site.nodes[0], "POST", f"/channel/empty?topic={topic}&channel=c")[0] == 200
        for number in range(NUMBER):
            site.publish(topic, b"later %d" % number, defer_ms=(number + 1) * STEP_MS)
        return bool(deferred(site, topic)["count"] == NUMBER)

    until(are_all_put_off)
    return f"/topics/{topic}/c?tab=deferred"


def deferred(site: Site, topic: str) -> dict[str, Any]:
    """What the node tells of them."""
    target = f"/channel/deferred?topic={topic}&channel=c"
    status, answer = ask(site.nodes[0], "GET", target)
    assert status == 200
    return dict(answer)


def bodies(site: Site, topic: str) -> list[str]:
    return [each["body"] for each in deferred(site, topic)["messages"]]


def rows(page: Page) -> Locator:
    return page.locator("tr.message")


def choose(page: Page, *numbers: int) -> None:
    """Checks the boxes of these rows."""
    for number in numbers:
        rows(page).nth(number).get_by_role("checkbox").check()


def press(page: Page, name: str) -> Locator:
    """The dialog that a button opens."""
    page.locator("main").get_by_role("button", name=name, exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    return dialog


def test_the_next_one_stands_first(page: Page) -> None:
    page.goto("/topics/reminders/mailer?tab=deferred")
    expect(page.get_by_text(re.compile(r"\d+ deferred messages on this node"))).to_be_visible()
    row = rows(page).filter(has_text="renew 0")
    expect(row).to_contain_text(re.compile(r"\d+m( \d+s)?"))
    before = row.locator(".opener").inner_text()
    expect(row.locator(".opener")).not_to_have_text(before)  # it counts down
    shoot(page, "deferred", ("light", "dark", "phone"))


def test_order_and_bodies(page: Page, site: Site) -> None:
    page.goto(put_off(site, "def-look"))
    expect(rows(page)).to_have_count(NUMBER)
    texts = [each.inner_text() for each in rows(page).all()]
    assert [f"later {number}" in text for number, text in enumerate(texts)] == [True] * NUMBER
    expect(rows(page).nth(3)).to_contain_text(re.compile(r"39m|40m"))
    rows(page).nth(1).click()
    expect(page.locator(".body-text")).to_have_text("later 1")
    page.get_by_placeholder("Filter this page").fill("later 2")
    expect(rows(page)).to_have_count(1)


def test_delivering_some_now(page: Page, site: Site) -> None:
    page.goto(put_off(site, "def-release"))
    choose(page, 1, 2)
    dialog = press(page, "Deliver 2 now")
    expect(dialog).to_contain_text("Deliver 2 deferred messages now?")
    assert deferred(site, "def-release")["count"] == NUMBER
    dialog.get_by_role("button", name="Deliver now").click()
    expect(page.get_by_text("2 messages released")).to_be_visible()
    assert bodies(site, "def-release") == ["later 0", "later 3"]
    expect(rows(page)).to_have_count(2)
    stats = site.stats("def-release", "c") or {}
    assert (stats["depth"], stats["deferred_count"]) == (2, 2)


def test_cancelling_names_what_is_lost(page: Page, site: Site) -> None:
    page.goto(put_off(site, "def-cancel"))
    choose(page, 0)
    dialog = press(page, "Cancel 1")
    expect(dialog.locator(".losses")).to_contain_text(re.compile("“later 0”, due in (9m|10m)"))
    dialog.get_by_role("button", name="Keep").click()
    expect(dialog).to_have_count(0)
    assert deferred(site, "def-cancel")["count"] == NUMBER
    press(page, "Cancel 1").get_by_role("button", name="Cancel messages").click()
    expect(page.get_by_text("1 message cancelled")).to_be_visible()
    assert bodies(site, "def-cancel") == ["later 1", "later 2", "later 3"]
    assert (site.stats("def-cancel", "c") or {})["depth"] == 0


def test_all_at_once(page: Page, site: Site) -> None:
    page.goto(put_off(site, "def-all"))
    page.get_by_label("Choose all of this page").check()
    expect(page.get_by_role("button", name=f"Cancel {NUMBER}", exact=True)).to_be_visible()
    page.get_by_label("Choose all of this page").uncheck()
    dialog = press(page, f"Cancel all {NUMBER}")
    expect(dialog.locator(".losses li")).to_have_count(NUMBER)
    dialog.get_by_role("button", name="Cancel messages").click()
    expect(page.get_by_text("Nothing is deferred on this node")).to_be_visible()
    assert deferred(site, "def-all")["count"] == 0


def test_what_was_delivered_meanwhile_is_told(page: Page, site: Site) -> None:
    page.goto(put_off(site, "def-gone"))
    choose(page, 0, 1)
    dialog = press(page, "Cancel 2")
    gone = deferred(site, "def-gone")["messages"][0]["id"]
    target = f"/channel/deferred/release?topic=def-gone&channel=c&id={gone}"
    assert ask(site.nodes[0], "POST", target)[0] == 200
    dialog.get_by_role("button", name="Cancel messages").click()
    told = page.get_by_text("1 message cancelled; 1 had been delivered meanwhile")
    expect(told).to_be_visible()


def test_who_is_no_admin_only_looks(
    open_page: OpenPage, site: Site, start_admin: StartAdmin
) -> None:
    path = put_off(site, "def-user")
    page = open_page(url=start_admin("--admin-user=alice"))
    page.goto(path)
    expect(rows(page)).to_have_count(NUMBER)
    expect(page.get_by_role("checkbox")).to_have_count(0)
    expect(page.get_by_role("button", name=re.compile("Deliver|Cancel"))).to_have_count(0)
    alice = open_page(url=page.url.split("/topics")[0],
                      extra_http_headers={"X-Forwarded-User": "alice"})  # fmt: skip
    alice.goto(path)
    expect(alice.get_by_role("button", name=f"Cancel all {NUMBER}")).to_be_visible()


def test_a_refusal_is_shown_and_nothing_done(page: Page, site: Site, watcher: Any) -> None:
    watcher.expect(403)
    page.goto(put_off(site, "def-refused"))
    choose(page, 0)
    page.route("**/api/deferred", lambda route: route.fulfill(
        status=403, json={"message": "FORBIDDEN"}))  # fmt: skip
    dialog = press(page, "Cancel 1")
    dialog.get_by_role("button", name="Cancel messages").click()
    expect(dialog.get_by_role("alert")).to_contain_text("FORBIDDEN")
    assert deferred(site, "def-refused")["count"] == NUMBER
