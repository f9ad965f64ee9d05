"""Browsing messages: the tabs of a topic and of a channel; bodies as text, JSON and hex."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from penstock.testing.daemons import run_nsqadmin
from tools.browser.shooting import PHONE, shoot
from tools.browser.site import PATIENT, Site, ask, until
from tools.browser.traffic import NOTES
from tools.browser.watching import Watcher

from . import modules
from .conftest import OpenPage
from .scripted import scripted

NOTES_TAB = "/topics/notes?tab=messages&from=oldest"
WHOLE = 64 * 1024
HUGE = WHOLE + 1000
ROWS = 1000
ROWS_DRAWN_MS = 1500

DEEP = b"[" * 10_000 + b"]" * 10_000
WIDE = json.dumps(list(range(10_000))).encode()
SCRIPTS = b"<script>window.broken = 1</script><img src=x onerror='window.broken = 2'>"
HOSTILE = (
    SCRIPTS,
    b'{"<b>key</b>": "</pre><script>window.broken = 3</script>"}',
    b"x" * HUGE,
    b"ok \xff\xfe\xc3( not UTF-8",
    DEEP,
    WIDE,
    "\u202e\u0000\u0007\u2066 turned round".encode(),
    b"",
    b"javascript:alert(1)",
)
JSONS = (
    '{"a":1,"b":[true,null,{"c":"d"}],"e":{},"f":[]}',
    '{"same":1,"same":2}',
    "[12345678901234567890,1.10,-0,1e400]",
    '"\\u00e9\\\\\\"[{,:"',
    ' [ "a:b" , {"x{":"}y"} ] ',
    "42",
    "[[[[]]]]",
)


@pytest.fixture(scope="module")
def hostile(site: Site) -> str:
    """The page of a topic with the bodies of `HOSTILE`, from offset 0 on."""
    site.make("msg-hostile", bodies=tuple(each for each in HOSTILE if each))
    return "/topics/msg-hostile?tab=messages&from=oldest"


def row(page: Page, offset: int) -> Locator:
    """The row of a message."""
    return page.locator("tr.message").filter(
        has=page.get_by_role("button", name=f"{offset:,}", exact=True)
    )


def offsets(page: Page) -> list[int]:
    """Those that are listed, from the top."""
    texts = page.locator("tr.message .opener").all_inner_texts()
    return [int(each.replace(",", "")) for each in texts]


def body(page: Page) -> Locator:
    """The opened body, where there is one alone."""
    return page.locator(".body")


# --- the modules ---------------------------------------------------------------------------------


def test_hex_rows(page: Page) -> None:
    modules.load(page, "widgets/hex.js")
    rows = modules.run(page, "return modules.hexRows(new Uint8Array(given))", [*range(60, 78)])
    assert [each["offset"] for each in rows] == ["00000000", "00000010"]
    assert rows[0]["hex"] == "3c 3d 3e 3f 40 41 42 43  44 45 46 47 48 49 4a 4b"
    assert rows[0]["ascii"] == "<=>?@ABCDEFGHIJK"
    assert rows[1]["hex"].rstrip() == "4c 4d"
    dump = modules.run(page, "return modules.hexDump(new Uint8Array(given))", [0, 0x7F, 0x20, 0xFF])
    assert re.fullmatch(r"00000000  00 7f 20 ff +\.\. \.", dump)
    assert modules.run(page, "return modules.hexRows(new Uint8Array())") == []


def test_json_lines_lose_nothing(page: Page) -> None:
    modules.load(page, "widgets/json.js")
    shown = modules.run(page, "return given.map((text) => modules.pretty(modules.jsonLines(text)))",
                        [*JSONS])  # fmt: skip
    strip = re.compile(r'("(?:[^"\\]|\\.)*")|\s+')
    for text, lines in zip(JSONS, shown, strict=True):
        assert strip.sub(r"\1", lines) == strip.sub(r"\1", text)


def test_what_is_no_json(page: Page) -> None:
    modules.load(page, "widgets/json.js")
    texts = ["", "{", "{'a':1}", "[1,]", "nul", "1 2", '{"a":\x00}']
    assert modules.run(page, "return given.map(modules.jsonLines)", texts) == [None] * len(texts)


def test_json_lines_know_their_ends(page: Page) -> None:
    modules.load(page, "widgets/json.js")
    lines = modules.run(page, "return modules.jsonLines(given)", '{"a":[1,2],"b":{}}')
    assert [(each["depth"], each["key"], each["text"], each["kind"]) for each in lines] == [
        (0, None, "{", "open"),
        (1, '"a"', "[", "open"),
        (2, None, "1", "number"),
        (2, None, "2", "number"),
        (1, None, "]", "close"),
        (1, '"b"', "{}", "word"),
        (0, None, "}", "close"),
    ]
    assert [(each["end"], each["count"]) for each in lines[:2]] == [(6, 2), (4, 2)]
    assert [each["comma"] for each in lines] == [False, False, True, False, True, False, False]


def test_ten_thousand_levels(page: Page) -> None:
    modules.load(page, "widgets/json.js")
    count = modules.run(page, "return modules.jsonLines(given).length", DEEP.decode())
    assert count == 2 * 9_999 + 1


# --- looking -------------------------------------------------------------------------------------


def test_what_the_log_holds(page: Page, site: Site) -> None:
    page.goto(NOTES_TAB)
    expect(page.locator("tr.message")).to_have_count(len(NOTES))
    first = row(page, 0)
    told = site.api(f"/api/messages?topic=notes&node={site.nodes[0]}&limit=1")["messages"][0]
    expect(first).to_contain_text("plain text")
    expect(first).to_contain_text("in the channels")
    expect(first).to_contain_text("10 B")
    first.click()
    expect(page.locator(".message-panel")).to_contain_text(told["id"])
    expect(body(page).locator(".body-text")).to_have_text("plain text")
    assert page.url.endswith("&open=0")
    page.reload()
    expect(body(page)).to_have_count(1)
    row(page, 0).click()
    expect(body(page)).to_have_count(0)


def test_each_kind_of_body_is_shown_as_what_it_is(page: Page) -> None:
    page.goto(f"{NOTES_TAB}&open=0.1.2.3.4.5")
    shown = body(page)
    expect(shown).to_have_count(6)
    kinds = [each.locator("[aria-pressed=true]").inner_text() for each in shown.all()]
    assert kinds == ["Text", "JSON", "Hex", "Text", "Text", "Text"]
    expect(shown.nth(1).locator(".json-key").first).to_have_text('"kind"')
    expect(shown.nth(2).locator(".hex-hex")).to_contain_text("00 01 02 fe ff 20 62 69  6e 61 72 79")
    expect(shown.nth(2).locator(".hex-ascii")).to_have_text("..... binary")
    expect(shown.nth(3)).to_contain_text("Grüße, 世界, \N{ROCKET}")
    expect(shown.nth(5).locator(".body-text")).to_have_text(NOTES[5].decode().strip())
    shoot(page, "messages", ("light", "dark", "phone"))


def test_the_chosen_view_is_in_the_address(page: Page) -> None:
    page.goto(f"{NOTES_TAB}&open=1")
    body(page).get_by_role("button", name="Hex").click()
    expect(body(page).locator(".hex-offset")).to_contain_text("00000010")
    assert "view=hex" in page.url
    page.reload()
    expect(body(page).locator(".hex-offset")).to_be_visible()
    body(page).get_by_role("button", name="Text").click()
    expect(body(page).locator(".body-text")).to_have_text(NOTES[1].decode())
    row(page, 0).click()
    expect(body(page).first.get_by_role("button", name="JSON")).to_be_disabled()


def test_folding_json(page: Page) -> None:
    page.goto(f"{NOTES_TAB}&open=1")
    lines = page.locator(".json-line")
    expect(lines).to_have_count(14)
    lines.nth(2).get_by_role("button", name="Fold").click()
    expect(lines).to_have_count(9)
    expect(lines.nth(2)).to_have_text('"list": [ … ] 4 elements,')
    lines.nth(2).get_by_role("button", name="Unfold").click()
    expect(lines).to_have_count(14)


def test_copying(open_page: OpenPage) -> None:
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    page.goto(f"{NOTES_TAB}&open=1")
    body(page).get_by_role("button", name="Copy").click()
    expect(page.get_by_text("Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert json.loads(copied) == json.loads(NOTES[1])
    assert copied.count("\n") == 13


def test_copying_where_there_is_no_clipboard(open_page: OpenPage) -> None:
    page = open_page(permissions=["clipboard-read"])
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.goto(f"{NOTES_TAB}&open=0")
    body(page).get_by_role("button", name="Copy").click()
    expect(page.get_by_text("Copied")).to_be_visible()


# --- going on ------------------------------------------------------------------------------------


def test_pages(page: Page, site: Site) -> None:
    site.make("msg-pages", bodies=tuple(b"%d" % number for number in range(120)))
    page.goto("/topics/msg-pages?tab=messages")
    expect(page.locator("tr.message")).to_have_count(50)
    assert offsets(page) == [*range(119, 69, -1)]  # of a topic the newest first
    page.get_by_role("button", name="Earlier").click()
    expect(row(page, 20)).to_be_visible()
    assert offsets(page) == [*range(69, 19, -1)]
    page.get_by_role("button", name="Oldest").click()
    expect(row(page, 0)).to_be_visible()
    assert offsets(page) == [*range(50)]
    for last in (99, 119):
        page.get_by_role("button", name="Later").click()
        expect(row(page, last)).to_be_visible()
    assert offsets(page) == [*range(100, 120)]
    expect(page.get_by_role("button", name="Later")).to_be_disabled()
    page.get_by_label("Offset").fill("33")
    page.get_by_label("Offset").press("Enter")
    expect(row(page, 33)).to_be_visible()
    assert offsets(page)[0] == 33
    assert "from=33" in page.url
    page.get_by_label("Rows").select_option("200")
    expect(page.locator("tr.message")).to_have_count(87)
    page.reload()
    expect(page.locator("tr.message")).to_have_count(87)


def test_an_offset_behind_the_end(page: Page) -> None:
    page.goto("/topics/notes?tab=messages&from=99999")
    expect(page.get_by_text("Nothing from there on")).to_be_visible()


def test_a_place_that_makes_no_sense(page: Page, watcher: Watcher) -> None:
    watcher.expect(400)
    page.goto("/topics/notes?tab=messages&from=yesterday")
    expect(page.get_by_text("There is no such place to begin at")).to_be_visible()
    page.get_by_role("button", name="Oldest").click()
    expect(row(page, 0)).to_be_visible()


def test_the_filter_looks_at_bodies(page: Page) -> None:
    page.goto(NOTES_TAB)
    page.get_by_placeholder("Filter this page").fill("GRÜSSE")
    expect(page.get_by_text("No message here has “GRÜSSE”")).to_be_visible()
    page.get_by_placeholder("Filter this page").fill("grüße")
    expect(page.locator("tr.message")).to_have_count(1)
    assert "find=" in page.url


def test_what_a_channel_still_needs(page: Page, site: Site) -> None:
    page.goto("/topics/notes/reader?tab=messages")
    expect(page.locator("tr.message")).to_have_count(len(NOTES))
    expect(row(page, 0)).to_contain_text("waiting")
    site.make("msg-deferred", "c")

    def is_put_off() -> bool:
        """What comes while the topic starts waits in the channel."""
        site.publish("msg-deferred", b"later", defer_ms=3_600_000)
        return bool((site.stats("msg-deferred", "c") or {})["deferred_count"])

    until(is_put_off)
    page.goto("/topics/msg-deferred/c?tab=messages")
    last = page.locator("tr.message").last
    expect(last).to_contain_text(re.compile(r"deferred, (1h|59m)"))


def test_choosing_a_node(page: Page, site: Site) -> None:
    for node in (0, 1):
        site.make("msg-nodes", bodies=(b"on node %d" % node,), node=node)
    page.goto("/topics/msg-nodes?tab=messages")
    for node in (1, 0):
        page.get_by_label("Node").select_option(site.nodes[node])
        # A list: with one text, the two rows of before would be an error at once.
        expect(page.locator("tr.message")).to_have_text([re.compile(f"on node {node}")])
    page.reload()
    expect(page.locator("tr.message")).to_have_text([re.compile("on node 0")])


def test_a_queue_of_rocketmq(page: Page) -> None:
    page.goto("/topics/prices?tab=messages&from=oldest")
    expect(row(page, 0)).to_contain_text("tea 3.00")


def test_a_node_that_does_not_let_anybody_look(
    open_page: OpenPage, watcher_of: Callable[[Page], Watcher]
) -> None:
    with scripted() as node:
        node.answers = {
            "/info": {"version": "1.3.0", "broadcast_address": "127.0.0.1", "hostname": "h",
                      "tcp_port": 1, "http_port": node.server_port},
            "/stats": {"version": "1.3.0", "topics": [{"topic_name": "t", "channels": []}]},
        }  # fmt: skip
        with run_nsqadmin(*PATIENT, f"--nsqd-http-address={node.address}") as admin:
            page = open_page(url=f"http://{admin.http}")
            watcher_of(page).expect(501)
            page.goto("/topics/t?tab=messages")
            expect(page.get_by_text("This node keeps no log to look into")).to_be_visible()
            page.goto("about:blank")


def test_on_a_phone(open_page: OpenPage) -> None:
    page = open_page(viewport=PHONE)
    page.goto(f"{NOTES_TAB}&open=2")
    expect(body(page).get_by_role("button", name="Copy")).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


# --- hostile bodies ------------------------------------------------------------------------------


def test_hostile_bodies_stay_text(page: Page, hostile: str) -> None:
    page.goto(f"{hostile}&open=0.1.2.3.4.5.6.7")
    shown = body(page)
    expect(shown).to_have_count(8)
    expect(shown.nth(0).locator(".body-text")).to_have_text(SCRIPTS.decode())
    expect(shown.nth(1).locator(".json-key")).to_have_text('"<b>key</b>"')
    expect(shown.nth(2)).to_contain_text(f"truncated: {WHOLE:,} of {HUGE:,} bytes shown")
    assert len(shown.nth(2).locator(".body-text").inner_text()) == WHOLE
    expect(shown.nth(3).locator("[aria-pressed=true]")).to_have_text("Hex")
    expect(shown.nth(4).locator(".json-line")).to_have_count(8 + 1 + 8)
    expect(shown.nth(6).locator("[aria-pressed=true]")).to_have_text("Hex")
    for kind in ("Text", "Hex", "JSON"):
        shown.nth(1).get_by_role("button", name=kind).click()
        expect(shown.nth(1).locator("[aria-pressed=true]")).to_have_text(kind)
    assert page.evaluate("window.broken") is None
    assert page.locator("main script, main img").count() == 0


def test_unfolding_deep_json(page: Page, hostile: str) -> None:
    page.goto(f"{hostile}&open=4")
    expect(page.locator(".json-line")).to_have_count(17)
    page.get_by_role("button", name="Unfold").click()
    expect(page.locator(".json-line")).to_have_count(19)
    expect(page.get_by_role("button", name="Unfold")).to_have_count(1)


def test_wide_json_comes_in_parts(page: Page, hostile: str) -> None:
    page.goto(f"{hostile}&open=5")
    expect(page.locator(".json-line")).to_have_count(500)
    page.get_by_role("button", name="Show more").click()
    expect(page.locator(".json-line")).to_have_count(2500)


def test_what_is_not_utf8_as_text(page: Page, hostile: str) -> None:
    page.goto(f"{hostile}&open=3&view=text")
    expect(body(page)).to_contain_text("ok ��")
    expect(body(page)).to_contain_text("not UTF-8")


def test_a_thousand_rows(page: Page, site: Site) -> None:
    bodies = b"\n".join(b"line %d %s" % (number, b"x" * 900) for number in range(ROWS))
    site.make("msg-many")
    status, _ = ask(site.nodes[0], "POST", "/mpub?topic=msg-many", bodies)
    assert status == 200
    page.goto("/topics/msg-many?tab=messages")
    expect(page.locator("tr.message")).to_have_count(50)
    page.get_by_label("Rows").select_option(str(ROWS))
    expect(page.locator("tr.message")).to_have_count(ROWS)
    spent = page.evaluate("""async () => {
      const field = document.querySelector("input[type=search][placeholder='Filter this page']");
      const start = performance.now();
      field.value = "line 7";
      field.dispatchEvent(new Event("input", { bubbles: true }));
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      return performance.now() - start;
    }""")
    expect(page.locator("tr.message")).to_have_count(111)
    assert spent < ROWS_DRAWN_MS
