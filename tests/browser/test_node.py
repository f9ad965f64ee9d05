"""The page of one node."""

from __future__ import annotations

import json
import re
from typing import Any

from playwright.sync_api import Page, Route, expect

from penstock import __version__
from tools.browser.site import Site, until
from tools.browser.watching import Watcher

from .conftest import OpenPage, StartAdmin
from .test_actions import agree
from .test_nodes import row_of, stopped

TOPICS, CHANNELS = 1000, 10
ROWS_DRAWN_MAX = 150
"""Rows of tables that are drawn of a node with a thousand topics."""


def test_what_a_node_is(page: Page, site: Site) -> None:
    page.goto(f"/nodes/{site.nodes[0]}")
    facts = page.locator(".facts")
    expect(facts).to_contain_text(f"Version1.3.0 · Penstock {__version__}")
    expect(facts).to_contain_text(f"Ports{site.nsqds[0].tcp_port} TCP, ")
    expect(facts).to_contain_text("Healthhealthy")
    expect(facts).to_contain_text(re.compile(r"Connections\D*NSQ \d"))
    expect(facts).to_contain_text(f"Registered with{site.lookupd.http}/")
    tiles = page.locator(".tiles")
    expect(tiles).to_contain_text(re.compile(r"Topics\d"))
    expect(tiles).to_contain_text(re.compile(r"In[\d.]+/s"))
    expect(page.locator("#charts svg").first).to_be_visible()


def test_the_tree_from_topics_to_consumers(page: Page, site: Site) -> None:
    page.goto(f"/nodes/{site.nodes[0]}")
    page.get_by_role("button", name="Open the channels of orders").click()
    expect(page.get_by_role("link", name="shipping")).to_be_visible()
    page.get_by_role("button", name="Open the consumers of billing").click()
    clients = page.get_by_role("table", name="Consumers of channel billing")
    expect(clients).to_contain_text("billing-1")
    expect(clients).to_contain_text("billing-2")
    page.reload()
    expect(clients).to_contain_text("billing-1")
    page.get_by_role("button", name="Close the channels of orders").click()
    expect(clients).to_have_count(0)
    expect(page.get_by_role("link", name="shipping")).to_have_count(0)


def test_topics_are_found_by_their_channels(page: Page, site: Site) -> None:
    page.goto(f"/nodes/{site.nodes[0]}")
    page.locator("#table-topics").get_by_role("searchbox").fill("ledger")
    expect(page.locator("#table-topics tbody tr")).to_have_count(1)
    expect(page.locator("#table-topics tbody")).to_contain_text("payments")
    assert "topics.find=ledger" in page.url


def test_a_node_that_nobody_knows(page: Page, watcher: Watcher) -> None:
    watcher.expect(404)
    page.goto("/nodes/192.0.2.1:4151")
    expect(page.get_by_text("There is no node 192.0.2.1:4151")).to_be_visible()
    page.get_by_role("link", name="All nodes").click()
    expect(page.locator("h1")).to_contain_text("Nodes")


def test_a_node_that_hangs(page: Page, site: Site, watcher: Watcher) -> None:
    watcher.expect(502)
    site.make("on-the-silent", node=2)
    with stopped(site.nsqds[2]):
        page.goto(f"/nodes/{site.nodes[2]}")
        expect(page.locator(".heading").get_by_text("no answer")).to_be_visible()
        expect(page.locator(".facts")).to_contain_text("1.3.0")
        expect(page.get_by_role("link", name="on-the-silent")).to_be_visible()
    expect(page.locator(".heading").get_by_text("no answer")).to_have_count(0)
    expect(page.get_by_role("button", name="Open the channels of sensors")).to_be_visible()


def test_a_node_killed_while_one_looks(page: Page, site: Site, watcher: Watcher) -> None:
    watcher.expect(404, 502)
    with site.another_nsqd() as nsqd:
        page.goto(f"/nodes/{nsqd.http}")
        expect(page.get_by_text("No topic is on this node")).to_be_visible()
        nsqd.kill()
        expect(page.locator(".heading").get_by_text("gone")).to_be_visible()
        expect(page.get_by_text("Below is what it told last")).to_be_visible()
        expect(page.locator(".facts")).to_contain_text("1.3.0")


def test_a_tombstone_by_clicks(page: Page, site: Site) -> None:
    site.make("taken-away", "c", bodies=(b"1", b"2"), node=1)
    page.goto(f"/nodes/{site.nodes[1]}")
    row = page.locator("#table-topics tbody tr").filter(has_text="taken-away")
    row.get_by_role("button", name="Tombstone").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("2 messages in 1 channel are deleted")
    agree(dialog, "Tombstone", "taken-away")
    expect(row).to_have_count(0)
    assert site.stats("taken-away", node=1) is None


def test_who_may_not_has_no_tombstones(
    open_page: OpenPage, start_admin: StartAdmin, site: Site
) -> None:
    page = open_page(url=start_admin("--admin-user=alice"))
    page.goto(f"/nodes/{site.nodes[0]}")
    expect(page.get_by_role("button", name="Open the channels of orders")).to_be_visible()
    expect(page.get_by_role("button", name="Tombstone", exact=True)).to_have_count(0)


def test_a_thousand_topics_are_not_all_drawn(page: Page, site: Site) -> None:
    node = site.nodes[0]
    topics = [many_channels(f"topic-{number:04}", node) for number in range(TOPICS)]
    about = {"hostname": "h", "tcp_port": 1, "version": "1.3.0", "topics": []}
    told = {"node": node, "about": about, "topics": topics, "total_messages": 0,
            "total_clients": 0, "message": ""}  # fmt: skip
    body = json.dumps(told)

    def answer(route: Route) -> None:
        route.fulfill(body=body, content_type="application/json")

    page.route(f"**/api/nodes/{node.replace(':', '%3A')}?*", answer)
    page.goto(f"/nodes/{node}?open=topic-0003")
    expect(page.get_by_role("link", name="channel-9")).to_be_visible()
    assert page.locator("tbody tr").count() <= ROWS_DRAWN_MAX
    page.locator("#table-topics").get_by_role("searchbox").first.fill("topic-0777")
    expect(page.get_by_role("button", name="Open the channels of topic-0777")).to_be_visible()
    expect(page.locator("#table-topics > .table-box > table > tbody > tr")).to_have_count(1)


def many_channels(topic: str, node: str) -> dict[str, Any]:
    """A topic as the API tells of it in brief."""
    figures = dict.fromkeys(("depth", "memory_depth", "backend_depth", "message_count"), 1)
    more: dict[str, Any] = dict.fromkeys(
        ("in_flight_count", "deferred_count", "requeue_count", "timeout_count", "client_count"), 0
    )
    end = {"paused": False, "e2e_processing_latency": None}
    names = [f"channel-{number}" for number in range(CHANNELS)]
    place: dict[str, Any] = {"node": node, "hostname": "h", "topic_name": topic}
    channels = [
        {**place, "channel_name": name, **figures, **more, "clients": [], **end} for name in names
    ]
    return {"topic_name": topic, **figures, "channel_names": names,
            "in_channels": {"depth": CHANNELS, **more}, "channels": channels, **end}  # fmt: skip


def test_what_is_open_is_bounded(page: Page, site: Site) -> None:
    node = site.nodes[0]
    names = [f"topic-{number:02}" for number in range(34)]
    about = {"hostname": "h", "tcp_port": 1, "version": "1.3.0", "topics": []}
    told = {"node": node, "about": about, "total_messages": 0, "total_clients": 0, "message": "",
            "topics": [many_channels(name, node) for name in names]}  # fmt: skip
    asked: list[str] = []

    def answer(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(body=json.dumps(told), content_type="application/json")

    page.route(f"**/api/nodes/{node.replace(':', '%3A')}?*", answer)
    page.goto(f"/nodes/{node}?open={','.join(names)}")
    expect(page.get_by_text("Too much is open")).to_have_count(2)
    assert [url.count("topic-") for url in asked[:2]] == [0, 32]


def test_back_to_all_nodes(page: Page, site: Site) -> None:
    page.goto("/nodes")
    row_of(page, site.nodes[0]).get_by_role("link", name=site.nodes[0]).click()
    expect(page.locator("h1")).to_contain_text(site.nodes[0])
    page.go_back()
    until(lambda: page.url.endswith("/nodes"), "the page of all nodes")
    expect(row_of(page, site.nodes[1])).to_be_visible()
