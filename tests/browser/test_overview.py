"""The overview: totals, what wants attention, the busiest topics; what is left without history."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Page, expect

from .conftest import OpenPage, StartAdmin
from .modules import load, run
from .site import Site, until

CALM: dict[str, Any] = {
    "rows": [],
    "rates": [],
    "nodes": [],
    "silent": [],
    "missing": [],
    "letters": [],
    "groups": [],
}

FIND = """
const { attention, steady } = modules;
const rates = steady(undefined, given.rows, 0);
const found = attention({ ...given, rates });
return found.map(({ kind, level, names }) => [kind, level, names.join("/")]);
"""


def queue(topic: str, channel: str = "", **figures: float) -> dict[str, Any]:
    """A row as live.js tells it."""
    nothing = dict.fromkeys(("depth", "in", "out", "in_flight", "requeues", "timeouts"), 0)
    facts = {"clients": 1, "paused": 0, "channels": 0 if channel else 1}
    return {"topic": topic, "channel": channel, "node": "", **nothing, **facts, **figures}


def tile(page: Page, label: str) -> Any:
    return page.locator(".tile", has=page.get_by_text(label, exact=True)).locator(".tile-value")


# --- what wants attention ------------------------------------------------------------------------


ROWS: list[tuple[dict[str, Any], list[list[str]]]] = [
    (queue("t", "c"), []),
    (queue("t", "c", depth=999, **{"in": 9}), []),
    (queue("t", "c", depth=1000, out=50, **{"in": 50}), [["backlog", "warn", "t/c"]]),
    (queue("t", "c", depth=1000, out=40, **{"in": 50}), [["backlog", "bad", "t/c"]]),
    (queue("t", "c", depth=1000, out=51, **{"in": 50}), []),  # empty in 1,000 seconds
    (queue("t", "c", depth=9000, out=51, **{"in": 50}), [["backlog", "warn", "t/c"]]),
    (queue("t", "c", depth=1, clients=0), [["unattended", "warn", "t/c"]]),
    (queue("t", "c", depth=1000, clients=0), [["unattended", "bad", "t/c"]]),
    (queue("t", "c", clients=0), []),
    (queue("t", "c", depth=5000, clients=0, paused=1), [["paused", "warn", "t/c"]]),
    (queue("t", "c", requeues=0.9), []),
    (queue("t", "c", requeues=1, out=9), [["requeues", "warn", "t/c"]]),
    (queue("t", "c", requeues=1, out=10), []),
    (queue("t", "c", timeouts=5, out=2), [["timeouts", "warn", "t/c"]]),
    (queue("t", "@group", depth=5000, clients=0), []),  # groups are told by /api/groups
    (queue("t", paused=1), [["paused", "warn", "t"]]),
    (queue("t", depth=3, channels=0), [["unchannelled", "warn", "t"]]),
    (queue("t", depth=3), []),
    (queue("dead", depth=3, channels=0), []),  # its letters are told instead
    (queue("read", depth=3, channels=0), []),
]
"""A row, and what wants attention about it."""


def test_thresholds(page: Page) -> None:
    load(page, "attention.js")
    group = {"topic": "read", "group": "g", "lag": 0, "rate": 0}
    letters = [{"topic": "dead", "letters": 0}]
    for row, found in ROWS:
        given = {**CALM, "rows": [row], "letters": letters, "groups": [group]}
        assert run(page, FIND, given) == found, row


def test_the_worst_comes_first(page: Page) -> None:
    load(page, "attention.js")
    given = {
        "rows": [queue("a", "paused", paused=1, depth=7), queue("a", "deep", depth=2000, clients=0),
                 queue("a", "deeper", depth=3000, clients=0)],
        "nodes": [{"address": "n:1", "version": "1.2.0", "isOld": True},
                  {"address": "n:2", "version": "1.3.0", "isOld": False}],
        "silent": ["n:4"],
        "missing": ["n:3", "n:4"],
        "letters": [{"topic": "dead", "letters": 3}, {"topic": "none", "letters": 0}],
        "groups": [{"topic": "t", "group": "slow", "lag": 2500, "rate": 10},
                   {"topic": "t", "group": "dead", "lag": 1000, "rate": 0},
                   {"topic": "t", "group": "fine", "lag": 999, "rate": 0}],
    }  # fmt: skip
    assert run(page, FIND, given) == [
        ["silent", "bad", "n:4"],
        ["missing", "bad", "n:3"],
        ["unattended", "bad", "a/deeper"],
        ["unattended", "bad", "a/deep"],
        ["lag", "bad", "t/dead"],
        ["lag", "warn", "t/slow"],
        ["paused", "warn", "a/paused"],
        ["letters", "warn", "dead"],
        ["old", "warn", "n:1"],
    ]


def test_rates_are_steady(page: Page) -> None:
    load(page, "attention.js")
    means = run(page, """
      const row = (rate) => [{ ...given, in: rate }];
      let means;
      return [0, 100, 0, 0, 0, 0].map((rate) => {
        means = modules.steady(means, row(rate), 10);
        return means.values().next().value.in;
      });
    """, queue("t", "c"))  # fmt: skip
    assert means[0] == 0
    assert 20 < means[1] < 40
    assert means[1:] == sorted(means[1:], reverse=True)


# --- the page ------------------------------------------------------------------------------------


def test_totals(page: Page) -> None:
    page.goto("/")
    expect(tile(page, "Nodes")).to_have_text("3")
    for label in ("Topics", "Channels", "Consumers"):
        expect(tile(page, label)).to_have_text(re.compile(r"^\d+$"))
    for label in ("In", "Out"):
        expect(tile(page, label)).to_have_text(re.compile(r"^\d.*/s$"))
    expect(page.locator(".tile svg.sparkline path.line")).to_have_count(4)
    expect(page.locator("figure.chart")).to_have_count(3)
    page.locator(".tile", has_text="Channels").click()
    expect(page.get_by_role("heading", name="Topics")).to_be_visible()


def test_what_wants_attention_is_told_and_linked(
    open_page: OpenPage, start_admin: StartAdmin
) -> None:
    page = open_page(url=start_admin())  # one that has not seen the nodes of other tests go
    page.goto("/")
    alerts = page.locator(".alerts li")
    expect(alerts.first).to_be_visible()
    if (more := page.get_by_role("button", name=re.compile(r"^Show \d+ more$"))).is_visible():
        more.click()
    for words, name in (
        ("no consumers", "clicks / archive"),
        ("paused", "sensors / alarms"),
        ("dead letters", "payments.dead"),
    ):
        expect(alerts.filter(has_text=words).filter(has_text=name)).to_be_visible()
    expect(alerts.filter(has_text="prices /")).not_to_contain_text(["no channel"])
    page.get_by_text("When is something listed?").click()
    expect(page.get_by_text("a topic or channel, on any node")).to_be_visible()
    page.get_by_role("link", name="clicks / archive").click()
    expect(page).to_have_url(re.compile(r"/topics/clicks/archive$"))


def test_the_busiest_topics(page: Page) -> None:
    page.goto("/")
    table = page.locator("#table-busiest")
    expect(table.locator("tbody tr").filter(has_text="orders")).to_contain_text("/s")
    expect(table.locator("thead th[aria-sort]")).to_have_text(re.compile("In"))
    table.get_by_role("link", name="orders").click()
    expect(page).to_have_url(re.compile(r"/topics/orders$"))


def test_a_node_that_goes_while_one_looks(page: Page, site: Site) -> None:
    with site.another_nsqd() as nsqd:
        page.goto("/")
        expect(tile(page, "Nodes")).to_have_text("4")
        live = f"""() => fetch("/api/history?node={nsqd.http}").then((answer) => answer.ok)"""
        until(lambda: page.evaluate(live), "nsqadmin having looked at the node")
        nsqd.kill()
        missing = page.locator(".alerts li", has_text=nsqd.http)
        expect(missing).to_contain_text("missing")
        expect(tile(page, "Nodes")).to_have_text("3")
        expect(page.locator("#table-busiest")).to_contain_text("orders")


def test_without_a_history(open_page: OpenPage, start_admin: StartAdmin) -> None:
    page = open_page(url=start_admin("--history-interval=0"))
    page.goto("/")
    expect(tile(page, "Nodes")).to_have_text("3")
    expect(tile(page, "Topics")).to_have_text(re.compile(r"^\d+$"))
    expect(tile(page, "Channels")).to_have_text(re.compile(r"^\d+$"))
    expect(tile(page, "Messages")).to_have_text(re.compile(r"^\d"))
    expect(page.get_by_text("keeps no history")).to_be_visible()
    expect(page.locator(".alerts li", has_text="payments.dead")).to_be_visible()


def test_with_graphite_there_are_its_images(
    open_page: OpenPage, start_admin: StartAdmin, watcher_of: Any
) -> None:
    page = open_page(url=start_admin("--graphite-url=http://127.0.0.1:9", "--proxy-graphite"))
    watcher_of(page).expect(502)  # nobody is there
    page.goto("/")
    image = page.locator("#graphite img")
    address = image.get_attribute("src") or ""
    target = "summarize(scale(sumSeries(stats.counters.nsq.*.topic.*.channel.*.message_count.count)"
    assert address.startswith("/render?")
    assert target in page.evaluate("(text) => new URLSearchParams(text).get('target')", address[8:])
    page.locator("#graphite select").select_option("12h")
    expect(image).to_have_attribute("src", re.compile("from=-12h"))
    expect(page).to_have_url(re.compile(r"\?t=12h$"))
    page.locator("#graphite select").select_option("off")
    expect(image).to_have_count(0)
