"""The page of a topic."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Page, Route, expect

from penstock.testing.daemons import run_nsqadmin
from tools.browser.shooting import PHONE, shoot
from tools.browser.site import PATIENT, Site, ask, until
from tools.browser.watching import Watcher

from .conftest import OpenPage


def cells(page: Page, table: str, row: str) -> dict[str, str]:
    """The texts of a row by the titles of their columns."""
    found = page.locator(f"#table-{table} tbody tr", has_text=row).first
    expect(found).to_be_visible()
    titles = page.locator(f"#table-{table} thead th").all_text_contents()
    texts = found.locator("th, td").all_text_contents()
    return dict(zip((each.strip("↑↓") for each in titles), texts, strict=True))


def test_what_is_there(page: Page, site: Site) -> None:
    page.goto("/topics/orders")
    expect(page).to_have_title("orders · nsqadmin")
    expect(page.locator("#table-nodes tbody tr")).to_have_count(3)
    for node in site.nodes:
        expect(page.locator("#table-nodes").get_by_role("link", name=node)).to_be_visible()
    expect(page.locator("#table-nodes tfoot")).to_contain_text("Total")
    for channel in ("billing", "shipping", "audit#ephemeral"):
        link = page.locator("#table-channels").get_by_role("link", name=channel)
        expect(link).to_have_attribute("href", f"/topics/orders/{channel.replace('#', '%23')}")
    expect(page.locator("#readers")).to_contain_text("warehouse")
    expect(page.locator(".tile", has_text="Latency p99")).to_contain_text(re.compile(r"\d m?s"))
    expect(page.locator("#charts svg").first).to_be_visible()
    shoot(page, "topic", ("light", "dark", "phone"))


def test_the_figures_are_those_of_the_api(page: Page, site: Site) -> None:
    site.make("topic-figures", bodies=(b"1", b"2", b"3"))
    site.make("topic-figures", "c")
    site.publish("topic-figures", b"4")
    page.goto("/topics/topic-figures")
    stats = site.api("/api/topics/topic-figures")
    row = cells(page, "nodes", site.nodes[0])
    assert row["Backlog"] == "4"
    assert row["In the topic"] == f"{stats['depth']}"
    assert row["Messages"] == "4"
    assert "In memory" not in row  # all of it is on disk
    assert row["Channels"] == "1"
    channel = cells(page, "channels", "c")
    assert channel["Backlog"] == "4"
    backlog = page.locator(".tile", has_text="Backlog")  # the channel's, though the topic has none
    expect(backlog).to_contain_text("4")
    expect(backlog).to_contain_text("waiting, 0 of them in the topic itself")
    assert channel["Consumers"] == "0"
    expect(page.locator("#table-channels").get_by_text("no consumers")).to_be_visible()


def test_what_a_go_nsqd_keeps_in_memory_alone_is_told(page: Page, site: Site) -> None:
    site.make("in-memory", bodies=(b"1", b"2", b"3"))

    def answer(route: Route) -> None:
        told = route.fetch().json()
        (one,) = (each for each in told["machines"] if each["node"] == site.nodes[0])
        one["penstock_version"] = None
        route.fulfill(json=told)

    page.route("**/api/machines*", answer)
    page.goto("/topics/in-memory")
    expect(page.get_by_role("columnheader", name="In memory").first).to_be_visible()
    assert cells(page, "nodes", site.nodes[0])["In memory"] == "3"
    expect(page.locator(".tile", has_text="Backlog")).to_contain_text("3 in memory alone")


FIGURES = """() => {
  const text = (selector) => document.querySelector(selector)?.textContent ?? "";
  const tile = (label) => [...document.querySelectorAll(".tile")]
    .find((each) => each.querySelector(".tile-label").textContent === label)
    ?.querySelector(".tile-value").textContent;
  const legend = (title, name) => [...document.querySelectorAll("figure.chart")]
    .find((each) => each.textContent.startsWith(title))
    ?.querySelector(".legend").textContent.match(name + " ?([0-9.,]+( ?k)?(/s)?)")?.[1];
  const total = (table, title) => {
    const head = [...document.querySelectorAll(`#table-${table} thead th`)];
    const at = head.findIndex((each) => each.textContent.replace(/[↑↓]/, "") === title);
    return document.querySelectorAll(`#table-${table} tfoot tr > *`)[at]?.textContent;
  };
  return {
    in: [tile("In"), legend("Traffic", "in"), total("channels", "In"), total("nodes", "In")],
    out: [tile("Out"), legend("Traffic", "out"), total("channels", "Out")],
    flight: [tile("In flight"), legend("Backlog", "in flight"), total("channels", "In flight")],
    backlog: [tile("Backlog"), legend("Backlog", "waiting"), total("nodes", "Backlog")],
  };
}"""
"""Everything on the page of a topic that is the same figure."""


def test_a_figure_has_one_value_on_the_page(page: Page) -> None:
    page.goto("/topics/orders")
    expect(page.locator("#table-nodes tfoot")).to_contain_text(re.compile(r"[1-9][\d.]*/s"))
    expect(page.locator("figure.chart .legend").first).to_contain_text(re.compile(r"\d"))
    seen = set()
    for _ in range(24):
        told = page.evaluate(FIGURES)
        for name, values in told.items():
            assert len(set(values)) == 1, (name, values)
        seen.add(str(told))
        page.wait_for_timeout(250)
    assert len(seen) > 1, "the figures move"


def test_rates_and_figures_move_by_themselves(page: Page) -> None:
    page.goto("/topics/orders")
    expect(page.locator(".tile", has_text="Outstanding")).to_be_visible()
    value = page.locator(".tile").nth(2).locator(".tile-value")
    expect(value).to_have_text(re.compile(r"^[1-9][\d.]*/s$"))
    expect(page.locator("#table-nodes tbody tr").first).to_contain_text(
        re.compile(r"[1-9][\d.]*/s")
    )
    messages = page.locator("#table-nodes tfoot td").nth(2)
    before = messages.text_content() or ""
    expect(messages).not_to_have_text(before)


def test_badges(page: Page, site: Site, watcher: Watcher) -> None:
    watcher.expect(404, 502)  # nobody has the system's topic here; its name is enough
    site.make("topic-badges#ephemeral")
    ask(site.nodes[0], "POST", "/topic/pause?topic=topic-badges%23ephemeral")
    page.goto("/topics/topic-badges%23ephemeral")
    badges = page.locator(".heading .badges")
    expect(badges.get_by_text("paused", exact=True)).to_be_visible()
    expect(badges.get_by_text("ephemeral", exact=True)).to_be_visible()
    page.goto("/topics/SCHEDULE_TOPIC_XXXX")
    expect(badges.get_by_text("system")).to_be_visible()


def test_a_topic_without_channels(page: Page, site: Site) -> None:
    site.make("topic-bare", bodies=(b"waits",))
    page.goto("/topics/topic-bare")
    expect(page.get_by_text("Messages wait in the topic until there is one")).to_be_visible()
    expect(page.locator(".tile", has_text="in the topic itself")).to_contain_text("1")


def test_an_unknown_topic(page: Page, watcher: Watcher) -> None:
    watcher.expect(404, 502)
    page.goto("/topics/nobody-knows-it")
    expect(page.get_by_text("There is no topic nobody-knows-it")).to_be_visible()
    expect(page.locator("main").get_by_role("button", name="Delete")).to_have_count(0)
    page.get_by_role("link", name="all topics").click()
    expect(page).to_have_url(re.compile("/topics$"))


def test_an_unknown_topic_can_be_created(page: Page, site: Site, watcher: Watcher) -> None:
    watcher.expect(404, 502)
    page.goto("/topics/topic-wanted")
    page.get_by_role("button", name="Create the topic").click()
    expect(page.get_by_text("Topic topic-wanted is created.")).to_be_visible()
    expect(page.get_by_text("No node has this topic")).to_be_visible()
    assert "topic-wanted" in site.api("/api/topics")["topics"]
    page.goto("/topics/no good")
    expect(page.get_by_text("There is no topic no good")).to_be_visible()
    expect(page.get_by_role("button", name="Create the topic")).to_have_count(0)


def test_a_topic_that_appears_while_one_looks(page: Page, site: Site, watcher: Watcher) -> None:
    watcher.expect(404, 502)
    page.goto("/topics/topic-late")
    expect(page.get_by_text("There is no topic topic-late")).to_be_visible()
    site.make("topic-late", "c")
    expect(page.locator("#table-channels").get_by_role("link", name="c")).to_be_visible()


def test_sort_tab_and_back_are_in_the_address(page: Page) -> None:
    page.goto("/topics/orders")
    page.get_by_role("columnheader", name="Requeued").get_by_role("button").click()
    expect(page).to_have_url(re.compile(r"channels\.sort=-requeue"))
    page.reload()
    first = page.locator("#table-channels tbody tr").first
    expect(first).to_contain_text("shipping")
    page.locator(".tabs").get_by_role("link", name="Messages").click()
    expect(page).to_have_url(re.compile("tab=messages"))
    expect(page.locator("main table").filter(has_text="item")).to_have_count(1)
    page.go_back()
    expect(page).not_to_have_url(re.compile("tab="))
    page.locator("#table-channels").get_by_role("link", name="billing").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("billing")
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_contain_text("orders")
    expect(first).to_contain_text("shipping")


def test_a_node_that_dies_while_one_looks(page: Page, site: Site) -> None:
    with site.another_nsqd() as nsqd:
        for target in (
            "/topic/create?topic=topic-loss",
            "/channel/create?topic=topic-loss&channel=c",
        ):
            ask(nsqd.http, "POST", target)
        site.make("topic-loss", "c")
        until(lambda: len(site.api("/api/topics/topic-loss")["nodes"]) == 2)
        page.goto("/topics/topic-loss")
        expect(page.locator("#table-nodes tbody tr")).to_have_count(2)
        nsqd.kill()
        expect(page.locator("#table-nodes tbody tr")).to_have_count(1)
        expect(page.locator("#table-nodes")).to_contain_text(site.nodes[0])


def test_a_node_that_does_not_answer(open_page: OpenPage, site: Site) -> None:
    """Without nsqlookupds it stays one of the nodes: a warning beside the rest, and only one."""
    with site.another_nsqd() as nsqd:
        nodes = (f"--nsqd-http-address={each}" for each in (site.nodes[0], nsqd.http))
        with run_nsqadmin(*PATIENT, *nodes, "--history-interval=1s") as admin:
            page = open_page(url=f"http://{admin.http}")
            page.goto("/topics/orders")
            expect(page.locator("#table-nodes tbody tr")).to_have_count(1)
            nsqd.kill()
            warning = page.locator(".notice.warn", has_text=nsqd.http)
            expect(warning).to_be_visible()
            expect(warning).to_have_count(1)
            expect(page.locator("#table-channels")).to_contain_text("billing")
            assert page.get_by_role("button", name="Tombstone").count() == 0
            page.close()


def test_on_a_phone(open_page: OpenPage) -> None:
    page = open_page(viewport=PHONE)
    page.goto("/topics/orders")
    expect(page.locator("#table-channels tbody tr")).to_have_count(3)
    width: Any = page.evaluate("document.documentElement.scrollWidth")
    assert width <= PHONE["width"]


def test_a_topic_of_a_group_leads_to_where_it_is_shown(page: Page, watcher: Watcher) -> None:
    watcher.expect(404, 502)
    page.goto("/topics/%25DLQ%25traders-of-old")
    expect(page.get_by_text("--rocketmq-namesrv-address")).to_be_visible()
    expect(page.get_by_text("There is no topic")).to_have_count(0)
