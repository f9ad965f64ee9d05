"""Pages of other sites change nothing, whatever requests they make the browser send; our own do.

Chromium sends Sec-Fetch-Site only to https, localhost and 127.0.0.1. The names that end in `.test`
lead to 127.0.0.1, too, but requests to them only have Origin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect

from penstock.testing.daemons import run_nsqadmin, run_nsqd, run_nsqlookupd
from tools.browser.site import PATIENT, ask
from tools.browser.watching import Watcher

from .conftest import OpenPage
from .other_sites import empty_pages, proxy
from .test_actions import agree, make_on, press

TOPICS = ("deleted", "emptied")
SEND_FORM = """([url, name, value]) => {
  const form = document.createElement("form");
  Object.assign(form, { method: "post", enctype: "text/plain", action: url });
  const input = document.createElement("input");
  Object.assign(input, { name, value });
  document.body.append(form);
  form.append(input);
  form.submit();
}"""
SEND_FETCH = """([url, name, value]) =>
  fetch(url, { method: "POST", mode: "no-cors", body: `${name}=${value}` }).then(() => null)"""
EMPTY = ('{"action": "empty", "x": "', '"}')  # with the `=` of a form between them it is JSON


class Cluster(NamedTuple):
    """Addresses of an nsqd, of an nsqlookupd and of an nsqadmin that knows the nsqd."""

    nsqd: str
    lookupd: str
    admin: str

    def fill(self) -> None:
        """A message in channel `c` of two topics at nsqd, and a topic that nsqlookupd knows."""
        for topic in TOPICS:
            make_on(self.nsqd, topic)
            assert ask(self.nsqd, "POST", f"/pub?topic={topic}", b"x")[0] == 200
        assert ask(self.lookupd, "POST", "/topic/create?topic=known")[0] == 200

    def unharmed(self) -> dict[str, bool]:
        """True for each daemon that still has its part of that."""
        stats = ask(self.nsqd, "GET", "/stats?format=json")[1]["topics"]
        depths = {each["topic_name"]: each["channels"][0]["depth"] for each in stats}
        return {
            "nsqd": "deleted" in depths,
            "lookupd": "known" in ask(self.lookupd, "GET", "/topics")[1]["topics"],
            "admin": depths["emptied"] > 0,
        }


@contextmanager
def running_cluster(*flags: str) -> Iterator[Cluster]:
    with run_nsqd(*flags) as nsqd, run_nsqlookupd(*flags) as lookupd:
        nodes = (f"--nsqd-http-address={nsqd.http}", "--history-interval=0")
        with run_nsqadmin(*PATIENT, *nodes, *flags) as admin:
            cluster = Cluster(nsqd.http, lookupd.http, admin.http)
            cluster.fill()
            yield cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster() as cluster:
        yield cluster


def attack(browser: Browser, page_at: str, host: str, cluster: Cluster, script: str) -> None:
    """Have a page try to delete a topic at nsqd and at nsqlookupd, and to empty a channel."""
    targets = {
        "nsqd": "/topic/delete?topic=deleted",
        "lookupd": "/topic/delete?topic=known",
        "admin": "/api/topics/emptied/c",
    }
    for daemon, target in targets.items():
        port = getattr(cluster, daemon).rpartition(":")[2]
        page = browser.new_page()
        page.goto(page_at)
        arguments = [f"http://{host}:{port}{target}", *EMPTY]
        with page.expect_response(lambda response: response.request.method == "POST"):
            page.evaluate(script, arguments)
        page.close()


@pytest.mark.parametrize("script", [SEND_FORM, SEND_FETCH], ids=["form", "fetch"])
@pytest.mark.parametrize(
    ("page_host", "host"),
    [
        ("127.0.0.1", "127.0.0.1"),  # same-site for Chromium: only the port differs
        ("localhost", "127.0.0.1"),
        ("127.0.0.1", "localhost"),
        ("evil.test", "127.0.0.1"),
        ("evil.test", "penstock.test"),  # without Sec-Fetch-Site
    ],
)
def test_a_page_of_another_site_has_no_effect(
    browser: Browser, cluster: Cluster, page_host: str, host: str, script: str
) -> None:
    with empty_pages() as port:
        attack(browser, f"http://{page_host}:{port}/", host, cluster, script)
    assert cluster.unharmed() == {"nsqd": True, "lookupd": True, "admin": True}


def test_a_page_of_a_site_that_is_allowed_has(browser: Browser) -> None:
    """The attacks above work if nothing refuses them."""
    with empty_pages() as port:
        page_at = f"http://evil.test:{port}"
        with running_cluster(f"--http-allowed-origin={page_at}") as cluster:
            for script in (SEND_FORM, SEND_FETCH):
                attack(browser, f"{page_at}/", "penstock.test", cluster, script)
                assert cluster.unharmed() == {"nsqd": False, "lookupd": False, "admin": False}
                cluster.fill()


def pause(page: Page, cluster: Cluster, topic: str) -> None:
    """Pauses a topic by clicks; `page` is relative to nsqadmin."""
    make_on(cluster.nsqd, topic)
    page.goto(f"topics/{topic}")
    agree(press(page, "Pause"), "Pause")
    page.close()
    assert is_paused(cluster, topic)


def is_paused(cluster: Cluster, topic: str) -> bool:
    stats = ask(cluster.nsqd, "GET", f"/stats?format=json&topic={topic}")[1]
    return bool(stats["topics"][0]["paused"])


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "penstock.test"])
def test_pages_of_nsqadmin_change_what_they_are_to(
    host: str, cluster: Cluster, open_page: OpenPage
) -> None:
    page = open_page(url=f"http://{host}:{cluster.admin.rpartition(':')[2]}/")
    pause(page, cluster, f"paused-at-{host}")


@pytest.mark.parametrize("way", ["--trusted-proxy=127.0.0.0/8", "--http-allowed-origin={}"])
def test_behind_a_proxy_with_a_prefix_and_another_name(
    way: str, cluster: Cluster, open_page: OpenPage
) -> None:
    with proxy() as server:
        origin = f"http://ops.test:{server.server_port}"
        nodes = (f"--nsqd-http-address={cluster.nsqd}", "--history-interval=0", "--base-path=/nsq")
        with run_nsqadmin(*PATIENT, *nodes, way.format(origin)) as admin:
            server.upstream = admin.http
            pause(open_page(url=f"{origin}/nsq/"), cluster, f"paused-by{way[:9]}")


def test_a_proxy_that_nobody_knows_is_told_what_to_do(
    cluster: Cluster, open_page: OpenPage, watcher_of: Callable[[Page], Watcher]
) -> None:
    make_on(cluster.nsqd, "unpaused")
    with proxy() as server:
        server.upstream = cluster.admin
        page = open_page(url=(origin := f"http://ops.test:{server.server_port}"))
        watcher_of(page).expect(403)
        page.goto("topics/unpaused")
        press(page, "Pause").get_by_role("button", name="Pause", exact=True).click()
        told = f"the header Origin: {origin} is another site's (see --http-allowed-origin={origin})"
        expect(page.get_by_text(told)).to_be_visible()
        page.close()
    assert not is_paused(cluster, "unpaused")


def test_a_name_that_came_to_lead_here_reads_what_is_there(
    browser: Browser, cluster: Cluster
) -> None:
    """DNS rebinding: to the browser the page and the daemon are one site."""
    assert statuses(browser, cluster, "rebound.test") == [200, 200, 200]


def test_and_nothing_where_names_are_listed(browser: Browser) -> None:
    with running_cluster("--http-allowed-host=localhost") as cluster:
        assert statuses(browser, cluster, "rebound.test") == [403, 403, 403]
        assert statuses(browser, cluster, "localhost") == [200, 200, 200]


def statuses(browser: Browser, cluster: Cluster, host: str) -> list[int]:
    """The statuses of a page of each daemon under this name."""
    page = browser.new_page()
    found = []
    for address, path in zip(cluster, ("/stats", "/topics", "/api/topics"), strict=True):
        answer = page.goto(f"http://{host}:{address.rpartition(':')[2]}{path}")
        assert answer is not None
        found.append(answer.status)
        assert ("--http-allowed-host=" in answer.text()) is (answer.status == 403)
    page.close()
    return found
