"""What all pages have in common: they are there, at any width, in both themes, under any path."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tools.browser.shooting import PHONE
from tools.browser.site import Site

from .conftest import OpenPage, StartAdmin

TITLES = {
    "/": "Overview",
    "/topics": "Topics",
    "/topics/orders": "orders",
    "/topics/orders/billing": "billing",
    "/nodes": "Nodes",
    "/nodes/{node}": "{node}",
    "/counter": "Counter",
    "/lookup": "Lookup",
    "/groups": "Groups",
    "/deadletters": "Dead letters",
    "/deadletters/payments.dead": "payments.dead",
}
"""Of each path; `{node}` is the first node."""
MENU = ("Overview", "Topics", "Nodes", "Groups", "Dead letters", "Lookup", "Counter")
_FITS = "() => document.documentElement.scrollWidth <= document.documentElement.clientWidth"
"""A function: Playwright evaluates an expression at each look, which the page's policy forbids."""
_BRIGHTNESS = """
() => {
  const colour = getComputedStyle(document.body).backgroundColor;
  const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
  const context = canvas.getContext("2d");
  context.fillStyle = colour;
  context.fillRect(0, 0, 1, 1);
  return [...context.getImageData(0, 0, 1, 1).data.slice(0, 3)].reduce((sum, each) => sum + each);
}
"""
_MIDDLE = 3 * 255 / 2


def is_dark(page: Page) -> bool:
    """Whether the page's background is nearer to black than to white."""
    return bool(page.evaluate(_BRIGHTNESS) < _MIDDLE)


@pytest.mark.parametrize("path", TITLES)
def test_every_path_has_a_page(page: Page, site: Site, path: str) -> None:
    node = site.nodes[0]
    answer = page.goto(path.format(node=node))
    assert answer is not None
    assert answer.status == 200
    expect(page.locator("h1")).to_contain_text(TITLES[path].format(node=node))
    expect(page.locator("main .loading")).to_have_count(0)
    page.set_viewport_size(PHONE)
    page.wait_for_function(_FITS)


def test_the_policy_lets_nothing_in_from_outside(page: Page) -> None:
    answer = page.goto("/")
    assert answer is not None
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "style-src 'self';" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


def test_the_base_path(open_page: OpenPage, start_admin: StartAdmin) -> None:
    page = open_page(url=start_admin("--base-path=/nsq"))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.split("/", 3)[3]))
    page.goto("/nsq")
    for name in MENU:
        page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).click()
        expect(page.locator("h1")).to_contain_text(name)
    page.goto("/nsq/topics")
    page.get_by_role("link", name="orders", exact=True).click()
    page.get_by_role("link", name="billing", exact=True).click()
    expect(page).to_have_url(f"{page.url.split('/nsq')[0]}/nsq/topics/orders/billing")
    expect(page.locator("h1")).to_contain_text("billing")
    assert [url for url in asked if url.split("/")[0] != "nsq"] == []


def test_links_back_and_forward_load_no_document_again(page: Page) -> None:
    page.goto("/topics")
    page.evaluate("document.mark = 'the same document'")
    page.get_by_role("link", name="orders", exact=True).click()
    expect(page.locator("h1")).to_contain_text("orders")
    page.go_back()
    expect(page.locator("h1")).to_contain_text("Topics")
    page.go_forward()
    expect(page.locator("h1")).to_contain_text("orders")
    assert page.evaluate("document.mark") == "the same document"


def test_dark_and_light_follow_the_system(page: Page) -> None:
    page.goto("/lookup")
    for scheme in ("dark", "light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert is_dark(page) == (scheme == "dark")


def test_a_chosen_theme_stays(open_page: OpenPage) -> None:
    page = open_page(color_scheme="light")
    page.goto("/lookup")
    button = page.get_by_role("button", name="Theme")
    while "dark" not in (button.get_attribute("aria-label") or ""):
        label = button.get_attribute("aria-label")
        button.click()
        expect(button).not_to_have_attribute("aria-label", label or "")
    assert is_dark(page)
    page.reload()
    expect(button).to_have_attribute("aria-label", "Theme: dark")
    assert is_dark(page)


@pytest.mark.parametrize("path", ["/", "/topics", "/topics/orders", "/nodes", "/groups"])
def test_a_first_page_takes_few_requests(open_page: OpenPage, path: str) -> None:
    page = open_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(urlsplit(request.url).path))
    page.goto(path)
    expect(page.locator("h1")).to_be_visible()
    expect(page.get_by_text("Loading")).to_have_count(0)
    files = [each for each in asked if "/static/" in each]
    assert sorted(each.rpartition("/")[2] for each in files) == ["app.css", "app.js"]
    assert len(asked) < 16, asked
