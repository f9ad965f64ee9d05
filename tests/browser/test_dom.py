"""dom.js: only what differs is touched, and text is never markup."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from .modules import load, run

HOSTILE = "<img src=x onerror=alert(1)><script>document.title = 'broken in'</script>&amp;"
ROOT = """
window.root = document.body.appendChild(document.createElement("div"));
const { h, render } = modules;
"""


@pytest.fixture(autouse=True)
def module(page: Page) -> None:
    load(page, "core/dom.js")
    run(page, ROOT)


def do(page: Page, code: str, given: object = None) -> object:
    return run(page, "const { h, render } = modules; " + code, given)


def test_text_is_never_markup(page: Page) -> None:
    code = """
    render(root, h("p", { title: given }, given, h("a", { href: "#" + given }, given)));
    const p = root.firstChild;
    return [root.querySelectorAll("*").length, p.title, p.firstChild.data, p.lastChild.textContent];
    """
    assert do(page, code, HOSTILE) == [2, HOSTILE, HOSTILE, HOSTILE]


def test_what_stays_is_the_same_element(page: Page) -> None:
    code = """
    render(root, h("p", { class: "a", title: "t" }, "one"));
    const [p, text] = [root.firstChild, root.firstChild.firstChild];
    render(root, h("p", { class: "b" }, "two"));
    return [p === root.firstChild, text === p.firstChild, root.innerHTML];
    """
    assert do(page, code) == [True, True, '<p class="b">two</p>']


@pytest.mark.parametrize("after", ["abcde", "edcba", "bcdea", "xaybz", "c", "edxcb"])
def test_keyed_elements_move_with_what_they_hold(page: Page, after: str) -> None:
    code = """
    const list = (keys) => [...keys].map((key) => h("input", { key, name: key }));
    const names = () => [...root.children].map((input) => input.name).join("");
    render(root, list("abcde"));
    const before = new Map([...root.children].map((input) => [input.name, input]));
    render(root, list(given));
    const same = [...root.children].every((each) =>
      !before.has(each.name) || before.get(each.name) === each);
    return [names(), same];
    """
    assert do(page, code, after) == [after, True]


def test_the_focus_stays_while_others_come_go_and_move_around_it(page: Page) -> None:
    code = """
    const list = (keys) => [...keys].map((key) => h("input", { key, name: key, type: "text" }));
    render(root, list("abc"));
    const focused = root.children[1];
    focused.focus();
    focused.value = "half";
    for (const keys of ["abcd", "bcd", "xbyd", "b"]) render(root, list(keys));
    return [document.activeElement === focused, focused.value];
    """
    assert do(page, code) == [True, "half"]


def test_a_listener_is_replaced_not_added(page: Page) -> None:
    code = """
    const heard = [];
    const draw = (word) =>
      render(root, h("button", word ? { onclick: () => heard.push(word) } : {}, "b"));
    for (const word of ["one", "two", null]) {
      draw(word);
      root.firstChild.click();
    }
    return heard;
    """
    assert do(page, code) == ["one", "two"]


def test_a_value_is_what_the_field_has(page: Page) -> None:
    code = """
    render(root, h("input", { value: "a" }));
    root.firstChild.value = "typed";
    render(root, h("input", { value: "a" }));
    const first = root.firstChild.value;
    render(root, h("input", {}));
    return [first, root.firstChild.value];
    """
    assert do(page, code) == ["a", ""]


def test_mounted_once_and_unmounted_when_it_goes(page: Page) -> None:
    code = """
    const told = [];
    const child = () => h("i", { onmount: () => (told.push("came"), () => told.push("went")) });
    render(root, h("p", {}, child()));
    render(root, h("p", {}, child()));
    render(root, h("div", {}, "else"));
    return told;
    """
    assert do(page, code) == ["came", "went"]


def test_drawn_every_time(page: Page) -> None:
    code = """
    const told = [];
    for (const word of ["one", "two"]) {
      render(root, h("p", { ondraw: (element) => told.push(word + element.textContent) }, "!"));
    }
    return told;
    """
    assert do(page, code) == ["one!", "two!"]


def test_attributes_styles_and_switches(page: Page) -> None:
    code = """
    render(root, h("p", { hidden: true, lang: "en", style: { width: "2px", "--tone": "red" } }));
    const first = root.innerHTML;
    render(root, h("p", { hidden: false, lang: null, style: { width: "3px" } }));
    return [first, root.innerHTML];
    """
    assert do(page, code) == [
        '<p hidden="" lang="en" style="width: 2px; --tone: red;"></p>',
        '<p style="width: 3px;"></p>',
    ]


def test_pictures_are_made_in_their_namespace(page: Page) -> None:
    code = """
    render(root, h("svg", {}, h("path", { d: "M0 0" })), h("p", {}));
    return [...root.querySelectorAll("*")].map((each) => each.namespaceURI.split("/").pop());
    """
    assert do(page, code) == ["svg", "svg", "xhtml"]


def test_nothing_is_left_out_but_nothing(page: Page) -> None:
    code = (
        'render(root, null, false, undefined, true, 0, "", [["a"], "b"]); return root.textContent'
    )
    assert do(page, code) == "0ab"
