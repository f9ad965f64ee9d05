"""Every action, by clicks, and what becomes of it on the nodes; and who may not do any."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from penstock.testing.daemons import run_nsqadmin
from tools.browser.shooting import shoot
from tools.browser.site import PATIENT, Site, ask, until
from tools.browser.watching import Watcher

from .conftest import OpenPage, StartAdmin

BODIES = (b"one", b"two", b"three")
SLOW_DELETIONS = """
const quick = window.fetch;
window.fetch = async (url, options) => {
  const response = await quick(url, options);
  const isSlow = options?.method === "DELETE";
  if (isSlow) await new Promise((resolve) => setTimeout(resolve, 5_000));
  return response;
};
"""
"""The answer to a deletion comes when a page would have asked once more for its figures."""


def press(page: Page, name: str) -> Locator:
    """Presses a button of the page, not of a dialog; the dialog that it opens."""
    page.locator("main").get_by_role("button", name=name, exact=True).first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    return dialog


def agree(dialog: Locator, action: str, typed: str = "") -> None:
    """Does what the dialog asks about."""
    button = dialog.get_by_role("button", name=action, exact=True)
    if typed:
        expect(button).to_be_disabled()
        dialog.get_by_role("textbox").fill(typed)
    button.click()
    expect(dialog).to_have_count(0)


def is_paused(site: Site, topic: str, channel: str = "") -> bool:
    stats = site.stats(topic, channel)
    return stats is not None and stats["paused"]


def make_on(address: str, topic: str) -> None:
    """A topic with the channel `c` on a node that is none of the site's."""
    for target in (f"/topic/create?topic={topic}", f"/channel/create?topic={topic}&channel=c"):
        assert ask(address, "POST", target)[0] == 200


# --- topics --------------------------------------------------------------------------------------


def test_pausing_and_unpausing_a_topic(page: Page, site: Site) -> None:
    site.make("act-pause", "c")
    page.goto("/topics/act-pause")
    dialog = press(page, "Pause")
    expect(dialog).to_contain_text("what they publish waits in the topic")
    agree(dialog, "Pause")
    expect(page.get_by_text("Topic act-pause is paused.")).to_be_visible()
    expect(page.locator(".heading").get_by_text("paused", exact=True)).to_be_visible()
    assert is_paused(site, "act-pause")
    agree(press(page, "Unpause"), "Unpause")
    expect(page.locator(".heading").get_by_text("paused", exact=True)).to_have_count(0)
    assert not is_paused(site, "act-pause")


def test_cancelling_does_nothing(page: Page, site: Site) -> None:
    site.make("act-cancel", "c")
    page.goto("/topics/act-cancel")
    dialog = press(page, "Delete")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_have_count(0)
    press(page, "Pause")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert not is_paused(site, "act-cancel")


def test_emptying_a_topic(page: Page, site: Site) -> None:
    site.make("act-empty", bodies=BODIES)
    page.goto("/topics/act-empty")
    dialog = press(page, "Empty")
    expect(dialog).to_contain_text("3 messages on 1 node are deleted")
    agree(dialog, "Empty topic")
    expect(page.get_by_text("Topic act-empty is empty.")).to_be_visible()
    assert (site.stats("act-empty") or {})["depth"] == 0
    expect(press(page, "Empty")).to_contain_text("Nothing waits in the topic now.")


def test_deleting_a_topic_with_messages_wants_its_name(page: Page, site: Site) -> None:
    for node in (0, 1):
        site.make("act-delete", "a", "b", bodies=BODIES, node=node)
    until(lambda: len(site.api("/api/topics/act-delete")["nodes"]) == 2)
    page.goto("/topics/act-delete")
    dialog = press(page, "Delete")
    expect(dialog).to_contain_text("12 messages in 2 channels on 2 nodes are deleted")
    dialog.get_by_role("textbox").fill("act-delet")  # sic
    expect(dialog.get_by_role("button", name="Delete topic")).to_be_disabled()
    agree(dialog, "Delete topic", "act-delete")
    expect(page).to_have_url(f"{site.url}/topics")
    assert site.stats("act-delete", node=0) is None
    assert site.stats("act-delete", node=1) is None
    assert "act-delete" not in site.api("/api/topics")["topics"]


def test_a_page_does_not_ask_for_what_it_deletes(page: Page, site: Site) -> None:
    """It did every three seconds, and showed an error until it was left."""
    site.make("act-delete-slowly", "c")
    page.add_init_script(SLOW_DELETIONS)
    page.goto("/topics/act-delete-slowly/c")
    agree(press(page, "Delete"), "Delete channel")
    expect(page).to_have_url(f"{site.url}/topics/act-delete-slowly")
    agree(press(page, "Delete"), "Delete topic")
    expect(page).to_have_url(f"{site.url}/topics")


def test_deleting_an_empty_topic(page: Page, site: Site) -> None:
    site.make("act-delete-empty", "c")
    page.goto("/topics/act-delete-empty")
    agree(press(page, "Delete"), "Delete topic")
    expect(page).to_have_url(f"{site.url}/topics")
    assert site.stats("act-delete-empty") is None


def test_a_topic_that_no_node_has_can_be_deleted(page: Page, site: Site, watcher: Watcher) -> None:
    watcher.expect(404)  # of the history of its channel, if it is asked for once more
    site.make("act-nowhere", "c")
    page.goto("/topics/act-nowhere")
    expect(page.get_by_role("link", name="c", exact=True)).to_be_visible()
    status, _ = ask(site.nodes[0], "POST", "/topic/delete?topic=act-nowhere")
    assert status == 200
    expect(page.get_by_text("No node has this topic")).to_be_visible()
    expect(page.locator(".heading").get_by_role("button")).to_have_text(["Delete"])
    agree(press(page, "Delete"), "Delete topic")
    expect(page).to_have_url(f"{site.url}/topics")
    assert "act-nowhere" not in site.api("/api/topics")["topics"]


def test_creating_a_channel_on_its_topics_page(page: Page, site: Site) -> None:
    site.make("act-create")
    page.goto("/topics/act-create")
    expect(page.get_by_text("No channels")).to_be_visible()
    field = page.get_by_role("textbox", name="New channel")
    create = page.get_by_role("button", name="Create", exact=True)
    expect(create).to_be_disabled()
    field.fill("no good")
    expect(page.get_by_text("A name has letters")).to_be_visible()
    expect(create).to_be_disabled()
    field.fill("x" * 65)
    expect(page.get_by_text("64 characters at most")).to_be_visible()
    field.fill("fresh#ephemeral")
    create.click()
    expect(page.get_by_role("link", name="fresh#ephemeral")).to_be_visible()
    expect(field).to_have_value("")
    assert site.stats("act-create", "fresh#ephemeral") is not None


def test_creating_a_topic(page: Page, site: Site) -> None:
    page.goto("/lookup")
    page.get_by_role("textbox", name="Topic").fill("act-fresh")
    page.get_by_role("textbox", name="Channel").fill("c")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_text("Channel c of topic act-fresh is created.")).to_be_visible()
    assert site.api("/api/topics?inactive=true")["topics"]["act-fresh"] == ["c"]


def test_tombstoning(page: Page, site: Site) -> None:
    for node in (0, 1):
        site.make("act-tombstone", "c", bodies=BODIES, node=node)
    until(lambda: len(site.api("/api/topics/act-tombstone")["nodes"]) == 2)
    page.goto("/topics/act-tombstone")
    row = page.locator("#table-nodes tr", has_text=site.nodes[1])
    row.get_by_role("button", name="Tombstone").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"Tombstone topic act-tombstone on {site.nodes[1]}?")
    expect(dialog).to_contain_text("3 messages in 1 channel are deleted")
    agree(dialog, "Tombstone", "act-tombstone")
    expect(page.get_by_text(f"Topic act-tombstone is gone from {site.nodes[1]}.")).to_be_visible()
    expect(row).to_have_count(0)
    assert site.stats("act-tombstone", node=1) is None
    assert site.stats("act-tombstone", node=0) is not None


# --- channels ------------------------------------------------------------------------------------


def test_pausing_and_unpausing_a_channel(page: Page, site: Site) -> None:
    site.make("act-channel-pause", "c", bodies=BODIES)
    page.goto("/topics/act-channel-pause/c")
    agree(press(page, "Pause"), "Pause")
    expect(page.get_by_text("Paused: 3 messages wait until it is unpaused.")).to_be_visible()
    assert is_paused(site, "act-channel-pause", "c")
    assert not is_paused(site, "act-channel-pause")
    agree(press(page, "Unpause"), "Unpause")
    expect(page.get_by_text("Channel c is unpaused.")).to_be_visible()
    assert not is_paused(site, "act-channel-pause", "c")


def test_a_channel_that_is_paused_on_some_nodes_only(page: Page, site: Site) -> None:
    for node in (0, 1):
        site.make("act-half", "c", node=node)
    until(lambda: len(site.api("/api/topics/act-half/c")["nodes"]) == 2)
    ask(site.nodes[1], "POST", "/channel/pause?topic=act-half&channel=c")
    page.goto("/topics/act-half/c")
    expect(page.get_by_text("paused on 1 of 2 nodes")).to_be_visible()
    agree(press(page, "Pause"), "Pause")
    expect(page.locator(".heading").get_by_text("paused", exact=True)).to_be_visible()
    assert is_paused(site, "act-half", "c")


def test_emptying_a_channel(page: Page, site: Site) -> None:
    site.make("act-channel-empty", "c", bodies=BODIES)
    site.publish("act-channel-empty", b"later", defer_ms=3_600_000)
    page.goto("/topics/act-channel-empty/c")
    dialog = press(page, "Empty")
    expect(dialog).to_contain_text("4 messages on 1 node are deleted: 3 waiting, 1 deferred")
    agree(dialog, "Empty channel")
    expect(page.get_by_text("Channel c is empty.")).to_be_visible()
    stats = site.stats("act-channel-empty", "c") or {}
    assert (stats["depth"], stats["deferred_count"]) == (0, 0)


def test_deleting_a_channel(page: Page, site: Site) -> None:
    site.make("act-channel-delete", "gone#ephemeral", "stays", bodies=BODIES)
    page.goto("/topics/act-channel-delete/gone%23ephemeral")
    agree(press(page, "Delete"), "Delete channel", "gone#ephemeral")
    expect(page).to_have_url(f"{site.url}/topics/act-channel-delete")
    expect(page.get_by_role("link", name="stays")).to_be_visible()
    assert site.stats("act-channel-delete", "gone#ephemeral") is None


# --- what goes wrong -----------------------------------------------------------------------------


def test_a_part_that_failed_is_a_warning(open_page: OpenPage, site: Site) -> None:
    site.make("act-part", "c")
    with site.another_nsqd() as nsqd:
        make_on(nsqd.http, "act-part")
        nodes = (f"--nsqd-http-address={each}" for each in (site.nodes[0], nsqd.http))
        with run_nsqadmin(*PATIENT, *nodes, "--history-interval=0") as admin:
            page = open_page(url=f"http://{admin.http}")
            page.goto("/topics/act-part")
            dialog = press(page, "Pause")
            nsqd.kill()
            agree(dialog, "Pause")
            told = page.locator(".toast.warn")
            expect(told).to_contain_text("Not all of it was done. WARNING:")
            expect(told).to_contain_text(nsqd.http)
            assert is_paused(site, "act-part")
            page.close()


@contextmanager
def other_admin_there(address: str, *flags: str) -> Iterator[None]:
    """An nsqadmin at the address of one that has ended."""
    with run_nsqadmin(*PATIENT, *flags, f"--http-address={address}"):
        yield


def test_who_lost_the_right_meanwhile_is_told(
    open_page: OpenPage, site: Site, watcher_of: Any
) -> None:
    site.make("act-refused", "c")
    with site.another_admin() as admin:
        page = open_page(url=f"http://{admin.http}")
        watcher_of(page).expect_lost_server()
        page.goto("/topics/act-refused")
        dialog = press(page, "Pause")
    watcher_of(page).expect(403)
    flags = (f"--lookupd-http-address={site.lookupd.http}", "--admin-user=alice")
    with other_admin_there(admin.http, *flags):
        dialog.get_by_role("button", name="Pause", exact=True).click()
        expect(dialog).to_contain_text("You may not change anything here.")
        expect(dialog).to_contain_text("--admin-user")
        assert not is_paused(site, "act-refused")


def test_an_nsqadmin_that_is_gone(open_page: OpenPage, site: Site, watcher_of: Any) -> None:
    site.make("act-gone", "c")
    with site.another_admin() as admin:
        page = open_page(url=f"http://{admin.http}")
        watcher_of(page).expect_lost_server()
        page.goto("/topics/act-gone")
        dialog = press(page, "Pause")
    dialog.get_by_role("button", name="Pause", exact=True).click()
    expect(dialog).to_contain_text("nsqadmin cannot be reached: it is not known whether")
    expect(dialog.get_by_role("button", name="Pause", exact=True)).to_be_enabled()


def test_no_nsqlookupd_to_ask(open_page: OpenPage, site: Site, watcher_of: Any) -> None:
    with site.another_nsqd() as nsqd:
        make_on(nsqd.http, "act-none")
        with run_nsqadmin(
            *PATIENT, f"--nsqd-http-address={nsqd.http}", "--history-interval=0"
        ) as admin:
            page = open_page(url=f"http://{admin.http}")
            page.goto("/topics/act-none")
            dialog = press(page, "Pause")
            watcher_of(page).expect(502)
            nsqd.kill()
            dialog.get_by_role("button", name="Pause", exact=True).click()
            expect(dialog).to_contain_text("Nothing was done")
            expect(dialog).to_contain_text(nsqd.http)
            page.close()


# --- who may not ---------------------------------------------------------------------------------

ALICE = ("--admin-user=alice", "--acl-http-header=X-User")


@pytest.mark.parametrize("path", ["/topics/orders", "/topics/orders/billing"])
def test_others_have_no_buttons(open_page: OpenPage, start_admin: StartAdmin, path: str) -> None:
    url = start_admin(*ALICE)
    alice = open_page(url=url, extra_http_headers={"X-User": "alice"})
    alice.goto(path)
    expect(alice.get_by_role("button", name="Delete")).to_be_visible()
    bob = open_page(url=url, extra_http_headers={"X-User": "bob"})
    bob.goto(path)
    expect(bob.locator("#table-nodes tbody tr")).to_have_count(3)
    for name in ("Pause", "Empty", "Delete", "Tombstone", "Create"):
        expect(bob.locator("main").get_by_role("button", name=name, exact=True)).to_have_count(0)


def test_alice_may_and_bob_may_not(
    open_page: OpenPage, start_admin: StartAdmin, site: Site
) -> None:
    site.make("act-alice", "c")
    url = start_admin(*ALICE)
    address = url.removeprefix("http://")
    for headers in ({}, {"X_User": "bob"}, {"X_Forwarded_User": "alice"}):
        refused = ask(address, "POST", "/api/topics/act-alice", {"action": "pause"}, **headers)
        assert refused == (403, {"message": "FORBIDDEN"})
        assert ask(address, "DELETE", "/api/topics/act-alice", **headers)[0] == 403
    assert not is_paused(site, "act-alice")
    page = open_page(url=url, extra_http_headers={"X-User": "alice"})
    page.goto("/topics/act-alice")
    agree(press(page, "Pause"), "Pause")
    expect(page.get_by_text("Topic act-alice is paused.")).to_be_visible()
    assert is_paused(site, "act-alice")


# --- damage --------------------------------------------------------------------------------------


def test_damage_is_shown_until_it_is_accepted(page: Page, site: Site) -> None:
    with site.another_nsqd() as nsqd:
        for target in (
            "/topic/create?topic=act-damage",
            "/channel/create?topic=act-damage&channel=c",
        ):
            ask(nsqd.http, "POST", target)
        ask(nsqd.http, "POST", "/mpub?topic=act-damage", b"a\nb\nc")
        nsqd.stop()
        assert nsqd.data_path is not None
        folder = Path(nsqd.data_path) / "topics" / "act-damage@0"
        (segment,) = folder.glob("*.log")
        segment.unlink()
        nsqd.start()
        until(lambda: ask(nsqd.http, "GET", "/damage?topic=act-damage")[1]["topics"])
        page.goto("/")
        alert = page.locator(".alerts li.bad", has_text="act-damage")
        expect(alert).to_contain_text(f"on {nsqd.http}: log: cut short, or without one")
        alert.get_by_role("link").click()
        notice = page.get_by_role("alert").filter(has_text="Files of this topic are damaged")
        expect(notice).to_contain_text("3 messages are lost, offsets 0 to 2")
        shoot(page, "damage", ("light", "dark", "phone"))
        dialog = press(page, "Accept damage")
        expect(dialog).to_contain_text("Lost messages do not come back")
        agree(dialog, "Accept damage")
        expect(notice).to_have_count(0)
        assert ask(nsqd.http, "GET", "/ping") == (200, "OK")


def test_a_channel_called_like_a_folder_takes_no_other_topic_with_it(
    page: Page, site: Site
) -> None:
    """A browser takes /topics/./kept for /topics/kept."""
    site.make("kept", "c")
    site.make(".", "kept", "..")
    title, link = page.locator("h1 .name"), page.locator("main").get_by_role("link")
    page.goto("/topics")
    link.get_by_text(".", exact=True).click()
    expect(title).to_have_text(".")
    link.get_by_text("kept", exact=True).click()
    expect(title).to_have_text("kept")
    agree(press(page, "Delete"), "Delete channel")
    expect(title).to_have_text(".")
    assert site.stats(".", "kept") is None
    link.get_by_text("..", exact=True).click()
    expect(title).to_have_text("..")
    page.reload()
    expect(title).to_have_text("..")
    link.get_by_text(".", exact=True).click()
    expect(title).to_have_text(".")
    agree(press(page, "Delete"), "Delete topic")
    expect(page).to_have_url("/topics")
    assert site.stats(".") is None
    assert site.stats("kept", "c") is not None
