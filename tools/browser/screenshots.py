"""Every page of nsqadmin, light, dark and at a phone's width, in build/screenshots.

    python -m tools.browser.screenshots [NAME...]      all of them, or these

For people to look at: a cluster with traffic runs for some seconds, so that charts have lines.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple
from urllib.parse import urlsplit

from playwright.sync_api import Browser

from tools.harness.rocketmq.shop import TOPIC

from .chromium import run_chromium
from .rocketmq_site import running_guarded, running_rocketmq
from .shooting import DESKTOP, FOLDER, shoot
from .site import Site, ask, running_site, until
from .watching import Watcher

POINTS = 15
"""Points that the charts have at least; one a second."""
SETTLE_MS = 700
"""For answers to come and charts to be drawn: a picture has nothing that could be waited for."""


NSQ, SHOP, GUARDED = "nsq", "shop", "guarded"
"""The clusters: NSQ's, RocketMQ's with something on it, RocketMQ's with access rules."""


class Shot(NamedTuple):
    """A page: its path, a key to press or the name of a button to click, statuses that it gets, and
    the cluster that it is of.
    """

    path: str
    key: str = ""
    button: str = ""
    statuses: tuple[int, ...] = ()
    of: str = NSQ
    whole: bool | None = None
    """Whether the picture is of the whole page; unless told, of what no dialog covers."""


SHOTS = {
    "overview": Shot("/"),
    "topics": Shot("/topics"),
    "topics-found": Shot("/topics?topics.find=pay&topics.sort=-waiting"),
    "topic": Shot("/topics/orders"),
    "topic-alone": Shot("/topics/clicks"),
    "topic-limits": Shot("/topics/orders", button="Limits"),
    "topic-messages": Shot("/topics/notes?tab=messages"),
    "topic-messages-all": Shot("/topics/orders?tab=messages"),
    "topic-search": Shot("/topics/orders?tab=messages&q=%24.count+%3E+6&in=json"),
    "topic-publish": Shot("/topics/orders", button="Publish"),
    "topic-delete": Shot("/topics/clicks", button="Delete"),
    "channel": Shot("/topics/orders/shipping"),
    "channel-rewind": Shot("/topics/clicks/archive", button="Rewind"),
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
    "rocketmq": Shot("/rocketmq", of=SHOP),
    "rocketmq-overview": Shot("/", of=SHOP),
    "rocketmq-topics": Shot("/rocketmq?tab=topics", of=SHOP),
    "rocketmq-groups": Shot("/rocketmq?tab=groups", of=SHOP),
    "rocketmq-servers": Shot("/rocketmq?tab=servers", of=SHOP),
    "rocketmq-accounts": Shot("/rocketmq?tab=accounts", of=GUARDED),
    "rocketmq-settings": Shot("/rocketmq?tab=settings", of=SHOP),
    "rocketmq-topic": Shot(f"/rocketmq/topics/{TOPIC}", of=SHOP),
    "rocketmq-topic-create": Shot("/rocketmq?tab=topics", button="Create a topic", of=SHOP),
    "rocketmq-topic-change": Shot(f"/rocketmq/topics/{TOPIC}", button="Change", of=SHOP),
    "rocketmq-topic-delete": Shot(f"/rocketmq/topics/{TOPIC}", button="Delete", of=SHOP),
    "rocketmq-messages": Shot(f"/rocketmq/topics/{TOPIC}?tab=messages", of=SHOP),
    "rocketmq-fate": Shot(
        f"/rocketmq/topics/{TOPIC}?tab=messages&key=trade-7&open={{message}}",
        button="What became of it?",
        of=SHOP,
        whole=True,
    ),
    "rocketmq-group": Shot("/rocketmq/groups/billing", of=SHOP),
    "rocketmq-group-letters": Shot("/rocketmq/groups/failing", of=SHOP),
    "rocketmq-group-create": Shot("/rocketmq?tab=groups", button="Create a group", of=SHOP),
    "rocketmq-group-delete": Shot("/rocketmq/groups/failing", button="Delete", of=SHOP),
    "rocketmq-reset": Shot("/rocketmq/groups/archive", button="Reset offsets", of=SHOP),
    "palette": Shot("/topics", key="/"),
    "keys": Shot("/topics", key="?"),
}
"""What is shot, by the name of the picture; `{node}` is the first node."""


class Cluster(NamedTuple):
    """A cluster that is shot: the URL of its nsqadmin, and what stands for `{...}` in paths."""

    url: str
    names: dict[str, str]
    headers: dict[str, str]


@contextmanager
def running(of: str) -> Iterator[Cluster]:
    """The cluster of this name, once there is something to see."""
    alice = {"X-Forwarded-User": "alice"}
    if of == NSQ:
        with running_site() as site:
            until(lambda: has_history(site), "the history", 4 * POINTS)
            yield Cluster(site.url, {"node": site.nodes[0]}, {})
    elif of == SHOP:
        with running_rocketmq() as (_, url):
            path = f"/api/rocketmq/messages?topic={TOPIC}&key=trade-7"
            _, found = ask(urlsplit(url).netloc, "GET", path)
            yield Cluster(url, {"message": found["messages"][0]["offset_id"]}, alice)
    else:
        with running_guarded() as url:
            yield Cluster(url, {}, alice)


def has_history(site: Site) -> bool:
    """Whether there is enough for the charts."""
    status, history = ask(site.admin.http, "GET", "/api/history")
    return status == 200 and len(history["times"]) >= POINTS


def shoot_page(browser: Browser, cluster: Cluster, name: str) -> list[str]:
    """Shoots one page; the problems that it had."""
    shot = SHOTS[name]
    context = browser.new_context(
        base_url=cluster.url, viewport=DESKTOP, reduced_motion="reduce",
        extra_http_headers=cluster.headers,
    )  # fmt: skip
    watcher = Watcher(context, urlsplit(cluster.url).netloc)
    watcher.expect(*shot.statuses)
    page = context.new_page()
    page.goto(shot.path.format(**cluster.names))
    page.wait_for_selector("h1")
    page.wait_for_timeout(SETTLE_MS)
    if shot.key:
        page.keyboard.press(shot.key)
    if shot.button:
        page.get_by_role("button", name=shot.button, exact=True).first.click()
        page.wait_for_timeout(SETTLE_MS)
    # a dialog covers the window alone
    whole = not (shot.key or shot.button) if shot.whole is None else shot.whole
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
    with run_chromium() as browser:
        for of in dict.fromkeys(SHOTS[name].of for name in names):
            with running(of) as cluster:
                for name in (each for each in names if SHOTS[each].of == of):
                    problems += [f"{name}: {it}" for it in shoot_page(browser, cluster, name)]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
