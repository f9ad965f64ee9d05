"""Groups that read logs, on their page and on those of topics; and how they keep pace."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tools.browser.site import Site


def row_of(page: Page, group: str) -> Locator:
    """The row of a group."""
    head = page.get_by_role("rowheader").filter(has_text=group)
    return page.locator("#table-groups tbody tr").filter(has=head)


def test_all_groups(page: Page) -> None:
    page.goto("/groups")
    traders, warehouse = row_of(page, "traders"), row_of(page, "warehouse")
    expect(traders).to_contain_text("RocketMQ")
    expect(traders.get_by_role("link", name="prices")).to_be_visible()
    expect(traders.locator("svg")).to_be_visible()
    expect(warehouse).to_contain_text("NSQ log")
    expect(warehouse.get_by_role("link", name="orders")).to_be_visible()
    expect(warehouse.locator("td").nth(4)).to_have_text(re.compile(r"\d"))


def test_a_group_that_nobody_consumes_for_is_told(page: Page) -> None:
    page.goto("/groups")
    expect(row_of(page, "traders")).to_contain_text(re.compile("no consumers"))


def test_the_nodes_of_a_group_unfold(page: Page, site: Site) -> None:
    page.goto("/groups")
    page.get_by_role("button", name="Open the nodes of traders").click()
    nodes = page.get_by_role("table", name="Group traders on each node")
    expect(nodes.get_by_role("link", name=site.nodes[2])).to_be_visible()
    expect(nodes).to_contain_text(re.compile(r"0: [\d,]+, 1: [\d,]+"))
    page.reload()
    expect(nodes).to_be_visible()


def test_the_groups_of_a_topic_on_its_page(page: Page) -> None:
    page.goto("/topics/orders")
    expect(row_of(page, "warehouse")).to_be_visible()
    expect(row_of(page, "traders")).to_have_count(0)
    table = page.locator("#table-groups")
    expect(table.get_by_role("columnheader", name="Topic")).to_have_count(0)


def test_the_pipeline_behind_a_group(page: Page) -> None:
    page.goto("/groups")
    row_of(page, "warehouse").get_by_role("link", name="order-metrics").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("order-metrics")


@pytest.mark.parametrize("expires_in", [3600, None])
@pytest.mark.parametrize("path", ["/groups", "/topics/orders"])
def test_a_group_that_nobody_moves_is_warned_of(
    page: Page, path: str, expires_in: int | None
) -> None:
    stale = {"lag": 1200, "owner": "q<1>", "age": 2 * 86400, "expires_in": expires_in,
             "stale": True}  # fmt: skip

    def answer(route: Route) -> None:
        told = route.fetch().json()
        for group in told["groups"]:
            if group["group"] == "warehouse":
                group.update(stale)
        route.fulfill(json=told)

    page.goto(path)
    expect(row_of(page, "warehouse")).to_be_visible()
    expect(page.locator(".notice.warn p")).to_have_count(0)
    page.route("**/api/groups*", answer)
    page.reload()
    end = "nsqd will delete it in 1h." if expires_in else "Delete it (/log/group/delete) if"
    told = f"has not moved in topic orders for 2d and holds 1,200 messages of its log. {end}"
    expect(page.locator(".notice.warn p")).to_contain_text(f"Group warehouse {told}")
    expect(row_of(page, "warehouse").get_by_text("stale")).to_be_visible()
    expect(row_of(page, "warehouse").get_by_title("Owner: q<1>")).to_be_visible()
    if path == "/groups":
        expect(row_of(page, "traders")).not_to_contain_text("stale")


def test_no_groups(page: Page) -> None:
    page.route("**/api/groups", lambda route: route.fulfill(json={"groups": [], "message": ""}))
    page.goto("/groups")
    expect(page.get_by_text("No group reads a log")).to_be_visible()


@pytest.mark.parametrize("path", ["/groups", "/topics/prices"])
def test_the_verdict_is_that_of_the_overview(page: Page, path: str) -> None:
    verdict = {"kind": "level", "level": "warn", "depth": 2500, "growth": 0, "seconds": None}

    def answer(route: Route) -> None:
        told = route.fetch().json()
        for group in told["groups"]:
            group["verdict"] = verdict
        route.fulfill(json=told)

    page.route("**/api/groups*", answer)
    page.goto(path)
    badge = row_of(page, "traders").get_by_text("stays behind")
    expect(badge).to_have_attribute("title", "2,500 messages wait, and they do not become less")
    expect(row_of(page, "traders")).to_have_class("warn")
