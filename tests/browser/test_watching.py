"""That the watcher sees what it is there for: pages made bad on purpose."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, Route

from tools.browser.watching import Watcher

HOST = "127.0.0.1:9"
POLICY = "default-src 'none'; script-src 'unsafe-inline'; img-src * data:"


def shown(browser: Browser, body: str, *expected: int) -> list[str]:
    """The problems of a page with this body; no server is needed for it."""
    context = browser.new_context()
    watcher = Watcher(context, HOST)
    watcher.expect(*expected)

    def answer(route: Route) -> None:
        if route.request.url.endswith("/page"):
            head = '<!doctype html><link rel="icon" href="data:,">'
            headers = {"Content-Security-Policy": POLICY, "Content-Type": "text/html"}
            route.fulfill(status=200, headers=headers, body=head + body)
        elif route.request.url.endswith("/broken"):
            route.abort()
        else:
            route.fulfill(status=403, body="no")

    context.route("**/*", answer)
    page = context.new_page()
    page.goto(f"http://{HOST}/page")
    page.evaluate("new Promise(requestAnimationFrame)")  # what has happened is told by then
    context.close()
    return watcher.problems


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("<script>console.error('it hurts')</script>", "console: it hurts"),
        ("<script>throw new Error('thrown')</script>", "uncaught: Error: thrown"),
        ("<script>Promise.reject(new Error('lost'))</script>", "uncaught: Error: lost"),
        ("<p style='color: red'>", "Content-Security-Policy: style-src-attr, inline"),
        ("<img src='/refused'>", f"403: http://{HOST}/refused"),
        ("<img src='/broken'>", f"GET http://{HOST}/broken: net::ERR_FAILED"),
        ("<img src='http://127.0.0.1:8/x'>", "request to another host: http://127.0.0.1:8/x"),
    ],
    ids=["console", "exception", "rejection", "policy", "status", "failed", "host"],
)
def test_problems_are_told(browser: Browser, body: str, told: str) -> None:
    assert any(told in problem for problem in shown(browser, body))


def test_a_good_page_has_none_and_expected_ones_do_not_count(browser: Browser) -> None:
    assert shown(browser, "<p>fine") == []
    assert shown(browser, "<img src='/refused'>", 403) == []


def test_a_fresh_page_is_watched(page: Page, watcher: Watcher) -> None:
    page.goto("/topics")
    assert watcher.problems == []
