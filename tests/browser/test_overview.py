"""The overview: totals, what wants attention, the busiest topics; what is left without history."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Page, expect

from tools.browser.site import Site, until

from .conftest import OpenPage, StartAdmin
from .modules import load, run

FIND = """
const found = modules.attention(given);
return found.map(({ kind, level, page, names }) => [kind, level, page, names.join("/")]);
"""


def tile(page: Page, label: str) -> Any:
    return page.locator(".tile", has=page.get_by_text(label, exact=True)).locator(".tile-value")


# --- what wants attention ------------------------------------------------------------------------


def test_nodes_letters_and_groups_come_to_what_the_history_tells(page: Page) -> None:
    load(page, "features/attention.js")

    def queue(kind: str, level: str, weight: int, *names: str) -> dict[str, Any]:
        return {"kind": kind, "level": level, "weight": weight, "names": names}

    given = {
        "queues": [queue("unattended", "bad", 3000, "a", "deeper"),
                   queue("unattended", "bad", 2000, "a", "deep"),
                   queue("paused", "warn", 7, "b"),
                   queue("stopped", "bad", 1000, "t", "@dead"),
                   queue("level", "warn", 2500, "t", "@slow"),
                   queue("unattended", "warn", 5, "dead", "penstock-dlq")],
        "nodes": [{"address": "n:1", "version": "1.2.0", "isOld": True},
                  {"address": "n:2", "version": "1.3.0", "isOld": False}],
        "silent": ["n:4"],
        "missing": [{"node": "n:3", "at": 1, "until": 2, "depth": 5},
                    {"node": "n:4", "at": 1, "until": 2, "depth": 0}],
        "givenUp": [{"node": "n:5", "at": 1, "until": 2, "depth": 8},
                    {"node": "n:6", "at": 1, "until": 2, "depth": 0}],
        "damage": [{"node": "n:1", "topic": "torn", "damage": ["one", "two"]}],
        "letters": [{"topic": "dead", "letters": 3}, {"topic": "none", "letters": 0}],
        "groups": [{"topic": "t", "group": "told", "verdict": {"kind": "growing", "level": "bad",
                                                             "weight": 1500}},
                   {"topic": "t", "group": "fine", "verdict": {"kind": "keeps_up", "level": ""}}],
        "pipelines": [{"id": "1f", "name": "p", "state": "failed", "age": 1, "error": "e"},
                      {"id": "2f", "name": "q", "state": "running", "age": 1, "error": "e"}],
    }  # fmt: skip
    assert run(page, FIND, given) == [
        ["silent", "bad", "node", "n:4"],
        ["missing", "bad", "node", "n:3"],
        ["damage", "bad", "topic", "torn"],
        ["pipeline", "bad", "pipeline", "1f"],
        ["unattended", "bad", "channel", "a/deeper"],
        ["unattended", "bad", "channel", "a/deep"],
        ["growing", "bad", "groups", "t/told"],
        ["stopped", "bad", "groups", "t/dead"],
        ["level", "warn", "groups", "t/slow"],
        ["given_up", "warn", "node", "n:5"],
        ["paused", "warn", "topic", "b"],
        ["letters", "warn", "deadletter", "dead"],
        ["old", "warn", "node", "n:1"],
    ]


def test_what_rocketmq_has_judged_is_judged_once(page: Page) -> None:
    load(page, "features/attention.js")
    disk = {"kind": "disk", "level": "bad", "weight": 0.9, "page": "rocketbroker", "names": ["b"]}
    names = ("RMQ_SYS_TRACE_TOPIC", "%RETRY%g", "plain")
    given = {
        "queues": [{"kind": "unchannelled", "level": "warn", "weight": 1, "names": [name]}
                   for name in names],
        "nodes": [], "silent": [], "missing": [], "damage": [], "pipelines": [],
        "letters": [{"topic": "%DLQ%g", "letters": 3}, {"topic": "%DLQ%other", "letters": 2}],
        "groups": [{"topic": "t", "group": "g", "verdict": {"kind": "level", "level": "warn"}}],
        "rocketmq": {"items": [disk], "groups": ["g"]},
    }  # fmt: skip
    assert run(page, FIND, given) == [
        ["disk", "bad", "rocketbroker", "b"],
        ["letters", "warn", "deadletter", "%DLQ%other"],
        ["unchannelled", "warn", "topic", "plain"],
    ]


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
