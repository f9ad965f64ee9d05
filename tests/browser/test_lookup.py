"""The page of the nsqlookupds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from penstock.testing.daemons import run_nsqadmin, run_nsqd
from tools.browser.site import PATIENT, Site, ask, until

from .conftest import OpenPage, StartAdmin
from .test_actions import agree

NOWHERE = "127.0.0.1:9"
TOPIC = "left-over"


@pytest.fixture
def left_over(site: Site) -> Iterator[None]:
    """A topic with two channels that no node has."""
    for target in (f"/topic/create?topic={TOPIC}", f"/channel/create?topic={TOPIC}&channel=one",
                   f"/channel/create?topic={TOPIC}&channel=two"):  # fmt: skip
        assert ask(site.lookupd.http, "POST", target)[0] == 200
    yield
    ask(site.lookupd.http, "POST", f"/topic/delete?topic={TOPIC}")


def leaf(page: Page, topic: str) -> Locator:
    """An inactive topic with its channels."""
    link = page.get_by_role("link", name=topic, exact=True)
    return page.locator(".tree > li").filter(has=link)


def test_what_the_nsqlookupds_know(page: Page, site: Site) -> None:
    page.goto("/lookup")
    expect(page.locator("main")).to_contain_text(site.lookupd.http)
    expect(leaf(page, "retired")).to_contain_text("once")
    expect(page.locator(".tree").get_by_text("orders")).to_have_count(0)


def test_deleting_a_channel_and_a_topic(page: Page, site: Site, left_over: None) -> None:
    page.goto("/lookup")
    page.get_by_role("button", name=f"Delete channel one of {TOPIC}").click()
    agree(page.get_by_role("dialog"), "Delete channel")
    expect(leaf(page, TOPIC)).not_to_contain_text("one")
    expect(leaf(page, TOPIC)).to_contain_text("two")
    page.get_by_role("button", name=f"Delete topic {TOPIC}").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("1 channel that a node would create with it: two")
    agree(dialog, "Delete topic")
    expect(leaf(page, TOPIC)).to_have_count(0)
    assert TOPIC not in ask(site.lookupd.http, "GET", "/topics")[1]["topics"]


def test_creating_checks_names_while_one_types(page: Page, site: Site) -> None:
    page.goto("/lookup")
    topic, channel = (page.get_by_role("textbox", name=name) for name in ("Topic", "Channel"))
    create = page.get_by_role("button", name="Create", exact=True)
    expect(create).to_be_disabled()
    for bad in ("not so good", "a/b", "x" * 65, "a#b"):
        topic.fill(bad)
        expect(page.locator("main").get_by_role("alert")).to_be_visible()
        expect(create).to_be_disabled()
    topic.fill("made-by-clicks")
    channel.fill("first#ephemeral")
    expect(page.locator("main").get_by_role("alert")).to_have_count(0)
    create.click()
    expect(leaf(page, "made-by-clicks")).to_contain_text("first#ephemeral")
    assert "made-by-clicks" in ask(site.lookupd.http, "GET", "/topics")[1]["topics"]
    ask(site.lookupd.http, "POST", "/topic/delete?topic=made-by-clicks")


def test_who_may_not_sees_but_has_no_buttons(open_page: OpenPage, start_admin: StartAdmin) -> None:
    page = open_page(url=start_admin("--admin-user=alice"))
    page.goto("/lookup")
    expect(leaf(page, "retired")).to_contain_text("once")
    expect(page.locator("main").get_by_role("button")).to_have_count(0)


def test_an_nsqlookupd_that_does_not_answer(
    open_page: OpenPage, start_admin: StartAdmin, site: Site
) -> None:
    page = open_page(url=start_admin(f"--lookupd-http-address={NOWHERE}"))
    page.goto("/lookup")
    dead = page.locator("li").filter(has_text=NOWHERE)
    expect(dead.get_by_text("no answer")).to_be_visible()
    expect(page.get_by_text("no answer")).to_have_count(1)
    expect(leaf(page, "retired")).to_be_visible()


def test_without_nsqlookupds_topics_are_created_on_the_nodes(open_page: OpenPage) -> None:
    with run_nsqd() as nsqd, run_nsqadmin(*PATIENT, f"--nsqd-http-address={nsqd.http}") as admin:
        page = open_page(url=f"http://{admin.http}")
        page.goto("/lookup")
        expect(page.get_by_text("without an nsqlookupd")).to_be_visible()
        page.get_by_role("textbox", name="Topic").fill("straight")
        page.get_by_role("button", name="Create", exact=True).click()
        expect(page.get_by_text("Topic straight is created.")).to_be_visible()
        stats = "/stats?format=json"
        until(lambda: ask(nsqd.http, "GET", stats)[1]["topics"], "the topic on the node")
        page.goto("about:blank")
