"""A node that is killed: what waits there is counted on, and marked wherever it is counted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, Page, expect

from penstock.testing.daemons import Daemon, run_nsqadmin, run_nsqd, run_nsqlookupd
from tools.browser.shooting import shoot
from tools.browser.site import PATIENT, ask, until

from .conftest import OpenPage

TOPIC = "half"


class Pair(NamedTuple):
    """Two nodes, of which one will be killed, and an nsqadmin that has seen both."""

    url: str
    stays: Daemon
    goes: Daemon

    def api(self, target: str) -> Any:
        status, answer = ask(urlsplit(self.url).netloc, "GET", target)
        return answer if status == 200 else None


@contextmanager
def running_pair() -> Iterator[Pair]:
    """A cluster by itself: sums of the shared one would be partial for all other tests."""
    with run_nsqlookupd() as lookupd:
        flags = f"--lookupd-tcp-address={lookupd.tcp}"
        with run_nsqd(flags) as stays, run_nsqd(flags) as goes:
            for nsqd, bodies in ((stays, b"1\n2"), (goes, b"3\n4\n5")):
                assert ask(nsqd.http, "POST", f"/mpub?topic={TOPIC}", bodies)[0] == 200
                ask(nsqd.http, "POST", f"/channel/create?topic={TOPIC}&channel=c")
            admin_flags = f"--lookupd-http-address={lookupd.http}", "--history-interval=1s"
            with run_nsqadmin(*PATIENT, *admin_flags) as admin:
                pair = Pair(f"http://{admin.http}", stays, goes)
                until(lambda: waiting(pair) == 5, "nsqadmin counting all messages")
                yield pair


def waiting(pair: Pair) -> int | None:
    """The backlog of the channel, as nsqadmin has it."""
    history = pair.api(f"/api/history?topic={TOPIC}&channel=c")
    return history["depth"][-1] if history else None


@pytest.fixture(scope="module")
def half() -> Iterator[Pair]:
    """A cluster of which one node was killed, with 3 of 5 messages."""
    with running_pair() as pair:
        pair.goes.kill()
        until(lambda: pair.api("/api/lost")["nodes"], "nsqadmin missing the node")
        yield pair


def tile(page: Page, label: str) -> Locator:
    return page.locator(".tile", has=page.get_by_text(label, exact=True)).locator(".tile-value")


def row(page: Page, table: str, name: str) -> Locator:
    return page.locator(f"#table-{table} tbody tr").filter(has_text=name)


def test_no_sum_falls_as_if_drained(open_page: OpenPage, half: Pair) -> None:
    page, lost = open_page(url=half.url), half.goes.http
    page.goto(f"/topics/{TOPIC}")
    expect(tile(page, "Backlog")).to_have_text("5")
    expect(tile(page, "Backlog")).to_have_class(re.compile("stale"))
    expect(page.locator(".warnings")).to_contain_text(f"{lost} does not answer: 3 messages waited")
    expect(page.locator(".heading").get_by_text("partial")).to_have_attribute(
        "title", re.compile(rf"^{lost} does not answer: figures of .*, counted on until \d")
    )
    expect(row(page, "nodes", lost)).to_contain_text("as of")
    expect(row(page, "nodes", lost)).to_have_class("stale")
    expect(row(page, "channels", "c")).to_contain_text("partial")
    expect(page.locator("figure.chart rect.partial").first).to_be_visible()
    expect(page.locator("#charts h2")).to_have_text(re.compile(r"^The last \d+ (s|min)$"))
    assert half.api(f"/api/history?topic={TOPIC}")["waiting"][-1] == 5
    shoot(page, "lost-topic", ("light", "dark", "phone"))


def test_the_channel_and_the_list_of_topics(open_page: OpenPage, half: Pair) -> None:
    page = open_page(url=half.url)
    page.goto(f"/topics/{TOPIC}/c")
    expect(tile(page, "Backlog")).to_have_text("5")
    expect(tile(page, "Backlog")).to_have_class(re.compile("stale"))
    page.goto("/topics")
    expect(row(page, "topics", TOPIC).locator("td").first).to_have_text("5")
    expect(row(page, "topics", TOPIC)).to_contain_text("partial")


def test_the_overview_says_which_node_and_until_when(open_page: OpenPage, half: Pair) -> None:
    page = open_page(url=half.url)
    page.goto("/")
    expect(tile(page, "Backlog")).to_have_text("5")
    expect(tile(page, "Backlog")).to_have_class(re.compile("stale"))
    told = re.compile(r"its 3 messages that waited there are counted on until \d\d:\d\d")
    expect(page.locator(".alerts li", has_text=half.goes.http)).to_contain_text(told)
    shoot(page, "lost-overview", ("light", "dark", "phone"))


def test_the_page_of_the_node_has_what_it_told_last(
    open_page: OpenPage, watcher_of: Any, half: Pair
) -> None:
    page, lost = open_page(url=half.url), half.goes.http
    watcher_of(page).expect(404)  # nobody lists it any more
    page.goto("/nodes")
    expect(row(page, "nodes", lost)).to_contain_text(re.compile(r"gone\s+as of \d"))
    shoot(page, "lost-nodes", ("light", "dark", "phone"))
    page.get_by_role("link", name=lost).click()
    expect(page.locator(".notice.bad")).to_contain_text("Below is what it told last, at")
    expect(page.locator("#table-topics")).to_contain_text(TOPIC)


def test_a_page_that_is_open_meanwhile_shows_no_dip(open_page: OpenPage) -> None:
    with running_pair() as pair:
        page = open_page(url=pair.url)
        page.goto(f"/topics/{TOPIC}")
        expect(tile(page, "Backlog")).to_have_text("5")
        page.evaluate("""() => { window.seen = new Set();
          const look = () => { seen.add(document.querySelector(".tile-value").textContent);
            requestAnimationFrame(look); }; look(); }""")  # fmt: skip
        pair.goes.kill()
        expect(tile(page, "Backlog")).to_have_class(re.compile("stale"))
        assert page.evaluate("[...seen]") == ["5"]
        page.goto("about:blank")
