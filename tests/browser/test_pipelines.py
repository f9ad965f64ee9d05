"""The pages of pipelines: all of them, one of them, and the pages that link to them."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Locator, Page, Route, expect

from tools.browser.site import Site, ask
from tools.browser.watching import Watcher

FIGURES = """() => ["Lag", "Batch time", "State"].map((label) => [
  [...document.querySelectorAll(".tile")]
    .find((each) => each.querySelector(".tile-label").textContent === label)
    .querySelector(".tile-value").textContent,
  [...document.querySelectorAll("figure.chart")].find((each) => each.textContent.startsWith(label))
    .querySelector(".legend").textContent.trim()])"""
"""Figures of a pipeline beside what the legends of their charts say."""


def row_of(page: Page, name: str) -> Locator:
    head = page.get_by_role("rowheader").filter(has_text=name)
    return page.locator("#table-pipelines tbody tr").filter(has=head)


def test_all_pipelines(page: Page) -> None:
    page.goto("/pipelines")
    metrics, hooks = row_of(page, "order-metrics"), row_of(page, "order-hooks")
    for text in ("running", "nsq orders → nsq order_metrics", "/s", "ms"):
        expect(metrics).to_contain_text(text)
    expect(metrics.locator("svg.sparkline path.line")).to_be_visible()
    expect(hooks).to_contain_text("failed")
    expect(page.locator("#table-pipelines tr.detail")).to_contain_text("503 Service Unavailable")


def test_one_pipeline(page: Page) -> None:
    page.goto("/pipelines")
    row_of(page, "order-metrics").get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("order-metrics")
    for label, figure in (("In", r"k?/s"), ("Lag", r"\d"), ("Batch time", "ms"), ("State", r"\d")):
        tile = page.locator(".tile", has=page.get_by_text(label, exact=True))
        expect(tile.locator(".tile-value")).to_have_text(re.compile(figure))
    for title in ("Traffic", "Lag", "Batch time", "State"):
        chart = page.locator("figure.chart", has_text=title)
        expect(chart.locator("svg.plot path.line").first).to_be_visible()
    expect(page.locator("pre.sql")).to_contain_text("group by window(ts, '1 minute'), item")
    about = page.locator("#about")
    about.get_by_role("link", name="warehouse").click()
    expect(page.get_by_role("link", name="order-metrics")).to_be_visible()
    page.go_back()
    about.get_by_role("link", name="orders", exact=True).click()
    expect(page.locator("#readers").get_by_role("link", name="order-metrics")).to_be_visible()


def test_a_figure_has_one_value_on_the_page(page: Page) -> None:
    page.goto("/pipelines/6a1d2c60-0000-4000-8000-000000000001")
    expect(page.locator("figure.chart .legend").first).to_contain_text(re.compile(r"\d"))
    seen = set()
    for _ in range(24):
        told = page.evaluate(FIGURES)
        assert all(shown.endswith(value) for value, shown in told), told
        seen.add(str(told))
        page.wait_for_timeout(250)
    assert len(seen) > 1, "the figures move"


def test_one_that_has_failed_is_told_on_the_overview(page: Page) -> None:
    page.goto("/")
    alert = page.locator("#attention li", has_text="order-hooks")
    expect(alert).to_contain_text("failed: ")
    alert.get_by_role("link").click()
    expect(page.locator(".notice.bad")).to_contain_text("503 Service Unavailable")


def test_one_that_says_nothing_more_is_silent(page: Page, site: Site) -> None:
    def answer(route: Route) -> None:
        told = route.fetch().json()
        for each in told["pipelines"]:
            if each["name"] == "clicks-archive":
                each.update(state="silent", age=95)
        route.fulfill(json=told)

    page.route("**/api/pipelines", answer)
    page.goto("/pipelines")
    expect(row_of(page, "clicks-archive")).to_contain_text("silent 1m 35s")


def test_one_that_runs_after_an_error(page: Page, site: Site) -> None:
    told: dict[str, Any] = {"id": "again", "name": "again", "state": "failed", "error": "no node"}
    assert ask(site.nodes[1], "POST", "/pipelines", told)[0] == 200
    del told["error"]
    told["state"] = "running"
    assert ask(site.nodes[1], "POST", "/pipelines", told)[0] == 200
    page.goto("/pipelines/again")
    expect(page.locator(".notice.warn")).to_contain_text("no node It has begun again since.")
    assert ask(site.nodes[1], "POST", "/pipelines", told | {"batch": 1})[0] == 200
    expect(page.locator(".notice.warn")).to_contain_text("no node It has run since.")


def test_one_before_its_first_batch_has_the_lag_of_its_log(page: Page, site: Site) -> None:
    site.make("windows", bodies=(b"1", b"2", b"3"))
    offsets = {"offsets": {"0": 0}}
    path = "/log/commit?topic=windows&group=price-windows"
    assert ask(site.nodes[0], "POST", path, offsets)[0] == 200
    page.goto("/pipelines")
    slow = row_of(page, "price-windows")
    for text in ("starting", "no batch yet"):
        expect(slow).to_contain_text(text)
    expect(slow.locator("td").nth(5)).to_have_text("3")
    assert "0 ns" not in (slow.text_content() or "")
    slow.get_by_role("link").click()
    expect(page.locator(".tile", has_text="Batch time")).to_contain_text("no batch yet")
    expect(page.locator(".tile", has_text="Lag").locator(".tile-value")).to_have_text("3")


def test_restarts_are_counted(page: Page) -> None:
    page.goto("/pipelines")
    assert page.locator("#table-pipelines thead").text_content()
    expect(row_of(page, "clicks-archive").locator("td").nth(7)).to_have_text("1")
    expect(row_of(page, "order-metrics").locator("td").nth(7)).to_have_text("0")
    row_of(page, "clicks-archive").get_by_role("link").click()
    restarts = page.locator(".tile", has_text="Restarts")
    expect(restarts.locator(".tile-value")).to_have_text("1")
    expect(restarts).to_contain_text("ago")


def test_one_that_nobody_knows(page: Page, watcher: Watcher) -> None:
    watcher.expect(404)
    page.goto("/pipelines/none")
    expect(page.locator("main")).to_contain_text("No node knows this pipeline")


def test_none_at_all(page: Page) -> None:
    page.route(
        "**/api/pipelines", lambda route: route.fulfill(json={"pipelines": [], "message": ""})
    )
    page.goto("/pipelines")
    expect(page.locator("main")).to_contain_text("penstock pipeline run metrics.toml")
