"""nsqadmin's pages in a real Chromium, over a real cluster with traffic.

Tests are plain functions (Playwright's blocking API has an event loop in this thread, so nothing
here may use asyncio):

    def test_pausing_a_topic(page: Page, site: Site) -> None:
        site.make("pausing", "c")                   # a topic of one's own, where a test changes it
        page.goto("/topics/pausing")
        page.get_by_role("button", name="Pause").click()
        expect(page.get_by_text("paused")).to_be_visible()     # waits; never sleep
        until(lambda: site.stats("pausing")["paused"])         # what became of it on the node

- `site`: the cluster (`tools.browser.site`); its topics and traffic: `tools.browser.traffic`.
- `page`: a new page, `page.goto("/topics")` is relative to nsqadmin. **A test fails at its end when
  the page had** an error in the console, an uncaught exception, a violation of the
  Content-Security-Policy, a request to another host, a failed request, or a response of 400 and
  above. Who wants to see a failure says so: `watcher.expect(403)`, `watcher.expect_lost_server()`.
- `open_page`: opens more of them: `open_page(color_scheme="dark")`, `open_page(viewport=PHONE)`,
  `open_page(extra_http_headers={"X-Forwarded-User": "alice"})`; it takes what Playwright's
  `new_context` does. `watcher_of(page)` is its watcher.
- `start_admin`: another nsqadmin over the same cluster, until the end of the test:
  `open_page(url=start_admin("--base-path=/nsq", "--admin-user=alice"))`.
- `with site.another_nsqd() as nsqd`: a node that may be killed (`nsqd.kill()`).
- `shoot(page, "topic", ("light", "dark", "phone"))` writes topic.png, topic-dark.png and
  topic-phone.png into build/screenshots (`tools.browser.shooting`).

Never wait for `networkidle`: the stream of events is a request without end.

The cluster and the browser are shared by all tests here: leave the shop's topics as they are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Protocol
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tools.browser.chromium import REMEDY, find_chromium, run_chromium
from tools.browser.shooting import DESKTOP
from tools.browser.site import Site, running_site
from tools.browser.watching import Watcher

PATIENCE_MS = 60_000

expect.set_options(timeout=PATIENCE_MS)
DEFAULTS: dict[str, Any] = {"viewport": DESKTOP, "reduced_motion": "reduce"}
"""Of all pages."""


StartAdmin = Callable[..., str]
"""Flags in, its address out."""


class OpenPage(Protocol):
    """What the fixture `open_page` is."""

    def __call__(self, *, url: str | None = None, **context: Any) -> Page: ...


# Of the package: nothing of Playwright may be left when asyncio's tests come, in other folders.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Chromium. Skipped where there is none, but not in CI."""
    if find_chromium() is None and not os.environ.get("CI"):
        pytest.skip(REMEDY)
    with run_chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def site(browser: Browser) -> Iterator[Site]:
    """The cluster with its traffic; not started in vain where there is no browser.

    Each file has its own: what its tests make, delete and leave behind is on every page.
    """
    with running_site() as site:
        yield site


@pytest.fixture
def watchers() -> Iterator[dict[BrowserContext, Watcher]]:
    """Those of the test's pages. The test fails if one of them had a problem."""
    watchers: dict[BrowserContext, Watcher] = {}
    yield watchers
    problems = [problem for watcher in watchers.values() for problem in watcher.problems]
    assert not problems, "\n".join(problems)


@pytest.fixture
def start_admin(site: Site) -> Iterator[StartAdmin]:
    """Starts further nsqadmins over the same cluster, which outlive the test's pages."""
    with ExitStack() as stack:
        yield lambda *flags: f"http://{stack.enter_context(site.another_admin(*flags)).http}"


@pytest.fixture
def open_page(
    browser: Browser,
    site: Site,
    watchers: dict[BrowserContext, Watcher],
    start_admin: StartAdmin,
) -> Iterator[OpenPage]:
    """Opens watched pages, each in a context of its own."""
    opened: list[BrowserContext] = []

    def open_page(*, url: str | None = None, **options: Any) -> Page:
        base = url or site.url
        context = browser.new_context(**{"base_url": base, **DEFAULTS, **options})
        opened.append(context)
        context.set_default_timeout(PATIENCE_MS)
        watchers[context] = Watcher(context, urlsplit(base).netloc)
        return context.new_page()

    yield open_page
    for context in opened:
        context.close()


@pytest.fixture
def page(open_page: OpenPage) -> Page:
    """A new page of the cluster's nsqadmin."""
    return open_page()


@pytest.fixture
def watcher(page: Page, watchers: dict[BrowserContext, Watcher]) -> Watcher:
    """The watcher of `page`."""
    return watchers[page.context]


@pytest.fixture
def watcher_of(watchers: dict[BrowserContext, Watcher]) -> Any:
    """The watcher of any page that the test has opened."""
    return lambda page: watchers[page.context]
