"""The list of all topics."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tools.browser.site import Site

from .conftest import OpenPage, StartAdmin
from .modules import load, run
from .scripted import scripted


def row(page: Page, topic: str) -> Locator:
    link = page.get_by_role("link", name=topic, exact=True)
    return page.locator("#table-topics tbody tr", has=link)


def cell(page: Page, topic: str, column: str) -> Locator:
    expect(row(page, topic)).to_be_visible()  # or there may be no columns yet
    titles = page.locator("#table-topics thead th").all_inner_texts()
    place = next(at for at, title in enumerate(titles) if title.strip("↑↓ \n") == column)
    return row(page, topic).locator("th, td").nth(place)


def test_every_topic_with_its_figures(page: Page, site: Site) -> None:
    site.make("counted", "a", "b", bodies=(b"1", b"2", b"3"))
    page.goto("/topics")
    expect(row(page, "counted")).to_be_visible()
    expect(cell(page, "counted", "Backlog")).to_have_text("6")  # three in each channel
    expect(cell(page, "counted", "Channels")).to_have_text("2")
    expect(cell(page, "counted", "Consumers")).to_have_text("0")
    expect(cell(page, "counted", "Nodes")).to_have_text("1")
    expect(cell(page, "orders", "Nodes")).to_have_text("3")
    expect(cell(page, "orders", "In")).to_have_text(re.compile(r"^[1-9].*/s$"))
    site.publish("counted", b"4")
    expect(cell(page, "counted", "Backlog")).to_have_text("8")


def test_paused_and_inactive_ones_are_marked(page: Page, site: Site) -> None:
    page.goto("/topics")
    expect(row(page, "retired")).to_contain_text("inactive")
    expect(cell(page, "retired", "Backlog")).to_have_text("–")
    expect(row(page, "orders")).not_to_contain_text("inactive")


def test_sorting_and_filtering_stay_in_the_address(page: Page) -> None:
    page.goto("/topics")
    page.locator("#table-topics input[type=search]").fill("ord")
    expect(page.locator("#table-topics tbody tr")).to_have_count(1)
    expect(page).to_have_url(re.compile(r"topics\.find=ord"))
    page.reload()
    expect(page.locator("#table-topics tbody tr")).to_have_count(1)
    page.goto("/topics?topics.sort=-nodes")
    expect(page.locator("#table-topics tbody tr").first).to_contain_text("orders")


def test_without_a_history_there_are_the_names(
    open_page: OpenPage, start_admin: StartAdmin
) -> None:
    page = open_page(url=start_admin("--history-interval=0"))
    page.goto("/topics")
    expect(cell(page, "orders", "Nodes")).to_have_text("3")
    expect(row(page, "retired")).to_contain_text("inactive")
    assert "Backlog" not in page.locator("#table-topics thead").inner_text()


def test_who_may_not_change_things_is_not_asked_to(
    open_page: OpenPage, start_admin: StartAdmin
) -> None:
    page = open_page(url=start_admin("--admin-user=alice"))
    page.goto("/topics")
    expect(row(page, "orders")).to_be_visible()
    expect(page.get_by_text("Create a topic")).to_have_count(0)


def test_one_stream_for_all_topics(page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto("/topics")
    line = row(page, "orders").locator("svg.sparkline path.line")
    expect(line).to_have_count(1)
    api = [url.partition("/api/")[2] for url in asked if "/api/" in url]
    assert api.count("events?level=topics") == 1
    assert [url for url in api if url.startswith(("topics/", "nodes/"))] == []
    pasts = [url for url in api if url.startswith("history")]
    assert len(pasts) == len(set(pasts)) <= 100  # of the topics in sight, each once


def test_the_rates_of_graphite(open_page: OpenPage, start_admin: StartAdmin, site: Site) -> None:
    with scripted() as graphite:
        graphite.answers["/render"] = [{"target": "x", "datapoints": [[741, 1]]}]
        url = start_admin(f"--graphite-url=http://{graphite.address}", "--proxy-graphite")
        page = open_page(url=url)
        page.goto("/topics?t=1h")
        expect(page.get_by_role("columnheader", name="Rate (graphite)")).to_be_visible()
        expect(cell(page, "orders", "Rate (graphite)")).to_have_text("12.35")
        image = row(page, "orders").locator("img").first
        assert "from=-1h" in (image.get_attribute("src") or "")
        page.close()  # before graphite goes


KEYS: list[tuple[dict[str, Any], str, str]] = [
    ({"topic": "a b/c#ephemeral", "node": "*"}, "message_count",
     "sumSeries(stats.counters.nsq.*.topic.a_b-cephemeral.message_count.count)"),
    ({"topic": "t", "node": "10.0.0.1:4151"}, "depth",
     "sumSeries(stats.gauges.nsq.10_0_0_1_4151.topic.t.depth)"),
    ({"topic": "t", "channel": "c"}, "in_flight_count",
     "sumSeries(stats.gauges.nsq.*.topic.t.channel.c.in_flight_count)"),
    ({"node": "h:1"}, "heap_objects", "stats.gauges.nsq.h_1.mem.heap_objects"),
    ({"node": "h:1"}, "gc_runs", "stats.counters.movingAverage(nsq.h_1.mem.gc_runs,45).count"),
    ({}, "message_count", "sumSeries(stats.counters.nsq.*.topic.*.channel.*.message_count.count)"),
]  # fmt: skip
"""What graphite is asked for; these are the keys of Go's nsqadmin."""


def test_graphites_keys(open_page: OpenPage, start_admin: StartAdmin) -> None:
    page = open_page(url=start_admin("--graphite-url=http://127.0.0.1:9"))
    load(page, "widgets/graphite.js")
    for what, key, target in KEYS:
        assert run(page, "return modules.targets(...given)", [what, key]) == [target]
