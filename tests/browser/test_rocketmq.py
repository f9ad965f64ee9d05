"""RocketMQ's pages, over a name server and a broker of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from penstock.testing.daemons import run_nsqadmin
from tests.rocketmq_shop import DEAD_LETTERS, MESSAGES, TOPIC, Shop, running_shop

from .conftest import OpenPage
from .shooting import PHONE
from .site import ask, until

_FITS = "() => document.documentElement.scrollWidth <= document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with running_shop() as shop:
        ask(shop.broker.http, "POST", f"/channel/create?topic={TOPIC}&channel=nsq-audit")
        yield shop


@pytest.fixture(scope="module")
def url(shop: Shop) -> Iterator[str]:
    """An nsqadmin over the broker, as a node of NSQ and of RocketMQ."""
    flags = (
        f"--nsqd-http-address={shop.broker.http}",
        f"--rocketmq-namesrv-address={shop.name_server.rocketmq}",
        "--history-interval=1s",
        "--admin-user=alice",
    )
    with run_nsqadmin(*flags) as admin:
        yield f"http://{admin.http}"


@pytest.fixture
def rocket(open_page: OpenPage, url: str) -> Page:
    """A page of an administrator."""
    return open_page(url=url, extra_http_headers={"X-Forwarded-User": "alice"})


def row_of(page: Page, table: str, name: str) -> Locator:
    """The row that begins with a name."""
    head = page.get_by_role("rowheader").filter(has_text=re.compile(rf"(^|\s){re.escape(name)}"))
    return page.locator(f"#table-{table} tbody tr").filter(has=head)


def test_topics_groups_and_servers(rocket: Page, shop: Shop) -> None:
    rocket.goto("/")
    rocket.get_by_role("navigation", name="Pages").get_by_role("link", name="RocketMQ").click()
    expect(row_of(rocket, "topics", TOPIC)).to_contain_text(str(MESSAGES))
    expect(row_of(rocket, "topics", DEAD_LETTERS)).to_contain_text("dead letters")
    expect(rocket.get_by_role("link", name="TBW102")).to_have_count(0)
    rocket.get_by_role("button", name=re.compile("Show .* system topics")).click()
    expect(rocket.get_by_role("link", name="TBW102")).to_be_visible()
    rocket.get_by_role("link", name="Groups").last.click()
    expect(row_of(rocket, "groups", "archive")).to_contain_text("none")
    rocket.get_by_role("link", name="Brokers and name servers").click()
    expect(row_of(rocket, "brokers", "broker-a")).to_contain_text(shop.broker.rocketmq)
    expect(row_of(rocket, "name-servers", shop.name_server.rocketmq)).to_be_visible()
    rocket.set_viewport_size(PHONE)
    rocket.wait_for_function(_FITS)


def test_a_topic_with_readers_of_both_dialects(rocket: Page) -> None:
    rocket.goto(f"/rocketmq/topics/{TOPIC}")
    expect(row_of(rocket, "readers", "billing")).to_contain_text("RocketMQ group")
    expect(row_of(rocket, "readers", "nsq-audit")).to_contain_text("NSQ channel")
    expect(rocket.locator("#table-queues tbody tr")).to_have_count(4)
    expect(row_of(rocket, "producers", "desk")).to_contain_text("python")
    rocket.set_viewport_size(PHONE)
    rocket.wait_for_function(_FITS)


def test_offsets_are_reset_after_a_preview(rocket: Page, shop: Shop) -> None:
    rocket.goto("/rocketmq/groups/archive")
    rocket.get_by_role("button", name="Reset offsets").click()
    dialog = rocket.get_by_role("dialog")
    dialog.get_by_role("button", name="The end").click()
    expect(dialog).to_contain_text(f"{MESSAGES} messages of {TOPIC} are skipped")
    assert shop.committed("archive", 0) == 0
    dialog.get_by_role("button", name="Reset offsets").click()
    expect(rocket.get_by_text("Group archive goes on there.")).to_be_visible()
    until(lambda: shop.committed("archive", 0) == 3)


def test_a_member_and_what_it_holds(rocket: Page) -> None:
    rocket.goto("/rocketmq/groups/billing")
    member = rocket.locator("#table-members tbody tr")
    expect(member).to_contain_text("python")
    client = member.get_by_role("rowheader").inner_text()
    expect(rocket.locator("#table-queues tbody tr").filter(has_text=client)).to_have_count(5)


def test_messages_are_found_by_key_and_stay_text(rocket: Page) -> None:
    rocket.goto(f"/rocketmq/topics/{TOPIC}?tab=messages")
    rows = rocket.locator(".messages tbody tr.message")
    expect(rows).to_have_count(MESSAGES)
    rocket.get_by_role("button", name="Key", exact=True).click()
    rocket.get_by_role("textbox", name="Key").fill("trade-7")
    rocket.get_by_role("button", name="Find").click()
    expect(rows).to_have_count(1)
    rows.get_by_role("button").click()
    panel = rocket.locator(".message-panel")
    expect(panel).to_contain_text("north")
    expect(panel).to_contain_text("<b>tea</b>")
    rocket.reload()
    expect(panel).to_contain_text("trade-7")


def test_letters_open_and_are_sent_again(rocket: Page, shop: Shop) -> None:
    rocket.goto("/topics")
    rocket.get_by_role("link", name=DEAD_LETTERS).click()
    expect(rocket.locator("h1")).to_contain_text(DEAD_LETTERS)
    rocket.get_by_role("link", name="Messages").click()
    before = len(shop.refused)
    rocket.get_by_role("checkbox", name=re.compile("Choose [0-9A-F]")).first.check()
    rocket.get_by_role("button", name="Send 1 message again").click()
    dialog = rocket.get_by_role("dialog")
    expect(dialog).to_contain_text("group failing alone")
    dialog.get_by_role("button", name="Send again").click()
    expect(rocket.get_by_text("1 message sent.")).to_be_visible()
    until(lambda: len(shop.refused) > before)


def test_who_may_only_look_has_no_buttons(open_page: OpenPage, url: str) -> None:
    page = open_page(url=url)
    page.goto("/rocketmq/groups/billing")
    expect(page.locator("#table-members tbody tr")).to_have_count(1)
    expect(page.get_by_role("button", name="Reset offsets")).to_have_count(0)


def test_over_rocketmq_alone(open_page: OpenPage, shop: Shop) -> None:
    with run_nsqadmin(f"--rocketmq-namesrv-address={shop.name_server.rocketmq}") as admin:
        page = open_page(url=f"http://{admin.http}")
        page.goto("/")
        expect(row_of(page, "topics", TOPIC)).to_be_visible()
        links = page.get_by_role("navigation", name="Pages").get_by_role("link")
        expect(links).to_have_text(["RocketMQ"])
        page.keyboard.press("/")
        page.get_by_role("combobox").fill("billing")
        expect(page.get_by_role("option").filter(has_text="RocketMQ group")).to_be_visible()
        page.goto("about:blank")
