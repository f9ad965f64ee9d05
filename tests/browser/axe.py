"""What axe has against a page, as it is shown now: light or dark, wide or narrow."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Locator, Page, expect

from tools.browser.shooting import DESKTOP, FITS, PHONE

COLOURS: Final = ("color-contrast", "link-in-text-block")
"""The rules that look at colours: what else axe finds is the same in the other theme."""


_FOLLOW: Final = """
(main, path) => {
  main.dataset.left = "";
  history.pushState(null, "", path);
  dispatchEvent(new PopStateEvent("popstate"));
}
"""
_RUN: Final = "async (options) => (await axe.run(options)).violations"


def problems(page: Page, rules: tuple[str, ...] = ()) -> list[str]:
    """A line for each element that breaks one of these rules, or any rule."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    only = {"runOnly": {"type": "rule", "values": list(rules)}} if rules else {}
    found = page.evaluate(_RUN, {"resultTypes": ["violations"], **only})
    return [
        f"{page.url}: {each['id']}: {node['target']} {node['failureSummary']}"
        for each in found
        for node in each["nodes"]
    ]


def problems_in_the_dark(page: Page) -> list[str]:
    """Those of the dark theme's colours; the page is light afterwards."""
    page.emulate_media(color_scheme="dark")
    found = [f"dark: {each}" for each in problems(page, COLOURS)]
    page.emulate_media(color_scheme="light")
    return found


def problems_on_a_phone(page: Page) -> list[str]:
    """Those at a phone's width, where tables scroll and columns go; the page is wide afterwards."""
    page.set_viewport_size(PHONE)
    page.wait_for_function(FITS)
    found = [f"phone: {each}" for each in problems(page)]
    page.set_viewport_size(DESKTOP)
    return found


def in_all_looks(page: Page) -> list[str]:
    """The problems in each theme and at each width."""
    return [*problems(page), *problems_in_the_dark(page), *problems_on_a_phone(page)]


def settled(page: Page, path: str, shown: str) -> Page:
    """The page, once it shows what is shown last."""
    page.goto(path)
    return _once_there(page, page.locator(shown))


def followed(page: Page, path: str, shown: str) -> Page:
    """The same as by a link from the page before: no document is loaded again, which is cheap."""
    if urlsplit(page.url).path == urlsplit(path).path:
        return settled(page, path, shown)  # the page would keep what is waited for
    page.locator("main").evaluate(_FOLLOW, path)  # which waits until it is there
    return _once_there(page, page.locator("main:not([data-left])").locator(shown))


def _once_there(page: Page, shown: Locator) -> Page:
    expect(shown.first).to_be_visible()
    expect(page.locator("main .loading")).to_have_count(0)
    return page
