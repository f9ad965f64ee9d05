"""Names that are markup or scripts: no script runs, and the text is shown as it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from playwright.sync_api import Page, expect

from penstock.testing.daemons import run_nsqadmin
from tools.browser.site import PATIENT
from tools.browser.watching import Watcher

from .conftest import OpenPage
from .scripted import Scripted, scripted

IMAGE = '"><img src=x onerror="window.broken=\'image\'">'
SCRIPT = "<script>window.broken = 'script'</script>"
LINK = "javascript:window.broken='link'"
QUOTES = (
    "' onmouseover='window.broken=1' \" autofocus onfocus=\"window.broken=2\" &lt;b&gt; ${1} %s %2F"
)
TOPICS = [IMAGE, LINK, QUOTES]
CHANNELS = [QUOTES, IMAGE, LINK]
PLACES = [f"/topics/{quote(each, safe='')}" for each in TOPICS]


FIND_HARM = r"""() => {
  const isScript = ({ name, value }) =>
    name.startsWith("on") || (/^(href|src|action)$/.test(name) && /^\s*javascript:/i.test(value));
  const all = [...document.querySelectorAll("*")];
  return all.filter((each) => [...each.attributes].some(isScript))
    .concat([...document.querySelectorAll("body script, img, iframe, object, embed")])
    .map((each) => each.outerHTML);
}"""


def client(number: int) -> dict[str, Any]:
    """A consumer all of whose texts are hostile."""
    return {"client_id": IMAGE, "hostname": QUOTES, "user_agent": IMAGE, "version": SCRIPT,
            "remote_address": f"{IMAGE}:{number}", "ready_count": 0, "connect_ts": 1, "tls": True,
            "tls_version": SCRIPT, "tls_cipher_suite": QUOTES, "authed": True, "sample_rate": 7,
            "auth_identity": IMAGE, "auth_identity_url": LINK, "topology_zone": IMAGE}  # fmt: skip


def group(name: str) -> dict[str, Any]:
    """A reader of the log."""
    return {"group_name": name, "lag": 9, "rate": 1, "committed": {IMAGE: 1}}


def pipeline() -> dict[str, Any]:
    """A pipeline that reads for all of them and has failed."""
    groups = [[topic, group] for topic in TOPICS for group in CHANNELS]
    return {"id": IMAGE, "name": SCRIPT, "state": "failed", "source": IMAGE, "sink": QUOTES,
            "sql": SCRIPT, "error": LINK, "error_at": 5, "groups": groups}  # fmt: skip


def stats() -> dict[str, Any]:
    """What /stats of the node says."""
    percentiles = {"count": 1, "percentiles": [{"quantile": 0.99, "value": 5}]}
    channels = [{"channel_name": name, "depth": 5, "client_count": 2, "message_count": 7,
                 "clients": [client(1), client(2)], "e2e_processing_latency": percentiles}
                for name in CHANNELS]  # fmt: skip
    return {"version": SCRIPT, "health": IMAGE, "topics": [
        {"topic_name": name, "channels": channels, "depth": 3, "message_count": 7,
         "log_groups": [group(each) for each in CHANNELS]} for name in TOPICS]}  # fmt: skip


def node(address: str, **others: Any) -> dict[str, Any]:
    """How the nsqlookupd tells of a node."""
    host, _, port = address.rpartition(":")
    return {"remote_address": IMAGE, "hostname": QUOTES, "broadcast_address": host,
            "tcp_port": int(port), "http_port": int(port), "version": SCRIPT,
            "topics": TOPICS, "tombstones": [False, True, False], **others}  # fmt: skip


@pytest.fixture(scope="module")
def hostile() -> Iterator[str]:
    """The URL of an nsqadmin over an nsqlookupd and an nsqd that nobody should trust."""
    with scripted() as nsqd, scripted() as lookupd, scripted() as broken:
        fill(nsqd, lookupd, broken)
        flags = (f"--lookupd-http-address={lookupd.address}", "--history-interval=1s")
        with run_nsqadmin(*PATIENT, *flags) as admin:
            yield f"http://{admin.http}"


def fill(nsqd: Scripted, lookupd: Scripted, broken: Scripted) -> None:
    """`broken` is a node whose errors are pages of HTML."""
    nsqd.answers = {
        "/stats": stats(), "/info": node(nsqd.address, topics=None),
        "/pipelines": {"pipelines": [pipeline()]},
    }  # fmt: skip
    broken.answers = dict.fromkeys(("/stats", "/info"), (500, SCRIPT + IMAGE))
    producers = [node(nsqd.address), node(broken.address, hostname=IMAGE, version="0.0.1")]
    lookupd.answers = {
        "/topics": {"topics": [*TOPICS, SCRIPT]},
        "/nodes": {"producers": producers},
        "/lookup": {"channels": CHANNELS, "producers": producers},
        f"/lookup?topic={quote_plus(SCRIPT)}": {"channels": [], "producers": []},
        "/channels": {"channels": CHANNELS},
    }


@pytest.fixture
def page(open_page: OpenPage, hostile: str) -> Page:
    return open_page(url=hostile)


def assert_harmless(page: Page) -> None:
    """Nothing came of the names but text."""
    assert page.evaluate("window.broken") is None
    assert page.evaluate(FIND_HARM) == []


@pytest.mark.parametrize(
    ("path", "name"),
    [("/", IMAGE), ("/topics", LINK), ("/nodes", QUOTES), ("/groups", SCRIPT), ("/lookup", SCRIPT),
     ("/counter", "onerror")],
)  # fmt: skip
def test_lists(page: Page, path: str, name: str) -> None:
    page.goto(path)
    expect(page.locator("main")).to_contain_text(name)
    assert_harmless(page)


def test_a_pipeline(page: Page) -> None:
    page.goto("/pipelines")
    row = page.locator("#table-pipelines tbody tr").first
    for text in (SCRIPT, IMAGE, QUOTES):
        expect(row).to_contain_text(text)
    assert_harmless(page)
    row.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(SCRIPT)
    expect(page.locator("pre.sql")).to_have_text(SCRIPT)
    expect(page.locator(".notice.bad")).to_contain_text(LINK)
    assert_harmless(page)


@pytest.mark.parametrize("place", PLACES, ids=["image", "link", "quotes"])
def test_a_topic(page: Page, place: str) -> None:
    page.goto(place)
    for name in CHANNELS:
        expect(page.locator("#table-channels").get_by_role("link", name=name)).to_be_visible()
    expect(page.locator("#table-nodes")).to_contain_text(QUOTES)
    expect(page.locator("#readers")).to_contain_text(IMAGE)
    expect(page).to_have_title(f"{TOPICS[PLACES.index(place)]} · nsqadmin")
    assert_harmless(page)


def test_the_question_before_an_action(page: Page, watcher: Watcher) -> None:
    watcher.expect(502)
    page.goto(PLACES[0])
    page.locator(".heading").get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"Delete topic {IMAGE}?")
    dialog.get_by_role("textbox").fill(IMAGE)
    assert_harmless(page)
    dialog.get_by_role("button", name="Delete topic").click()
    expect(page.locator(".toast.warn")).to_contain_text("NOT_FOUND")
    assert_harmless(page)


def test_links_lead_to_the_names(page: Page) -> None:
    page.goto("/topics")
    page.locator("main").get_by_role("link", name=QUOTES).first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(QUOTES)
    page.locator("#table-channels").get_by_role("link", name=IMAGE).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(IMAGE)
    assert page.url.endswith(f"/topics/{quote(QUOTES, safe=SAFE)}/{quote(IMAGE, safe=SAFE)}")
    assert_harmless(page)


SAFE = "!'()*"
"""What encodeURIComponent leaves as it is, beside letters and digits."""


@pytest.mark.parametrize("tab", ["overview", "messages", "deferred"])
def test_a_channel(page: Page, watcher: Watcher, tab: str) -> None:
    watcher.expect(501, 502)  # this node has no peek, the other one is broken
    page.goto(f"{PLACES[0]}/{quote(IMAGE, safe='')}?tab={tab}")
    expect(page.get_by_role("heading", level=1)).to_contain_text(IMAGE)
    if tab == "overview":
        clients = page.locator("#table-clients")
        expect(clients.locator("tbody tr")).to_have_count(2)
        expect(clients).to_contain_text(QUOTES)
        identity = clients.get_by_text(IMAGE, exact=True).first
        expect(identity).to_be_visible()
        expect(clients.get_by_role("link", name=IMAGE)).to_have_count(0)
    assert_harmless(page)


def test_errors_of_daemons(page: Page) -> None:
    page.goto(PLACES[0])
    expect(page.locator(".notice.warn").first).to_contain_text("window.broken")
    assert_harmless(page)


def test_a_name_that_no_page_finds(page: Page, watcher: Watcher) -> None:
    watcher.expect(
        404, 502
    )  # a name with a slash is no topic's: nsqadmin takes the rest for a channel
    page.goto(f"/topics/{quote(SCRIPT, safe='')}")
    expect(page.locator("main")).to_contain_text(SCRIPT)
    assert_harmless(page)


def test_the_address_bar(page: Page, watcher: Watcher) -> None:
    watcher.expect(404)
    query = quote(IMAGE)
    page.goto(f"/topics?topics.find={query}&topics.sort={query}&tab={query}&t={query}")
    expect(page.locator("main")).to_be_visible()
    assert_harmless(page)
    page.goto(f"{PLACES[0]}?tab={query}&channels.find={query}&channels.sort={query}")
    expect(page.locator("#table-channels").get_by_role("link", name=IMAGE)).to_be_visible()
    assert_harmless(page)


def test_the_palette(page: Page) -> None:
    page.goto("/topics")
    expect(page.locator("main")).to_contain_text(IMAGE)
    page.keyboard.press("/")
    page.keyboard.type("img")
    expect(page.get_by_role("dialog")).to_contain_text(IMAGE)
    assert_harmless(page)
