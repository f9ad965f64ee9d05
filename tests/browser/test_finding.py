"""A topic's messages over all nodes: by time, found, replayed; a channel rewound; one published."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Locator, Page, expect

from penstock.testing.daemons import run_nsqadmin
from tools.browser.shooting import FITS, PHONE, shoot
from tools.browser.site import PATIENT, Site, ask, until
from tools.browser.watching import Watcher

from .conftest import OpenPage, StartAdmin
from .scripted import scripted

TOPIC = "found-orders"
ORDERS = 40


@pytest.fixture(scope="module")
def orders(site: Site) -> str:
    """The page of 40 orders, published to two nodes in turn, and the channel `bill` on both."""
    for node in (0, 1):
        site.make(TOPIC, "bill", node=node)
    for number in range(ORDERS):
        kind = ("even", "odd")[number % 2]
        body = json.dumps({"id": number, "kind": kind, "customer": {"name": f"Ann {number}"}})
        site.publish(TOPIC, body.encode(), number % 2)
    return f"/topics/{TOPIC}?tab=messages"


def rows(page: Page) -> Locator:
    return page.locator("tr.message")


def numbers(page: Page) -> list[int]:
    """The ids of the orders that are listed, from the top."""
    return [int(found[1]) for each in rows(page).all_inner_texts()
            if (found := re.search(r'"id": (\d+)', each))]  # fmt: skip


def press(page: Page, name: str | re.Pattern[str]) -> Locator:
    """The dialog that a button opens."""
    page.locator("main").get_by_role("button", name=name, exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    return dialog


def look_for(page: Page, kind: str, what: str) -> None:
    page.get_by_label("Search for").select_option(kind)
    page.get_by_label("Condition").fill(what)
    page.locator("main").get_by_role("button", name="Search", exact=True).click()


def depth(site: Site, topic: str, channel: str, node: int = 0) -> int:
    return int((site.stats(topic, channel, node) or {})["depth"])


def bodies(site: Site, topic: str, node: int) -> list[str]:
    """What the log of a node holds; nothing where it has no such topic."""
    status, page = ask(site.nodes[node], "GET", f"/topic/peek?topic={topic}")
    return [each["body"] for each in page["messages"]] if status == 200 else []


# --- all nodes -----------------------------------------------------------------------------------


def test_messages_of_all_nodes_come_by_time(page: Page, site: Site, orders: str) -> None:
    page.goto(orders)
    expect(rows(page)).to_have_count(ORDERS)
    assert numbers(page) == [*range(ORDERS - 1, -1, -1)]
    expect(page.get_by_label("Node")).to_have_value("all")
    for node in site.nodes[:2]:
        expect(rows(page).filter(has_text=node)).to_have_count(ORDERS // 2)
    expect(rows(page).first).to_contain_text("in the channels")
    shoot(page, "topic-messages-all", ("light", "dark", "phone"))
    rows(page).first.click()
    expect(page.locator(".message-panel")).to_contain_text(site.nodes[1])
    page.reload()
    expect(page.locator(".message-panel")).to_contain_text('"name": "Ann 39"')
    page.get_by_role("button", name="Oldest").click()
    expect(rows(page).first).to_contain_text("Ann 0")
    assert numbers(page) == [*range(ORDERS)]


def test_a_time_is_gone_to(page: Page, site: Site, orders: str) -> None:
    answer = site.api(f"/api/messages?topic={TOPIC}&from=oldest&limit=200")
    last = answer["messages"][-1]["timestamp"] // 1_000_000
    page.goto(f"{orders}&from=time:{last}")
    expect(rows(page).last).to_contain_text("Ann 39")
    expect(page.get_by_label("Time")).not_to_have_value("")
    page.get_by_label("Time").fill("2037-01-01T00:00:00")
    page.get_by_label("Time").press("Enter")
    expect(page.get_by_text("Nothing from there on")).to_be_visible()
    assert "from=time%3A21" in page.url
    page.get_by_label("Node").select_option(site.nodes[0])
    expect(page.get_by_text("Nothing from there on")).to_be_visible()


def test_a_go_nsqd_is_said_to_keep_no_log(open_page: OpenPage, site: Site, orders: str) -> None:
    with scripted() as node:
        node.answers = {
            "/info": {"version": "1.3.0", "broadcast_address": "127.0.0.1", "hostname": "h",
                      "tcp_port": 1, "http_port": node.server_port},
            "/stats": {"version": "1.3.0", "topics": [{"topic_name": TOPIC, "channels": []}]},
        }  # fmt: skip
        addresses = [f"--nsqd-http-address={each}" for each in (site.nodes[0], node.address)]
        with run_nsqadmin(*PATIENT, *addresses) as admin:
            page = open_page(url=f"http://{admin.http}")
            page.goto(orders)
            expect(rows(page)).to_have_count(ORDERS // 2)
            expect(page.get_by_text(f"{node.address} keeps no log to look into: it is a Go nsqd")
                   ).to_be_visible()  # fmt: skip
            page.goto("about:blank")


# --- search --------------------------------------------------------------------------------------


def test_a_search_finds_over_all_nodes_and_says_how_far_it_looked(page: Page, orders: str) -> None:
    page.goto(orders)
    look_for(page, "json", "$.customer.name = Ann 17")
    expect(rows(page)).to_have_count(1)
    expect(rows(page)).to_contain_text("Ann 17")
    status = page.locator(".search-state [role=status]")
    expect(status).to_have_text(re.compile(r"Done: 40 of 40 messages looked at \(.*\), 1 found"))
    page.reload()
    expect(rows(page)).to_contain_text("Ann 17")
    look_for(page, "regex", r"Ann 1\d")
    expect(rows(page)).to_have_count(10)
    shoot(page, "topic-search", ("light", "dark", "phone"))
    rows(page).first.click()
    expect(page.locator(".json-key").first).to_have_text('"id"')
    page.get_by_role("button", name="Close search").click()
    expect(rows(page)).to_have_count(ORDERS)


def test_an_expression_that_is_none_is_explained(page: Page, watcher: Watcher, orders: str) -> None:
    watcher.expect(400)
    page.goto(orders)
    look_for(page, "regex", "(Ann")
    expect(page.get_by_text("This cannot be searched for: missing ): (Ann")).to_be_visible()
    look_for(page, "text", "nothing like it")
    expect(page.get_by_text("Nothing found")).to_be_visible()


def test_a_search_is_stopped_and_goes_on(page: Page, site: Site, orders: str) -> None:
    """The server's answers are held up here, so that there is something to stop."""
    held: list[object] = []

    def hold(route: object) -> None:
        held.append(route)

    page.goto(orders)
    page.route("**/api/messages/search", hold)
    look_for(page, "text", "ann")
    stop = page.locator("main").get_by_role("button", name="Stop", exact=True)
    expect(stop).to_be_visible()
    stop.click()
    expect(page.locator(".search-state [role=status]")).to_contain_text("Stopped: 0 of 0")
    page.unroute("**/api/messages/search")
    page.get_by_role("button", name="Go on").click()
    expect(rows(page)).to_have_count(ORDERS)


# --- replay --------------------------------------------------------------------------------------


def test_replaying_what_was_chosen(page: Page, site: Site, orders: str) -> None:
    page.goto(f"{orders}&from=oldest")
    for at in (0, 3):
        rows(page).nth(at).locator("input[type=checkbox]").check()
    dialog = press(page, "Replay 2")
    expect(dialog).to_contain_text("2 messages")
    dialog.get_by_label("To topic").fill("replayed-two")
    expect(dialog).to_contain_text("No node has a topic replayed-two: it is created")
    dialog.get_by_role("button", name="Replay").click()
    expect(page.get_by_text("2 messages published to replayed-two")).to_be_visible()
    assert ['"id": 0' in each for each in bodies(site, "replayed-two", 0)] == [True]
    assert ['"id": 3' in each for each in bodies(site, "replayed-two", 1)] == [True]


def test_replaying_all_that_match_counts_them_first(page: Page, site: Site, orders: str) -> None:
    page.goto(orders)
    look_for(page, "json", "kind = odd")
    expect(rows(page)).to_have_count(20)
    dialog = press(page, "Replay all that match")
    expect(dialog).to_contain_text(re.compile(r"20 messages, [\d.]+ (B|KiB)"))
    shoot(page, "topic-replay", ("light", "dark", "phone"), whole=False)
    dialog.get_by_role("button", name="Replay").click()
    expect(dialog.get_by_text("Name the topic to publish to.")).to_be_visible()
    dialog.get_by_label("To topic").fill("replayed-odd")
    dialog.get_by_role("button", name="Replay").click()
    expect(page.get_by_text("20 messages published to replayed-odd")).to_be_visible()
    assert len(bodies(site, "replayed-odd", 1)) == 20


# --- rewind, publish -----------------------------------------------------------------------------


def test_rewinding_a_channel_shows_what_comes_again(page: Page, site: Site, orders: str) -> None:
    for node in (0, 1):
        until(lambda node=node: depth(site, TOPIC, "bill", node) == ORDERS // 2)
        assert ask(site.nodes[node], "POST", f"/channel/empty?topic={TOPIC}&channel=bill")[0] == 200
    page.goto(f"/topics/{TOPIC}/bill")
    dialog = press(page, "Rewind")
    expect(dialog).to_contain_text("40 messages are delivered, 40 of them again.")
    shoot(page, "channel-rewind", ("light", "dark", "phone"), whole=False)
    dialog.get_by_role("button", name="The end").click()
    expect(dialog).to_contain_text("Nothing is delivered until something new comes.")
    dialog.get_by_role("button", name="The oldest").click()
    expect(dialog).to_contain_text("40 messages are delivered")
    dialog.get_by_role("button", name="Rewind channel").click()
    expect(page.get_by_text("Channel bill goes on from there.")).to_be_visible()
    assert [depth(site, TOPIC, "bill", node) for node in (0, 1)] == [20, 20]


def test_publishing_a_message(page: Page, site: Site) -> None:
    site.make("published", "c")
    page.goto("/topics/published")
    dialog = press(page, "Publish")
    dialog.get_by_role("button", name="Publish").click()
    expect(dialog.get_by_text("Type the message first")).to_be_visible()
    dialog.get_by_label("Message").fill("x" * 70_000)
    dialog.get_by_role("button", name="Publish").click()
    expect(dialog.get_by_text("64 KiB at most can be published here.")).to_be_visible()
    dialog.get_by_label("Message").fill('{"try": "Grüße"}')
    expect(dialog).to_contain_text("18 of 65,536 bytes")
    shoot(page, "topic-publish", ("light", "dark", "phone"), whole=False)
    dialog.get_by_role("button", name="Publish").click()
    expect(page.get_by_text("Published to published.")).to_be_visible()
    assert bodies(site, "published", 0) == ['{"try": "Grüße"}']


def test_who_may_only_look_searches_and_changes_nothing(
    open_page: OpenPage, start_admin: StartAdmin, orders: str
) -> None:
    page = open_page(url=start_admin("--admin-user=alice"))
    page.goto(orders)
    look_for(page, "json", "kind = odd")
    expect(rows(page)).to_have_count(20)
    expect(page.locator("tr.message input[type=checkbox]")).to_have_count(0)
    for name in (re.compile("Replay"), "Publish"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    page.goto(f"/topics/{TOPIC}/bill")
    expect(page.get_by_role("heading", name="bill")).to_be_visible()
    expect(page.get_by_role("button", name="Rewind")).to_have_count(0)


# --- on a phone, on paper ------------------------------------------------------------------------


def test_on_a_phone_a_message_has_its_time_and_body(open_page: OpenPage, orders: str) -> None:
    page = open_page(viewport=PHONE)
    page.goto(orders)
    expect(rows(page)).to_have_count(ORDERS)
    expect(rows(page).first.locator(".column-time")).to_be_in_viewport()
    assert page.evaluate(FITS)


def test_on_paper_there_are_messages_and_no_buttons(page: Page, orders: str) -> None:
    page.goto(orders)
    expect(rows(page)).to_have_count(ORDERS)
    rows(page).first.click()
    page.emulate_media(media="print")
    expect(rows(page).first).to_be_visible()
    expect(page.locator(".body-json")).to_be_visible()
    for each in (".table-tools", ".tabs", ".top", ".body-tools"):
        expect(page.locator(each).first).to_be_hidden()
    colour = page.evaluate("getComputedStyle(document.querySelector('h1')).color")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.querySelector('h1')).color") == colour
    page.emulate_media(media="screen")
