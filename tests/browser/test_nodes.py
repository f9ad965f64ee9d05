"""The page of all nodes."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from os import kill

from playwright.sync_api import Locator, Page, Route, expect

from penstock import __version__
from penstock.testing.daemons import Daemon, run_nsqadmin
from tools.browser.site import PATIENT, Site, ask

from .conftest import OpenPage

FIGURE = re.compile(r"\d")


def row_of(page: Page, node: str) -> Locator:
    """The row of a node."""
    return page.locator("#table-nodes tbody tr").filter(has=page.get_by_role("link", name=node))


def cell(page: Page, node: str, title: str) -> Locator:
    """The cell of a node below this title; the first column has no such."""
    heads = page.locator("#table-nodes thead th")
    expect(heads.filter(has_text=re.compile(f"^{title}\\W*$"))).to_have_count(1)
    titles = [re.sub(r"\W*$", "", text) for text in heads.all_inner_texts()]
    return row_of(page, node).locator("td").nth(titles.index(title) - 1)


@contextmanager
def stopped(daemon: Daemon) -> Iterator[None]:
    """A daemon that accepts connections and does not answer."""
    kill(daemon.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        kill(daemon.pid, signal.SIGCONT)


def test_all_nodes_with_their_figures(page: Page, site: Site) -> None:
    page.goto("/nodes")
    expect(page.locator("h1")).to_contain_text("Nodes")
    expect(page).to_have_title(re.compile(r"^Nodes \(3\)"))
    for node in site.nodes:
        expect(cell(page, node, "Backlog")).to_have_text(FIGURE)
        expect(cell(page, node, "In")).to_have_text(re.compile(r"\d/s$"))
    expect(page.get_by_role("columnheader", name="Zone")).to_have_count(0)


def test_what_is_known_of_a_node_unfolds_and_stays_in_the_address(page: Page, site: Site) -> None:
    node = site.nodes[1]
    page.goto("/nodes")
    page.get_by_role("button", name=f"Open what is known of {node}").click()
    expect(page.get_by_text(f"Registered with {site.lookupd.http}/")).to_be_visible()
    expect(page.locator("tr.detail").get_by_role("link", name="reminders")).to_be_visible()
    page.reload()
    expect(page.locator("tr.detail").get_by_role("link", name="reminders")).to_be_visible()
    page.get_by_role("button", name=f"Close what is known of {node}").click()
    expect(page.locator("tr.detail")).to_have_count(0)
    assert "open=" not in page.url


def test_a_tombstone_is_marked(page: Page, site: Site) -> None:
    site.make("tombstoned-here", node=2)
    hidden = f"/topic/tombstone?topic=tombstoned-here&node={site.nodes[2]}"
    assert ask(site.lookupd.http, "POST", hidden)[0] == 200
    page.goto(f"/nodes?open={site.nodes[2]}")
    expect(row_of(page, site.nodes[2])).to_contain_text("1 tombstoned")
    topic = page.locator("tr.detail li").filter(has_text="tombstoned-here")
    expect(topic.get_by_text("tombstoned", exact=True)).to_be_visible()
    ask(site.nsqds[2].http, "POST", "/topic/delete?topic=tombstoned-here")


def test_a_node_killed_while_one_looks(page: Page, site: Site) -> None:
    with site.another_nsqd("--topology-region=north", "--topology-zone=n1") as nsqd:
        page.goto("/nodes")
        row = row_of(page, nsqd.http)
        expect(row).to_contain_text("north")
        expect(row).to_contain_text("n1")
        expect(cell(page, nsqd.http, "Backlog")).to_have_text("0")
        nsqd.kill()
        expect(row.get_by_text("gone", exact=True)).to_be_visible()
        expect(cell(page, nsqd.http, "Backlog")).to_have_text("–")
        expect(page).to_have_title(re.compile(r"^Nodes \(3\)"))
        expect(cell(page, site.nodes[0], "Backlog")).to_have_text(FIGURE)


def test_the_machines_under_the_nodes(page: Page, site: Site) -> None:
    page.goto("/nodes")
    node = site.nodes[2]  # the one with RocketMQ's port
    expect(cell(page, node, "Health")).to_have_text("healthy")
    expect(cell(page, node, "Up")).to_have_text(re.compile(r"\d+s"))
    expect(cell(page, node, "CPU")).to_have_text(re.compile(r"^\d+ %$"))
    for title in ("Memory", "Disk free"):
        expect(cell(page, node, title)).to_have_text(re.compile(r"^\d.* [MGT]iB$"))
    expect(cell(page, node, "Ports")).to_have_text(re.compile(r"^\d+ TCP, \d+ HTTP, \d+ RocketMQ$"))
    expect(cell(page, node, "Connections").locator("span")).to_have_attribute(
        "title", re.compile(r"^NSQ \d+, RocketMQ \d+$")
    )
    expect(cell(page, node, "Version")).to_have_text(f"1.3.0 · Penstock {__version__}")


def test_why_a_node_is_unwell_and_what_gos_does_not_tell(page: Page, site: Site) -> None:
    full, go, _ = site.nodes

    def answer(route: Route) -> None:
        told = route.fetch().json()
        for each in told["machines"]:
            if each["node"] == full:
                each |= {"health": "NOK - no space left", "missing": ["NOK - not registered"],
                         "disk": {"total": 1 << 40, "used": 99 << 30, "free": 1 << 30}}  # fmt: skip
            if each["node"] == go:
                each |= dict.fromkeys(
                    ("penstock_version", "missing", "disk", "resident", "cpu_seconds", "cpus",
                     "connections")
                ) | {"heap": 5 << 20}  # fmt: skip
        route.fulfill(json=told)

    page.route("**/api/machines*", answer)
    page.goto("/nodes")
    expect(cell(page, full, "Health")).to_contain_text("unhealthy no space left and 2 more")
    expect(cell(page, full, "Health").locator(".badge")).to_have_attribute(
        "title", "no space left\nnot registered\n1 % of the disk is free"
    )
    expect(row_of(page, full)).to_have_class("bad")
    expect(cell(page, go, "Health")).to_have_text("healthy")
    for title in ("CPU", "Disk free", "Connections"):
        expect(cell(page, go, title)).to_have_text("not told")
    expect(cell(page, go, "Memory")).to_have_text("5 MiB")
    expect(cell(page, go, "Version")).to_have_text("1.3.0")


def test_a_node_that_hangs_is_named(page: Page, site: Site) -> None:
    with site.another_nsqd() as nsqd, stopped(nsqd):
        page.goto("/nodes")
        row = row_of(page, nsqd.http)
        expect(row.get_by_text("no answer", exact=True)).to_be_visible()
        expect(page.locator(".warnings")).to_contain_text(nsqd.http)
        expect(row_of(page, site.nodes[0]).get_by_text("no answer")).to_have_count(0)


def test_an_old_version_is_marked(page: Page, site: Site) -> None:
    def aged(route: Route) -> None:
        told = route.fetch().json()
        told["nodes"][0] |= {"version": "1.2.0", "out_of_date": True}
        route.fulfill(json=told)

    page.route("**/api/nodes", aged)
    page.goto("/nodes")
    expect(page.locator("#table-nodes tbody tr.warn")).to_contain_text(
        f"1.2.0 · Penstock {__version__} out of date"
    )
    expect(page.get_by_text("out of date")).to_have_count(1)


def test_without_nsqlookupds_a_dead_node_is_a_warning(open_page: OpenPage, site: Site) -> None:
    with site.another_nsqd() as nsqd:
        flags = [f"--nsqd-http-address={node}" for node in (*site.nodes, nsqd.http)]
        with run_nsqadmin(*PATIENT, *flags, "--history-interval=1s") as admin:
            page = open_page(url=f"http://{admin.http}")
            page.goto("/nodes")
            expect(row_of(page, nsqd.http)).to_be_visible()
            expect(page.get_by_role("columnheader", name="nsqlookupds")).to_have_count(0)
            nsqd.kill()
            expect(row_of(page, nsqd.http).get_by_text("gone", exact=True)).to_be_visible()
            expect(page.locator("main")).to_contain_text(f"//{nsqd.http}/")
            page.goto("about:blank")
