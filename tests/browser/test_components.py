"""The parts that all pages share: tables, tabs, dialogs, toasts, the palette, keys, the status."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tools.browser.shooting import PHONE
from tools.browser.site import Site
from tools.browser.watching import Watcher

from .conftest import OpenPage, StartAdmin

WEB = files("penstock.admin") / "web"
COMPONENTS = Path(__file__).with_name("components.js")
PATH = "/lookup"
FIRST = "tbody tr > :first-child"
WatcherOf = Callable[[Page], Watcher]
NO_STORAGE = """
Object.defineProperty(window, "localStorage", {
  get() { throw new DOMException("denied", "SecurityError"); },
});
"""


@pytest.fixture
def open_page(open_page: OpenPage, start_admin: StartAdmin) -> OpenPage:
    """Opens pages of an nsqadmin that serves their files one by one, not as a bundle, so that a
    test can put another in the place of one.
    """
    return partial(open_page, url=start_admin(f"--dev-static-dir={WEB}"))


@pytest.fixture
def page(open_page: OpenPage) -> Page:
    """A page of that nsqadmin."""
    return open_page()


def show(page: Page, query: str = "") -> None:
    """Opens the page of components.js."""
    page.route(
        "**/js/pages/lookup.js",
        lambda route: route.fulfill(path=COMPONENTS, content_type="text/javascript"),
    )
    page.goto(PATH + query)
    expect(page.locator("h1")).to_have_text("Components")


def names(page: Page) -> list[str]:
    """The first column, from the top down."""
    return page.locator(FIRST).all_text_contents()


def head(page: Page, title: str) -> Locator:
    return page.get_by_role("columnheader", name=title)


# --- tables --------------------------------------------------------------------------------------


def test_a_table_sorts_by_its_head_and_the_address_bar_says_how(page: Page) -> None:
    show(page)
    by_depth = ["row-3", "row-5", "row-2", "row-4", "row-1"]  # 4, 3, 2, 1, 0
    expect(page.locator(FIRST)).to_have_text(by_depth)
    expect(head(page, "Depth")).to_have_attribute("aria-sort", "descending")

    head(page, "Depth").get_by_role("button").click()
    expect(page).to_have_url(f"{PATH}?rows.sort=depth")
    expect(page.locator(FIRST)).to_have_text(["row-1", "row-4", "row-2", "row-5", "row-3"])

    head(page, "Name").get_by_role("button").click()
    expect(head(page, "Name")).to_have_attribute("aria-sort", "ascending")
    expect(page.locator(FIRST)).to_have_text(["row-1", "row-2", "row-3", "row-4", "row-5"])

    page.reload()
    expect(head(page, "Name")).to_have_attribute("aria-sort", "ascending")


def test_names_are_sorted_by_the_numbers_in_them_and_the_unknown_comes_last(page: Page) -> None:
    show(page, "?rows=12&rows.sort=-name")
    assert names(page)[:3] == ["row-12", "row-11", "row-10"]
    for order in ("delay", "-delay"):
        show(page, f"?rows.sort={order}")
        assert names(page)[-1] == "row-3"
        expect(page.locator("tbody tr").last).to_contain_text("none")


def test_a_filter_finds_all_words_and_totals_are_of_what_is_found(page: Page) -> None:
    show(page, "?rows=30")
    box = page.get_by_role("searchbox", name="Filter")
    box.press_sequentially("ROW 1")
    expect(page).to_have_url(f"{PATH}?rows=30&rows.find=ROW+1")
    expect(page.locator(".found")).to_have_text("12 of 30")
    expect(box).to_be_focused()
    expect(page.locator("tfoot td").first).to_have_text("20")
    box.fill("nowhere")
    expect(page.get_by_text("No row matches “nowhere”")).to_be_visible()
    box.press("Escape")
    expect(page.locator(".found")).to_have_text("30")
    page.reload()
    expect(page.locator(".found")).to_have_text("30")


def test_ten_thousand_rows_are_drawn_in_parts_and_found_in_all(page: Page) -> None:
    show(page, "?rows=10000&rows.sort=name")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(100)
    page.get_by_role("button", name="Show 400 more").click()
    expect(rows).to_have_count(500)
    expect(page.locator("tfoot td").first).to_have_text("20,000")
    page.get_by_role("searchbox", name="Filter").fill("row-9999")
    expect(rows).to_have_count(1)
    expect(page.locator(FIRST)).to_have_text(["row-9999"])


def test_a_narrow_table_scrolls_in_its_box_with_its_names_in_sight(open_page: OpenPage) -> None:
    page = open_page(viewport=PHONE)
    show(page)
    box = page.locator(".table-box.wide")
    box.evaluate("(box) => box.scrollTo(1000, 0)")
    left = "(element) => element.getBoundingClientRect().left"
    first = page.locator("tbody tr > :first-child").first
    assert box.evaluate("(box) => box.scrollLeft") > 0
    assert first.evaluate(left) == pytest.approx(box.evaluate(left), abs=2)


def test_a_tab_stands_in_the_address_bar(page: Page) -> None:
    show(page)
    page.get_by_role("link", name="Other").click()
    expect(page).to_have_url(f"{PATH}?tab=other")
    expect(page.locator("table")).to_have_count(0)
    page.reload()
    expect(page.get_by_role("link", name="Other")).to_have_attribute("aria-current", "page")
    page.get_by_role("link", name="Rows").click()
    expect(page).to_have_url(PATH)
    expect(page.locator("table")).to_be_visible()


# --- dialogs and toasts --------------------------------------------------------------------------


def test_a_dangerous_dialog_names_what_is_lost_and_focuses_cancel(page: Page) -> None:
    show(page)
    opener = page.get_by_role("button", name="Delete", exact=True)
    opener.click()
    dialog = page.get_by_role("dialog", name="Delete orders?")
    expect(dialog).to_contain_text("12 messages are deleted")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    expect(opener).to_be_focused()
    expect(page.locator(".toast")).to_have_count(0)


def test_a_name_has_to_be_typed(page: Page) -> None:
    show(page)
    page.get_by_role("button", name="Delete typed").click()
    dialog = page.get_by_role("dialog")
    action = dialog.get_by_role("button", name="Delete")
    expect(dialog.get_by_role("textbox")).to_be_focused()
    expect(action).to_be_disabled()
    page.keyboard.type("order")
    page.keyboard.press("Enter")
    expect(action).to_be_disabled()
    page.keyboard.type("s")
    expect(action).to_be_enabled()
    page.keyboard.press("Enter")
    expect(page.locator(".toast")).to_contain_text("orders is deleted")
    expect(dialog).to_have_count(0)


def test_what_went_wrong_is_told_in_the_dialog_and_can_be_tried_again(page: Page) -> None:
    show(page)
    page.get_by_role("button", name="Refused").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Delete").click()
    expect(dialog.get_by_role("alert")).to_have_text("FORBIDDEN")
    dialog.get_by_role("button", name="Delete").click()
    expect(dialog).to_have_count(0)
    expect(page.locator(".toast")).to_contain_text("done at the second attempt")


def test_escape_closes_a_dialog_and_going_back_as_well(page: Page) -> None:
    page.goto("/topics")
    show(page)
    page.get_by_role("button", name="Delete", exact=True).click()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="Tell").click()
    toast = page.locator(".toast")
    expect(toast).to_contain_text("<b>five</b> told")
    toast.get_by_role("button", name="Close").click()
    expect(toast).to_have_count(0)


# --- the palette and the keys --------------------------------------------------------------------


def test_the_palette_goes_to_a_channel_by_keyboard(page: Page) -> None:
    page.goto("/nodes")
    expect(page.locator("h1")).to_be_visible()
    page.keyboard.press("/")
    search = page.get_by_role("combobox", name="Go to")
    expect(search).to_be_focused()
    page.keyboard.type("orders/ship")
    chosen = page.get_by_role("option", selected=True)
    expect(chosen).to_contain_text("orders/shipping")
    page.keyboard.press("Enter")
    expect(page).to_have_url("/topics/orders/shipping")
    expect(page.locator("dialog")).to_have_count(0)


def test_the_palette_knows_pages_topics_and_nodes(page: Page, site: Site) -> None:
    page.goto("/lookup")
    expect(page.locator("h1")).to_be_visible()
    page.keyboard.press("Control+k")
    options = page.get_by_role("option")
    for wish, found in (("dead", "Dead letters"), ("payments", "payments"), (site.nodes[0],) * 2):
        page.get_by_role("combobox").fill(wish)
        expect(options.first).to_contain_text(found)
    page.get_by_role("combobox").fill("there is no such thing")
    expect(page.get_by_text("Nothing is called")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)


def test_the_palette_of_a_cluster_without_topics(page: Page, watcher: Watcher) -> None:
    watcher.expect(404)  # of the page that is opened: the node is made up
    node = {"broadcast_address": "fe80::1", "http_port": 4151, "hostname": "six"}
    page.route("**/api/topics", lambda route: route.fulfill(json={"topics": None, "message": ""}))
    page.route("**/api/nodes?*", lambda route: route.fulfill(json={"nodes": [node], "message": ""}))
    page.goto("/lookup")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("combobox").fill("fe80")
    expect(page.get_by_role("option")).to_contain_text("[fe80::1]:4151")
    expect(page.get_by_text("Not all names are known")).to_have_count(0)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/nodes/%5Bfe80%3A%3A1%5D%3A4151$"))


def test_arrows_choose_in_the_palette(page: Page) -> None:
    page.goto("/lookup")
    page.get_by_role("button", name="Search").click()
    chosen = page.get_by_role("option", selected=True)
    expect(chosen).to_contain_text("Overview")
    page.keyboard.press("ArrowDown")
    expect(chosen).to_contain_text("Topics")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(page.get_by_role("option").last).to_have_attribute("aria-selected", "true")


def test_keys_lead_to_pages_rows_and_filters(page: Page) -> None:
    page.goto("/lookup")
    expect(page.locator("h1")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page.locator("h1")).to_contain_text("Topics")
    expect(page.locator("tbody tr").first).to_be_visible()
    page.keyboard.press("j")
    expect(page.locator("tbody tr").first.get_by_role("link").first).to_be_focused()
    page.keyboard.press("f")
    filter_box = page.get_by_role("searchbox").first
    expect(filter_box).to_be_focused()
    page.keyboard.type("g")  # in a field letters are letters
    page.keyboard.type("n")
    expect(filter_box).to_have_value("gn")


def test_the_help_tells_the_keys(page: Page) -> None:
    page.goto("/lookup")
    expect(page.locator("h1")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_contain_text("Dead letters")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_menu_of_a_phone(open_page: OpenPage) -> None:
    page = open_page(viewport=PHONE)
    page.goto("/lookup")
    menu = page.get_by_role("navigation", name="Pages")
    expect(menu).to_be_hidden()
    page.get_by_role("button", name="Pages").click()
    menu.get_by_role("link", name="Nodes").click()
    expect(page.locator("h1")).to_contain_text("Nodes")
    expect(menu).to_be_hidden()


# --- theme and status ----------------------------------------------------------------------------


def test_a_theme_can_be_chosen_where_storage_is_refused(page: Page) -> None:
    page.add_init_script(NO_STORAGE)
    page.goto("/lookup")
    page.keyboard.press("T")
    expect(page.get_by_role("button", name="Theme: light")).to_be_visible()
    page.keyboard.press("T")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.keyboard.press("T")
    expect(page.get_by_role("button", name="Theme: system")).to_be_visible()


def test_figures_stand_still_and_go_on(page: Page) -> None:
    page.goto("/topics")
    status = page.locator(".status")
    expect(status).to_have_class("status good")
    page.keyboard.press("p")
    expect(status).to_contain_text("Paused")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    status.click()
    expect(status).to_have_class("status good")
    assert any("/api/events" in url for url in asked)


def test_tabs_that_nobody_sees_leave_the_others_their_connections(open_page: OpenPage) -> None:
    """A browser has six to a server, and headless it takes every tab for one that is seen."""
    hide = """(value) => {
      Object.defineProperty(document, "hidden", { value, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }"""
    first = open_page()
    for page in (first, *(first.context.new_page() for _ in range(6))):
        page.goto("/topics")
        expect(page.locator(".status")).to_have_class("status good")
        page.evaluate(hide, True)
    first.evaluate(hide, False)
    with first.expect_response("**/api/topics"):
        first.keyboard.press("r")
    expect(first.locator(".status")).to_have_class("status good")


def test_who_may_only_look_is_told_so(open_page: OpenPage, start_admin: StartAdmin) -> None:
    url = start_admin("--admin-user=alice")
    page = open_page(url=url)
    page.goto("/topics")
    expect(page.get_by_text("read-only")).to_be_visible()
    admin = open_page(url=url, extra_http_headers={"X-Forwarded-User": "alice"})
    admin.goto("/topics")
    expect(admin.locator("h1")).to_be_visible()
    expect(admin.get_by_text("read-only")).to_have_count(0)


def test_without_a_history_the_status_says_so(open_page: OpenPage, start_admin: StartAdmin) -> None:
    page = open_page(url=start_admin("--history-interval=0"))
    page.goto("/topics")
    expect(page.locator(".status")).to_contain_text("history off")


def test_a_page_outlives_an_nsqadmin_that_is_gone_for_a_while(
    open_page: OpenPage, watcher_of: WatcherOf, site: Site
) -> None:
    with site.another_admin() as admin:
        page = open_page(url=f"http://{admin.http}")
        watcher_of(page).expect_lost_server()
        page.goto("/topics")
        orders = page.get_by_role("link", name="orders", exact=True)
        expect(orders).to_be_visible()
        admin.stop()
        banner = page.get_by_role("alert")
        expect(banner).to_contain_text("nsqadmin cannot be reached")
        expect(banner).to_contain_text("Not updated since")
        expect(orders).to_be_visible()
        admin.start()
        expect(banner).to_have_count(0)
        expect(page.locator(".status")).to_have_class("status good")
