"""Limits of a topic and attempts of a channel, edited in a dialog."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tools.browser.shooting import shoot
from tools.browser.site import Site, ask, until

from .test_actions import press


def test_limits_of_a_topic(page: Page, site: Site) -> None:
    site.make("limited", "c")
    nodes = [
        node for node in site.nodes if ask(node, "GET", "/topic/config?topic=limited")[0] == 200
    ]
    page.goto("/topics/limited")
    dialog = press(page, "Limits")
    field = dialog.get_by_label("Messages that may wait")
    expect(field).to_have_attribute("placeholder", "any number, as --max-depth says")
    shoot(page, "topic-limits", ("light", "dark", "phone"), whole=False)
    dialog.get_by_label("Keep consumed messages for").fill("a day")
    dialog.get_by_role("button", name="Change limits").click()
    expect(dialog.get_by_role("alert")).to_contain_text("a duration such as 24h")
    dialog.get_by_label("Keep consumed messages for").fill("24h")
    field.fill("100000")
    dialog.get_by_label("When it is full").select_option("drop-oldest")
    dialog.get_by_role("button", name="Change limits").click()
    expect(dialog).to_have_count(0)
    for node in nodes:
        found = ask(node, "GET", "/topic/config?topic=limited")[1]["set"]
        assert found == {
            "max_depth": 100_000, "max_bytes": None, "overflow": "drop-oldest",
            "retention_time": "24h0m0s", "retention_bytes": None,
        }  # fmt: skip
    dialog = press(page, "Limits")
    expect(dialog.get_by_label("Messages that may wait")).to_have_value("100000")
    dialog.get_by_label("Messages that may wait").fill("")
    dialog.get_by_role("button", name="Change limits").click()
    expect(dialog).to_have_count(0)
    shown = [ask(node, "GET", "/topic/config?topic=limited")[1] for node in nodes]
    assert {each["set"]["max_depth"] for each in shown} == {None}


def test_attempts_of_a_channel(page: Page, site: Site) -> None:
    site.make("tries", "c")
    page.goto("/topics/tries/c")
    dialog = press(page, "Limits")
    dialog.get_by_label("Attempts at a message").fill("5")
    shoot(page, "channel-limits", whole=False)
    dialog.get_by_role("button", name="Change limits").click()
    expect(dialog).to_have_count(0)

    def is_set() -> bool:
        told = [ask(node, "GET", "/channel/config?topic=tries&channel=c") for node in site.nodes]
        return {body["max_attempts"] for status, body in told if status == 200} == {5}

    until(is_set)
