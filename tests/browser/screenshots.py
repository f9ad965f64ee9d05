"""Every page of nsqadmin, light, dark and at a phone's width, in build/screenshots.

    python -m tests.browser.screenshots [NAME...]      all of them, or these

For people to look at: a cluster with traffic runs for some seconds, so that charts have lines.
"""

from __future__ import annotations

import argparse
import sys
from typing import NamedTuple
from urllib.parse import urlsplit

from playwright.sync_api import Browser

from tests.browser.chromium import run_chromium
from tests.browser.shooting import DESKTOP, FOLDER, shoot
from tests.browser.site import Site, ask, running_site, until
from tests.browser.watching import Watcher

POINTS = 15
"""Points that the charts have at least; one a second."""
SETTLE_MS = 700
"""For answers to come and charts to be drawn: a picture has nothing that could be waited for."""


class Shot(NamedTuple):
    """A page: its path, a key to press or the name of a button to click, statuses that it gets."""

    path: str
    key: str = ""
    button: str = ""
    statuses: tuple[int, ...] = ()


SHOTS = {
    "overview": Shot("/"),
    "topics": Shot("/topics"),
    "topics-found": Shot("/topics?topics.find=pay&topics.sort=-waiting"),
    "topic": Shot("/topics/orders"),
    "topic-messages": Shot("/topics/notes?tab=messages"),
    "topic-delete": Shot("/topics/clicks", button="Delete"),
    "channel": Shot("/topics/orders/shipping"),
    "channel-messages": Shot("/topics/clicks/archive?tab=messages"),
    "channel-deferred": Shot("/topics/reminders/mailer?tab=deferred"),
    "nodes": Shot("/nodes"),
    "node": Shot("/nodes/{node}"),
    "counter": Shot("/counter"),
    "lookup": Shot("/lookup"),
    "groups": Shot("/groups"),
    "pipelines": Shot("/pipelines"),
    "pipeline": Shot("/pipelines/6a1d2c60-0000-4000-8000-000000000001"),
    "pipeline-failed": Shot("/pipelines/6a1d2c60-0000-4000-8000-000000000003"),
    "deadletters": Shot("/deadletters"),
    "deadletter": Shot("/deadletters/payments.dead"),
    "missing": Shot("/topics/no-such-topic", statuses=(404, 502)),
    "palette": Shot("/topics", key="/"),
    "keys": Shot("/topics", key="?"),
}
"""What is shot, by the name of the picture; `{node}` is the first node."""


def has_history(site: Site) -> bool:
    """Whether there is enough for the charts."""
    status, history = ask(site.admin.http, "GET", "/api/history")
    return status == 200 and len(history["times"]) >= POINTS


def shoot_page(browser: Browser, site: Site, name: str) -> list[str]:
    """Shoots one page; the problems that it had."""
    shot = SHOTS[name]
    context = browser.new_context(base_url=site.url, viewport=DESKTOP, reduced_motion="reduce")
    watcher = Watcher(context, urlsplit(site.url).netloc)
    watcher.expect(*shot.statuses)
    page = context.new_page()
    page.goto(shot.path.format(node=site.nodes[0]))
    page.wait_for_selector("h1")
    page.wait_for_timeout(SETTLE_MS)
    if shot.key:
        page.keyboard.press(shot.key)
    if shot.button:
        page.get_by_role("button", name=shot.button, exact=True).first.click()
    whole = not (shot.key or shot.button)  # a dialog covers the window alone
    for path in shoot(page, name, ("light", "dark", "phone"), whole=whole):
        print(path.relative_to(FOLDER.parents[1]))
    context.close()
    return watcher.problems


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SHOTS))
    names = parser.parse_args().names or list(SHOTS)
    unknown = sorted(set(names) - set(SHOTS))
    if unknown:
        parser.error(f"no page {', '.join(unknown)}; there are {', '.join(SHOTS)}")
    problems = []
    with run_chromium() as browser, running_site() as site:
        until(lambda: has_history(site), "the history", 4 * POINTS)
        for name in names:
            problems += [f"{name}: {each}" for each in shoot_page(browser, site, name)]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
