"""The page of a channel."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Locator, Page, expect

from penstock.nsq.protocol import encode
from penstock.testing.daemons import Daemon, run_nsqadmin
from tools.browser.shooting import PHONE, shoot
from tools.browser.site import PATIENT, Site, ask, until
from tools.browser.watching import Watcher

from .conftest import OpenPage


@contextmanager
def consumer(
    nsqd: Daemon, topic: str, channel: str, ready: int, **identity: object
) -> Iterator[None]:
    """A consumer that takes `ready` messages and finishes none."""
    host, _, port = nsqd.tcp.rpartition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"  V2" + encode.identify(json.dumps(identity).encode())
                           + encode.subscribe(topic, channel) + encode.ready(ready))  # fmt: skip
        yield


def clients(page: Page) -> Locator:
    return page.locator("#table-clients tbody tr")


def test_what_is_there(page: Page, site: Site) -> None:
    page.goto("/topics/orders/shipping")
    expect(page).to_have_title("orders / shipping · nsqadmin")
    rows = page.locator("#table-nodes tbody tr")
    expect(rows).to_have_count(3)
    for node in site.nodes:
        expect(page.locator("#table-nodes").get_by_role("link", name=node)).to_be_visible()
    expect(clients(page)).to_have_count(3)
    expect(clients(page).first).to_contain_text("penstock/")
    requeued = page.locator(".tile", has_text="Requeued").locator(".tile-value")
    expect(requeued).to_have_text(re.compile(r"^[\d.]+/s$"))
    expect(page.locator("#charts svg").first).to_be_visible()
    expect(page.get_by_role("columnheader", name="Delivery")).to_have_count(0)
    shoot(page, "channel", ("light", "dark", "phone"))


def test_attributes_of_consumers(page: Page) -> None:
    page.goto("/topics/clicks/live")
    expect(clients(page)).to_have_count(2)
    expect(clients(page).first).to_contain_text("sampled 50%")
    expect(clients(page).first).to_contain_text("snappy")
    page.goto("/topics/orders/audit%23ephemeral")
    expect(clients(page).first).to_contain_text("deflate")
    expect(page.locator(".heading").get_by_text("ephemeral", exact=True)).to_be_visible()


def test_nobody_consumes(page: Page, site: Site) -> None:
    site.make("channel-lonely", "c", bodies=(b"1", b"2"))
    page.goto("/topics/channel-lonely/c")
    expect(page.get_by_text("2 messages wait and no consumer is connected.")).to_be_visible()
    expect(page.get_by_text("No consumers", exact=True)).to_be_visible()


def test_nobody_consumes_where_messages_wait(page: Page, site: Site) -> None:
    for node in (0, 1):
        site.make("channel-elsewhere", "c", node=node)
    until(lambda: len(site.api("/api/topics/channel-elsewhere/c")["nodes"]) == 2)
    site.publish("channel-elsewhere", b"stays", node=1)
    with consumer(site.nsqds[0], "channel-elsewhere", "c", 1):
        page.goto("/topics/channel-elsewhere/c")
        hint = page.get_by_text("1 message waits where no consumer is connected")
        expect(hint).to_contain_text(site.nodes[1])


def test_a_consumer_with_rdy_0(page: Page, site: Site) -> None:
    site.make("channel-stalled", "c", bodies=(b"1", b"2"))
    with consumer(site.nsqds[0], "channel-stalled", "c", 0, client_id="idle", hostname="h.example"):
        page.goto("/topics/channel-stalled/c")
        expect(page.get_by_text("The only consumer has RDY 0 while messages wait")).to_be_visible()
        expect(clients(page)).to_contain_text("h.example idle")
        with consumer(site.nsqds[0], "channel-stalled", "c", 1):
            expect(page.get_by_text("1 of 2 consumers has RDY 0")).to_be_visible()
            expect(clients(page)).to_have_count(2)
    expect(page.get_by_text("no consumer is connected")).to_be_visible()


def test_delivery_by_distance(open_page: OpenPage, site: Site) -> None:
    flags = ("--enable-experiment=topology-aware-consumption", "--topology-region=eu",
             "--topology-zone=eu-1")  # fmt: skip
    with site.another_nsqd(*flags) as nsqd:
        for target in ("/topic/create?topic=near", "/channel/create?topic=near&channel=c"):
            ask(nsqd.http, "POST", target)
        here = {"topology_region": "eu", "topology_zone": "eu-1"}
        with (
            consumer(nsqd, "near", "c", 5, **here),
            run_nsqadmin(
                *PATIENT, f"--nsqd-http-address={nsqd.http}", "--history-interval=1s"
            ) as admin,
        ):
            ask(nsqd.http, "POST", "/pub?topic=near", b"1")
            page = open_page(url=f"http://{admin.http}")
            page.goto("/topics/near/c")
            expect(page.locator("#table-nodes .bar").first).to_have_attribute("title", "own zone 1")
            expect(clients(page)).to_contain_text("own zone")
            page.close()


def test_the_deferred_are_counted_on_their_tab(page: Page, site: Site) -> None:
    site.make("channel-later", "c")
    site.publish("channel-later", b"in an hour", defer_ms=3_600_000)
    page.goto("/topics/channel-later/c")
    tab = page.locator(".tabs").get_by_role("link", name="Deferred")
    expect(tab).to_contain_text("1")
    tab.click()
    expect(page).to_have_url(re.compile("tab=deferred"))
    shown = page.locator("main table").filter(has_text="in an hour")
    expect(shown).to_have_count(1)
    page.locator(".tabs").get_by_role("link", name="Messages").click()
    expect(page).to_have_url(re.compile("tab=messages"))
    expect(shown).to_have_count(1)


def test_an_unknown_channel(page: Page, watcher: Watcher) -> None:
    watcher.expect(404)
    page.goto("/topics/orders/nobody")
    expect(page.get_by_text("Topic orders has no channel nobody")).to_be_visible()
    expect(page.locator("main").get_by_role("button", name="Delete")).to_have_count(0)
    page.get_by_role("link", name="the page of orders").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("orders")


def test_a_channel_that_is_deleted_while_one_looks(
    page: Page, site: Site, watcher: Watcher
) -> None:
    watcher.expect(404)
    site.make("channel-goes", "c")
    page.goto("/topics/channel-goes/c")
    expect(page.locator("#table-nodes tbody tr")).to_have_count(1)
    ask(site.nodes[0], "POST", "/channel/delete?topic=channel-goes&channel=c")
    expect(page.get_by_text("Topic channel-goes has no channel c")).to_be_visible()


def test_a_node_that_does_not_answer(open_page: OpenPage, site: Site) -> None:
    with site.another_nsqd() as nsqd:
        nodes = (f"--nsqd-http-address={each}" for each in (site.nodes[0], nsqd.http))
        with run_nsqadmin(*PATIENT, *nodes, "--history-interval=0") as admin:
            page = open_page(url=f"http://{admin.http}")
            page.goto("/topics/orders/billing")
            expect(page.locator("#table-nodes tbody tr")).to_have_count(1)
            nsqd.kill()
            expect(page.locator(".notice.warn", has_text=nsqd.http)).to_have_count(1)
            expect(clients(page).first).to_be_visible()
            expect(page.get_by_text("keeps no history")).to_be_visible()
            page.close()


def test_on_a_phone(open_page: OpenPage) -> None:
    page = open_page(viewport=PHONE)
    page.goto("/topics/orders/billing")
    expect(clients(page).first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
