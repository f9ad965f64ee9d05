"""RocketMQ's pages, over a name server and a broker of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from penstock.testing.daemons import run_nsqadmin
from tools.browser.rocketmq_site import (
    PATIENT_OF_ROCKETMQ,
    SECRET,
    running_beside,
    running_guarded,
    running_rocketmq,
)
from tools.browser.shooting import FITS, PHONE
from tools.browser.site import PATIENT, until
from tools.harness.rocketmq.shop import BAD, DEAD_LETTERS, MESSAGES, TOPIC, Shop

from .axe import followed, in_all_looks, problems, settled
from .conftest import OpenPage

PATHS = (
    "/", "/rocketmq", "/rocketmq?tab=topics", "/rocketmq?tab=groups", "/rocketmq?tab=servers",
    f"/rocketmq/topics/{TOPIC}", f"/rocketmq/topics/{TOPIC}?tab=messages",
    f"/rocketmq/topics/{quote(DEAD_LETTERS)}?tab=messages", "/rocketmq/groups/failing",
)  # fmt: skip
DIALOGS = (
    ("/rocketmq?tab=topics", "Create a topic"), (f"/rocketmq/topics/{TOPIC}", "Change"),
    (f"/rocketmq/topics/{TOPIC}", "Delete"), ("/rocketmq?tab=groups", "Create a group"),
    ("/rocketmq/groups/failing", "Change"), ("/rocketmq/groups/failing", "Delete"),
    ("/rocketmq/groups/archive", "Reset offsets"),
)  # fmt: skip


@pytest.fixture(scope="module")
def site() -> Iterator[tuple[Shop, str]]:
    with running_rocketmq() as site:
        yield site


@pytest.fixture
def shop(site: tuple[Shop, str]) -> Shop:
    return site[0]


@pytest.fixture
def url(site: tuple[Shop, str]) -> str:
    return site[1]


@pytest.fixture
def rocket(open_page: OpenPage, url: str) -> Page:
    """A page of an administrator."""
    return open_page(url=url, extra_http_headers={"X-Forwarded-User": "alice"})


def row_of(page: Page, table: str, name: str) -> Locator:
    """The row that begins with a name."""
    head = page.get_by_role("rowheader").filter(has_text=re.compile(rf"(^|\s){re.escape(name)}"))
    return page.locator(f"#table-{table} tbody tr").filter(has=head)


@pytest.fixture(scope="module")
def beside(site: tuple[Shop, str]) -> Iterator[str]:
    with running_beside(site[0]) as url:
        yield url


def test_brokers_beside_the_nodes_are_in_the_totals(open_page: OpenPage, beside: str) -> None:
    def answer(route: Route) -> None:
        told = route.fetch().json()
        told["beside"] |= {"in": 20, "out": 18.5}
        route.fulfill(json=told)

    page = open_page(url=beside)
    page.route("**/api/rocketmq/attention", answer)
    page.goto("/")
    for label, value, hint in (
        ("Nodes", "2", "1 NSQ, 1 RocketMQ"),
        ("Topics", "2", "1 of them RocketMQ's alone"),
        ("In", "20/s", "20/s RocketMQ's"),
        ("Out", "18.5/s", "18.5/s RocketMQ's"),
    ):
        tile = page.locator(".tile", has=page.get_by_text(label, exact=True))
        expect(tile.locator(".tile-value")).to_have_text(value)
        expect(tile.locator(".tile-hint")).to_have_text(hint)
    alert = page.locator(".alerts li", has_text=f"{TOPIC} / archive")
    expect(alert).to_contain_text("RocketMQ group")
    expect(alert).to_contain_text("messages wait; nobody consumes")


def test_groups_of_brokers_beside_the_nodes_are_listed(open_page: OpenPage, beside: str) -> None:
    page = open_page(url=beside)
    page.goto("/groups")
    archive = row_of(page, "groups", "archive")
    expect(archive).to_contain_text("RocketMQ")
    expect(archive).to_contain_text("no consumers")
    topic = archive.get_by_role("link", name=TOPIC)
    expect(topic).to_have_attribute("href", f"/rocketmq/topics/{TOPIC}")
    expect(archive.get_by_role("link", name="archive")).to_have_attribute(
        "href", "/rocketmq/groups/archive"
    )
    expect(page.get_by_role("columnheader", name="Dialect")).to_be_visible()


def test_topics_groups_and_servers(rocket: Page, shop: Shop) -> None:
    rocket.goto("/")
    rocket.get_by_role("navigation", name="Pages").get_by_role("link", name="RocketMQ").click()
    rocket.get_by_role("navigation", name="Parts of this page").get_by_text("Topics").click()
    expect(row_of(rocket, "topics", TOPIC)).to_contain_text(str(MESSAGES))
    expect(row_of(rocket, "topics", DEAD_LETTERS)).to_contain_text("dead letters")
    expect(rocket.get_by_role("link", name="TBW102")).to_have_count(0)
    rocket.get_by_role("button", name=re.compile("Show .* system topics")).click()
    expect(rocket.get_by_role("link", name="TBW102")).to_be_visible()
    rocket.get_by_role("link", name="Groups").last.click()
    expect(row_of(rocket, "groups", "archive")).to_contain_text("no consumers")
    rocket.get_by_role("link", name="Brokers and name servers").click()
    expect(row_of(rocket, "brokers", "broker-a")).to_contain_text(shop.broker.rocketmq)
    expect(row_of(rocket, "name-servers", shop.name_server.rocketmq)).to_be_visible()
    rocket.set_viewport_size(PHONE)
    rocket.wait_for_function(FITS)


def test_what_wants_attention_by_rocketmqs_rule(rocket: Page) -> None:
    for path in ("/", "/rocketmq"):
        rocket.goto(path)
        alerts = rocket.locator("#attention li")
        letters = alerts.filter(has_text=DEAD_LETTERS)
        expect(letters).to_have_count(1)
        expect(letters).to_contain_text(f"{BAD} kept")
        expect(alerts.filter(has_text="archive")).to_contain_text(f"{MESSAGES} messages wait")
        expect(alerts.filter(has_text="RMQ_SYS_TRACE_TOPIC")).to_have_count(0)
    rocket.get_by_role("link", name=DEAD_LETTERS).click()
    expect(rocket.locator("h1")).to_contain_text(DEAD_LETTERS)
    rocket.goto("/rocketmq/groups/archive")
    expect(rocket.locator(".heading")).to_contain_text("no consumers")


def test_system_topics_are_folded_away_among_nsqs(rocket: Page) -> None:
    rocket.goto("/topics")
    expect(rocket.get_by_role("link", name=TOPIC, exact=True)).to_be_visible()
    expect(rocket.get_by_role("link", name="RMQ_SYS_TRACE_TOPIC")).to_have_count(0)
    rocket.get_by_role("button", name="Show 1 system topic").click()
    expect(rocket.get_by_role("link", name="RMQ_SYS_TRACE_TOPIC")).to_be_visible()


def test_a_topic_is_made_changed_and_deleted(rocket: Page) -> None:
    rocket.goto("/rocketmq?tab=topics")
    rocket.get_by_role("button", name="Create a topic").click()
    dialog = rocket.get_by_role("dialog")
    dialog.get_by_label("Name").fill("no good")
    dialog.get_by_role("button", name="Create topic").click()
    expect(dialog.get_by_role("alert")).to_contain_text("letters, digits")
    dialog.get_by_label("Name").fill("offers")
    dialog.get_by_label("Queues that are read").fill("2")
    dialog.get_by_role("button", name="Create topic").click()
    expect(rocket.locator("h1")).to_contain_text("offers")
    expect(row_of(rocket, "brokers", "broker-a")).to_contain_text("read, write")
    rocket.get_by_role("button", name="Change").click()
    dialog.get_by_label("Permission").select_option("read only")
    dialog.get_by_role("button", name="Change topic").click()
    expect(row_of(rocket, "brokers", "broker-a")).to_contain_text("read only")
    rocket.get_by_role("button", name="Delete", exact=True).click()
    dialog.get_by_role("button", name="Delete topic").click()
    expect(rocket.get_by_text("Topic offers is deleted.")).to_be_visible()
    expect(row_of(rocket, "topics", TOPIC)).to_be_visible()
    expect(row_of(rocket, "topics", "offers")).to_have_count(0)


def test_a_change_leaves_each_broker_what_it_has(rocket: Page) -> None:
    """Brokers that do not have all alike, as this page is told."""
    rocket.route(
        "**/api/rocketmq",
        lambda route: route.fulfill(
            json={"brokers": [{"broker": "a"}, {"broker": "b"}], "name_servers": [], "message": ""}
        ),
    )
    sent: list[Any] = []

    def told(url: str, **different: Any) -> None:
        def answer(route: Route) -> None:
            if route.request.method == "POST":
                sent.append(route.request.post_data_json)
                route.fulfill(json={"message": ""})
                return
            found = route.fetch().json()
            for name, values in different.items():
                (one,) = found[name]
                found[name] = [one | {"broker": broker} | more for broker, more in values.items()]
            route.fulfill(json=found)

        rocket.route(url, answer)

    told(
        f"**/api/rocketmq/topics/{TOPIC}",
        brokers={
            "a": {"read_queues": 4, "write_queues": 4},
            "b": {"read_queues": 8, "write_queues": 4},
        },
    )
    told(
        "**/api/rocketmq/groups/archive",
        configs={"a": {"retries": 3, "consumes": True}, "b": {"retries": 5, "consumes": False}},
    )
    dialog = rocket.get_by_role("dialog")

    rocket.goto(f"/rocketmq/topics/{TOPIC}")
    rocket.get_by_role("button", name="Change").click()
    read = dialog.get_by_label("Queues that are read")
    expect(read).to_have_value("")
    dialog.get_by_label("Permission").select_option("read only")
    dialog.get_by_role("button", name="Change topic").click()
    expect(dialog).to_have_count(0)
    rocket.get_by_role("button", name="Change").click()
    expect(dialog.get_by_role("combobox")).to_have_count(2)
    dialog.get_by_role("combobox").first.select_option("b")
    expect(read).to_have_value("8")
    dialog.get_by_role("button", name="Change topic").click()
    expect(dialog).to_have_count(0)
    topic = {"action": "change", "write_queues": 4}
    assert sent == [
        topic | {"brokers": [], "read_queues": None, "perm": 4},
        topic | {"brokers": ["b"], "read_queues": 8, "perm": 6},
    ]

    rocket.goto("/rocketmq/groups/archive")
    rocket.get_by_role("button", name="Change").click()
    expect(dialog.get_by_label("may consume")).to_have_js_property("indeterminate", True)
    dialog.get_by_label("may broadcast").uncheck()
    dialog.get_by_role("button", name="Change group").click()
    expect(dialog).to_have_count(0)
    shown = ("brokers", "consumes", "retries", "broadcasts", "retry_queues")
    assert [sent[-1][name] for name in shown] == [[], None, None, False, 1]


def test_deleting_counts_what_is_lost_and_wants_the_name(rocket: Page) -> None:
    rocket.goto(f"/rocketmq/topics/{TOPIC}")
    rocket.get_by_role("button", name="Delete", exact=True).click()
    losses = rocket.get_by_role("dialog").locator(".losses")
    expect(losses).to_contain_text(f"{MESSAGES} messages on 1 broker are deleted")
    expect(losses).to_contain_text("3 groups lose their offsets")
    expect(losses).to_contain_text("NSQ's 1 channel is deleted")
    expect(rocket.get_by_role("button", name="Delete topic")).to_be_disabled()
    rocket.keyboard.press("Escape")
    rocket.goto("/rocketmq/groups/failing")
    rocket.get_by_role("button", name="Delete", exact=True).click()
    expect(losses).to_contain_text(f"{BAD} dead letters are deleted")
    expect(losses).to_contain_text("1 member is online")


def test_a_group_is_made_changed_and_deleted(rocket: Page) -> None:
    rocket.goto("/rocketmq?tab=groups")
    rocket.get_by_role("button", name="Create a group").click()
    dialog = rocket.get_by_role("dialog")
    dialog.get_by_label("Name").fill("auditors")
    dialog.get_by_label("Retries of a message").fill("-2")
    dialog.get_by_role("button", name="Create group").click()
    expect(dialog.get_by_role("alert")).to_contain_text("a whole number from -1")
    dialog.get_by_label("Retries of a message").fill("3")
    dialog.get_by_role("button", name="Create group").click()
    expect(rocket.locator("h1")).to_contain_text("auditors")
    about = rocket.locator("#about")
    expect(about).to_contain_text("Retries at most3")
    rocket.get_by_role("button", name="Change").click()
    dialog.get_by_label("may consume").uncheck()
    dialog.get_by_role("button", name="Change group").click()
    expect(about).to_contain_text("Must not consume frombroker-a")
    rocket.get_by_role("button", name="Delete", exact=True).click()
    dialog.get_by_role("button", name="Delete group").click()
    expect(rocket.get_by_text("Group auditors is deleted.")).to_be_visible()
    expect(row_of(rocket, "groups", "archive")).to_be_visible()
    expect(row_of(rocket, "groups", "auditors")).to_have_count(0)


def test_what_became_of_a_message_and_consuming_it_directly(rocket: Page, shop: Shop) -> None:
    rocket.goto(f"/rocketmq/topics/{TOPIC}?tab=messages&key=trade-7")
    rocket.locator(".messages tbody tr.message").first.get_by_role("button").click()
    rocket.get_by_role("button", name="What became of it?").click()
    fate = rocket.locator(".fate")
    expect(fate.locator("li").filter(has_text="archive")).to_contain_text("waits")
    billing = fate.locator("li").filter(has_text="billing").first
    expect(billing).to_contain_text("consumed")
    expect(fate).to_contain_text("sent by desk")
    before = len(shop.consumed)
    billing.get_by_role("button", name="Consume directly").click()
    rocket.get_by_role("dialog").get_by_role("button", name="Consume directly").click()
    expect(rocket.get_by_text("The member has consumed it.")).to_be_visible()
    assert len(shop.consumed) == before + 1


def test_accounts_without_secrets(open_page: OpenPage) -> None:
    with running_guarded() as url:
        page = open_page(url=url, extra_http_headers={"X-Forwarded-User": "alice"})
        page.goto("/rocketmq?tab=accounts")
        expect(row_of(page, "accounts-broker-a", "billing")).to_contain_text("invoices=PUB")
        expect(row_of(page, "accounts-broker-a", "the-admin")).to_contain_text("administrator")
        assert SECRET not in page.content()
        assert problems(page) == []
        page.set_viewport_size(PHONE)
        page.wait_for_function(FITS)
        page.goto("about:blank")


def test_the_settings_of_a_broker(rocket: Page, shop: Shop) -> None:
    rocket.goto("/rocketmq")
    rocket.get_by_role("link", name="Settings", exact=True).click()
    table = f"settings-broker-a-{shop.broker.rocketmq.replace('.', '-').replace(':', '-')}"
    expect(row_of(rocket, table, "brokerName")).to_contain_text("broker-a")
    assert problems(rocket) == []
    rocket.set_viewport_size(PHONE)
    rocket.wait_for_function(FITS)


def test_a_topic_with_readers_of_both_dialects(rocket: Page) -> None:
    rocket.goto(f"/rocketmq/topics/{TOPIC}")
    expect(row_of(rocket, "readers", "billing")).to_contain_text("RocketMQ group")
    expect(row_of(rocket, "readers", "nsq-audit")).to_contain_text("NSQ channel")
    expect(rocket.locator("#table-queues tbody tr")).to_have_count(4)
    rocket.locator(".badges").get_by_role("link", name="NSQ").click()
    expect(rocket.locator("#table-channels")).to_contain_text("nsq-audit")
    expect(rocket.locator("#table-groups")).to_contain_text("billing")
    rocket.locator(".badges").get_by_role("link", name="RocketMQ").click()
    expect(row_of(rocket, "producers", "desk")).to_contain_text("python")
    rocket.set_viewport_size(PHONE)
    rocket.wait_for_function(FITS)


def test_offsets_are_reset_after_a_preview(rocket: Page, shop: Shop) -> None:
    rocket.goto("/rocketmq/groups/archive")
    rocket.get_by_role("button", name="Reset offsets").click()
    dialog = rocket.get_by_role("dialog")
    dialog.get_by_role("button", name="The end").click()
    expect(dialog).to_contain_text(f"{MESSAGES} messages of {TOPIC} are skipped")
    assert shop.committed("archive", 0) == 0
    dialog.get_by_role("button", name="Reset offsets").click()
    expect(rocket.get_by_text("Group archive goes on there.")).to_be_visible()
    until(lambda: shop.committed("archive", 0) == 3)


def test_a_member_and_what_it_holds(rocket: Page) -> None:
    rocket.goto("/rocketmq/groups/billing")
    member = rocket.locator("#table-members tbody tr")
    expect(member).to_contain_text("python")
    client = member.get_by_role("rowheader").inner_text()
    expect(rocket.locator("#table-queues tbody tr").filter(has_text=client)).to_have_count(5)


def test_messages_are_found_by_key_and_stay_text(rocket: Page) -> None:
    rocket.goto(f"/rocketmq/topics/{TOPIC}?tab=messages")
    rows = rocket.locator(".messages tbody tr.message")
    expect(rows).to_have_count(MESSAGES)
    rocket.get_by_role("button", name="Key", exact=True).click()
    rocket.get_by_role("textbox", name="Key").fill("trade-7")
    rocket.get_by_role("button", name="Find").click()
    expect(rows).to_have_count(1)
    rows.get_by_role("button").click()
    panel = rocket.locator(".message-panel")
    expect(panel).to_contain_text("north")
    expect(panel).to_contain_text("<b>tea</b>")
    rocket.reload()
    expect(panel).to_contain_text("trade-7")


def test_letters_open_and_are_sent_again(rocket: Page, shop: Shop) -> None:
    rocket.goto("/topics")
    rocket.get_by_role("link", name=DEAD_LETTERS).click()
    expect(rocket.locator("h1")).to_contain_text(DEAD_LETTERS)
    rocket.get_by_role("link", name="Messages").click()
    before = len(shop.refused)
    rocket.get_by_role("checkbox", name=re.compile("Choose [0-9A-F]")).first.check()
    rocket.get_by_role("button", name="Send 1 message again").click()
    dialog = rocket.get_by_role("dialog")
    expect(dialog).to_contain_text("group failing alone")
    dialog.get_by_role("button", name="Send again").click()
    expect(rocket.get_by_text("1 message sent.")).to_be_visible()
    until(lambda: len(shop.refused) > before)


def test_who_may_only_look_has_no_buttons(open_page: OpenPage, url: str) -> None:
    page = open_page(url=url)
    page.goto("/rocketmq/groups/billing")
    expect(page.locator("#table-members tbody tr")).to_have_count(1)
    for name in ("Reset offsets", "Change", "Delete"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    page.goto("/rocketmq?tab=topics")
    expect(row_of(page, "topics", TOPIC)).to_be_visible()
    expect(page.get_by_role("button", name="Create a topic")).to_have_count(0)
    expect(page.get_by_role("link", name="Accounts")).to_have_count(0)


def test_over_rocketmq_alone(open_page: OpenPage, shop: Shop) -> None:
    with run_nsqadmin(
        *PATIENT,
        PATIENT_OF_ROCKETMQ,
        f"--rocketmq-namesrv-address={shop.name_server.rocketmq}",
    ) as admin:
        page = open_page(url=f"http://{admin.http}")
        page.goto("/")
        expect(page.locator("#attention li").filter(has_text=DEAD_LETTERS)).to_be_visible()
        links = page.get_by_role("navigation", name="Pages").get_by_role("link")
        expect(links).to_have_text(["RocketMQ"])
        page.keyboard.press("/")
        page.get_by_role("combobox").fill("billing")
        expect(page.get_by_role("option").filter(has_text="RocketMQ group")).to_be_visible()
        page.goto("about:blank")


def test_every_page_is_accessible(rocket: Page) -> None:
    found: list[str] = []
    rocket.goto("/topics")
    for path in PATHS:
        found += problems(followed(rocket, path, "table, #attention li"))
    assert found == []


@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_accessible_in_all_looks(rocket: Page, path: str) -> None:
    assert in_all_looks(settled(rocket, path, "main table, #attention li")) == []


@pytest.mark.parametrize(("path", "name"), DIALOGS)
def test_a_dialog_is_accessible(rocket: Page, path: str, name: str) -> None:
    rocket.goto(path)
    rocket.locator("main").get_by_role("button", name=name, exact=True).first.click()
    expect(rocket.get_by_role("dialog")).to_be_visible()
    assert in_all_looks(rocket) == []


def test_what_became_of_a_message_is_accessible(rocket: Page) -> None:
    rocket.goto(f"/rocketmq/topics/{TOPIC}?tab=messages&key=trade-7")
    rocket.locator(".messages tbody tr.message").first.get_by_role("button").click()
    rocket.get_by_role("button", name="What became of it?").click()
    expect(rocket.locator(".fate li").first).to_be_visible()
    assert in_all_looks(rocket) == []
