"""Dead letters: the topics that have some, and one of them: look, resend, export; who may not."""

from __future__ import annotations

import json
import re
from typing import Any

from playwright.sync_api import Locator, Page, expect

from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.messages import properties
from penstock.testing.daemons import run_nsqadmin, run_nsqd
from tests.unit.cli.nodes_at_work import kill_letters
from tools.browser.shooting import shoot
from tools.browser.site import PATIENT, Site, ask, until
from tools.browser.watching import Watcher
from tools.harness.rocketmq.raw_client import RawClient

from .conftest import OpenPage, StartAdmin

BODIES = [b"letter one", b'{"letter":2}', b"\x00\xff three", b"<script>window.broken=1</script>"]


def kill(site: Site, topic: str, node: int = 0) -> str:
    """Letters that the channel `c` of a topic gave up; the path of their page."""
    kill_letters(site.nsqds[node], topic, "c", BODIES)
    dead = f"{topic}.dead"
    until(lambda: letters(site, dead) >= len(BODIES), f"letters in {dead}")
    return f"/deadletters/{dead}"


def letters(site: Site, dead: str) -> int:
    """How many are to be dealt with, on all nodes."""
    topics = site.api("/api/deadletters")["topics"]
    return sum(each["letters"] for each in topics if each["topic"] == dead)


def log_of(site: Site, topic: str, node: int = 0) -> list[str]:
    """The bodies in a topic's log, what is no UTF-8 in base64."""
    status, answer = ask(site.nodes[node], "GET", f"/topic/peek?topic={topic}")
    assert status == 200
    return [each.get("body", each.get("body_base64")) for each in answer["messages"]]


def rows(page: Page) -> Locator:
    return page.locator("tr.message")


def row(page: Page, offset: int) -> Locator:
    return rows(page).filter(has=page.get_by_role("button", name=str(offset), exact=True))


def press(page: Page, name: str) -> Locator:
    """The dialog that a button opens."""
    page.locator("main").get_by_role("button", name=name, exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    return dialog


def test_the_topics(page: Page, site: Site) -> None:
    path = kill(site, "dlt")
    kill_letters(site.nsqds[1], "dlt", "c", BODIES[:2])
    until(lambda: letters(site, "dlt.dead") == 6)
    page.goto("/deadletters")
    line = page.locator("#table-topics tr", has_text="dlt.dead")
    expect(line.locator("td").first).to_have_text("6")
    for node, number in ((0, 4), (1, 2)):
        expect(line).to_contain_text(f"{site.nodes[node]} {number}")
    shoot(page, "deadletters", ("light", "dark", "phone"))
    line.get_by_role("link", name="dlt.dead").click()
    expect(page).to_have_url(f"{site.url}{path}")
    expect(page.get_by_text("6 letters")).to_be_visible()


def test_without_any_it_is_explained(open_page: OpenPage) -> None:
    with run_nsqd() as nsqd, run_nsqadmin(*PATIENT, f"--nsqd-http-address={nsqd.http}") as admin:
        page = open_page(url=f"http://{admin.http}")
        page.goto("/deadletters")
        expect(page.get_by_text("No topic has dead letters")).to_be_visible()
        expect(page.locator(".code")).to_contain_text('{"max_attempts":5}')
        page.goto("/deadletters/nobody.dead")
        expect(page.get_by_text("nobody.dead has no dead letters")).to_be_visible()
        page.goto("about:blank")


def test_looking_at_letters(page: Page, site: Site) -> None:
    page.goto(kill(site, "dll"))
    expect(rows(page)).to_have_count(len(BODIES))
    first = row(page, 0)
    expect(first.get_by_role("link", name="dll", exact=True)).to_have_attribute(
        "href", "/topics/dll"
    )
    expect(first.get_by_role("link", name="c", exact=True)).to_have_attribute(
        "href", "/topics/dll/c"
    )
    expect(first).to_contain_text(re.compile(r"just now|\d+ s ago|\d+ min ago"))
    for offset in range(len(BODIES)):
        row(page, offset).locator(".first-line").click()
    expect(page.locator(".body")).to_have_count(len(BODIES))
    kinds = page.locator(".body [aria-pressed=true]").all_inner_texts()
    assert kinds == ["Text", "Hex", "JSON", "Text"]  # the newest first
    told = site.api(f"/api/deadletters/dll.dead?node={site.nodes[0]}")["messages"][0]
    expect(page.locator(".message-panel").last).to_contain_text(told["origin"]["id"])
    assert page.evaluate("window.broken") is None
    shoot(page, "deadletter", ("light", "dark", "phone"))


def test_resending_some(page: Page, site: Site) -> None:
    page.goto(kill(site, "dls"))
    before = len(log_of(site, "dls"))
    for offset in (0, 2):
        row(page, offset).get_by_role("checkbox").check()
    dialog = press(page, "Resend 2")
    expect(dialog).to_contain_text("2 letters of dls / c")
    shoot(page, "deadletter-resend", ("light", "dark", "phone"), whole=False)
    assert letters(site, "dls.dead") == len(BODIES)
    dialog.get_by_role("button", name="Resend").click()
    expect(page.get_by_text("2 letters sent")).to_be_visible()
    expect(rows(page)).to_have_count(2)
    expect(row(page, 1)).to_be_visible()
    assert letters(site, "dls.dead") == 2
    assert len(log_of(site, "dls")) >= before - len(BODIES) + 2
    assert (site.stats("dls", "c") or {})["depth"] == 2


def test_resending_all_of_every_node(page: Page, site: Site) -> None:
    path = kill(site, "dla")
    kill(site, "dla", node=1)
    until(lambda: letters(site, "dla.dead") == 2 * len(BODIES))
    page.goto(path)
    dialog = press(page, "Resend all")
    expect(dialog).to_contain_text("Resend 8 dead letters?")
    dialog.get_by_role("combobox").select_option("topic")
    dialog.get_by_label("Letters a second").fill("100")
    dialog.get_by_role("button", name="Resend").click()
    expect(page.get_by_text("8 letters sent")).to_be_visible()
    expect(page.get_by_text("No letters here")).to_be_visible()
    assert letters(site, "dla.dead") == 0
    for node in (0, 1):
        assert (site.stats("dla", "c", node) or {})["depth"] == len(BODIES)


def test_resending_to_another_topic(page: Page, site: Site) -> None:
    page.goto(kill(site, "dlo"))
    row(page, 0).get_by_role("checkbox").check()
    dialog = press(page, "Resend 1")
    dialog.get_by_role("combobox").select_option("other")
    dialog.get_by_label("Topic", exact=True).fill("dlo-new")
    dialog.get_by_role("button", name="Resend").click()
    expect(page.get_by_text("1 letter sent")).to_be_visible()
    assert log_of(site, "dlo-new") == ["letter one"]
    assert letters(site, "dlo.dead") == len(BODIES) - 1


def test_resending_to_the_channel_that_gave_them_up(page: Page, site: Site) -> None:
    path = kill(site, "dlc")
    site.make("dlc", "other")
    before = (site.stats("dlc", "other") or {})["depth"]
    page.goto(path)
    dialog = press(page, "Resend all")
    dialog.get_by_role("button", name="Resend").click()
    expect(page.get_by_text("4 letters sent")).to_be_visible()
    assert (site.stats("dlc", "c") or {})["depth"] == len(BODIES)
    assert (site.stats("dlc", "other") or {})["depth"] == before


def test_discarding(page: Page, site: Site) -> None:
    page.goto(kill(site, "dld"))
    before = len(log_of(site, "dld"))
    row(page, 1).get_by_role("checkbox").check()
    dialog = press(page, "Discard 1")
    shoot(page, "deadletter-discard", ("light", "phone"), whole=False)
    dialog.get_by_role("button", name="Discard").click()
    expect(page.get_by_text("1 letter discarded")).to_be_visible()
    assert letters(site, "dld.dead") == len(BODIES) - 1
    dialog = press(page, "Discard all")
    button = dialog.get_by_role("button", name="Discard")
    expect(button).to_be_disabled()
    dialog.get_by_role("textbox").fill("dld.dead")
    button.click()
    expect(page.get_by_text("3 letters discarded")).to_be_visible()
    assert letters(site, "dld.dead") == 0
    assert len(log_of(site, "dld")) == before


def test_a_name_that_is_none_is_refused(page: Page, site: Site, watcher: Watcher) -> None:
    watcher.expect(400)
    page.goto(kill(site, "dln"))
    dialog = press(page, "Resend all")
    dialog.get_by_role("combobox").select_option("other")
    dialog.get_by_label("Topic", exact=True).fill("<b>no name</b>")
    dialog.get_by_role("button", name="Resend").click()
    expect(dialog.get_by_role("alert")).to_be_visible()
    assert letters(site, "dln.dead") == len(BODIES)


def test_a_letter_without_an_origin_wants_a_topic(page: Page, site: Site) -> None:
    site.make("dlw.dead", bodies=(b"published here",))
    page.goto("/deadletters/dlw.dead")
    expect(row(page, 0)).to_contain_text("not told")
    row(page, 0).get_by_role("checkbox").check()
    dialog = press(page, "Resend 1")
    expect(dialog).to_contain_text("1 letter did not die in a channel")
    dialog.get_by_role("button", name="Resend").click()
    expect(page.get_by_text("0 letters sent")).to_be_visible()
    assert letters(site, "dlw.dead") == 1


def exported(page: Page, name: str) -> tuple[str, bytes]:
    """The file's name and content."""
    with page.expect_download() as download:
        page.get_by_role("link", name=name).click()
    return download.value.suggested_filename, download.value.path().read_bytes()


def test_exporting(page: Page, site: Site) -> None:
    page.goto(kill(site, "dle"))
    name, content = exported(page, "Export JSON")
    assert name == "dle.dead.jsonl"
    lines = [json.loads(line) for line in content.splitlines()]
    assert [each.get("body") for each in lines[:2]] == [each.decode() for each in BODIES[:2]]
    assert len(lines) == len(BODIES)
    name, content = exported(page, "Export raw")
    assert name == "dle.dead.txt"
    assert content == b"".join(body + b"\n" for body in BODIES)
    assert letters(site, "dle.dead") == len(BODIES)


def test_rocketmqs_letters_are_looked_at_and_exported(page: Page, site: Site) -> None:
    name = "%DLQ%buyers"
    port = re.search(r"RocketMQ: listening on \S+:(\d+)", site.nsqds[2].log())
    assert port
    client = RawClient(int(port[1]))
    made = client.ask(
        RequestCode.UPDATE_AND_CREATE_TOPIC, topic=name, defaultTopic="TBW102", readQueueNums=1,
        writeQueueNums=1, perm=6, topicFilterType="SINGLE_TAG", order="false",
    )  # fmt: skip
    assert made.code == ResponseCode.SUCCESS
    sent = client.ask(
        RequestCode.SEND_MESSAGE, b"a dead body", producerGroup="PG", topic=name,
        defaultTopic="TBW102", defaultTopicQueueNums=1, queueId=0, sysFlag=0, bornTimestamp=1,
        flag=0, properties=properties.join({}), reconsumeTimes=0, unitMode="false",
    )  # fmt: skip
    assert sent.code == ResponseCode.SUCCESS
    client.close()
    page.goto("/deadletters")
    line = page.locator("#table-topics tr", has_text=name)
    expect(line.get_by_text("RocketMQ", exact=True)).to_be_visible()
    line.get_by_role("link", name=name).click()
    expect(row(page, 0)).to_contain_text("a dead body")
    row(page, 0).click()
    expect(page.locator(".body-text")).to_have_text("a dead body")
    expect(page.get_by_text("RocketMQ's own tools send them again")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("Resend"))).to_have_count(0)
    assert b"a dead body" in exported(page, "Export JSON")[1]


def test_who_is_no_admin_looks_and_exports(
    open_page: OpenPage, site: Site, start_admin: StartAdmin
) -> None:
    path = kill(site, "dlu")
    page = open_page(url=start_admin("--admin-user=alice"))
    page.goto(path)
    expect(rows(page)).to_have_count(len(BODIES))
    expect(page.get_by_role("checkbox")).to_have_count(0)
    expect(page.get_by_role("button", name=re.compile("Resend"))).to_have_count(0)
    assert exported(page, "Export raw")[1].count(b"\n") == len(BODIES)


def test_a_refusal_is_shown_and_nothing_done(page: Page, site: Site, watcher: Watcher) -> None:
    watcher.expect(403)
    page.goto(kill(site, "dlr"))

    def refuse(route: Any) -> None:
        if route.request.method == "POST":
            route.fulfill(status=403, json={"message": "FORBIDDEN"})
        else:
            route.fallback()

    page.route("**/api/deadletters/*", refuse)
    dialog = press(page, "Resend all")
    dialog.get_by_role("button", name="Resend").click()
    expect(dialog.get_by_role("alert")).to_contain_text("FORBIDDEN")
    assert letters(site, "dlr.dead") == len(BODIES)
