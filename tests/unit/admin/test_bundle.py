"""The pages' modules as one script."""

from __future__ import annotations

import pytest

from penstock.admin.bundle import MAIN, BundleError, script, style

WORDS = {
    "js/core/words.js": "export const A = 'a';\nexport function b() {\n  return A + 'b';\n}\n",
    "js/core/more.js": 'export { A as first } from "./words.js";\n',
    "js/pages/one.js": 'import { first } from "../core/more.js";\n\n'
    "export default function one() {\n  return first;\n}\n",
    MAIN: 'import {\n  A, b as said,\n} from "./core/words.js";\n\nconst at = "one";\n'
    "const page = (await import(`./pages/${at}.js`)).default;\n"
    "console.log(A, said(), page());\n",
}


def test_modules_become_functions_behind_those_that_they_need() -> None:
    made = script(WORDS)
    places = [made.index(f"// {name}\n") for name in WORDS]
    assert places == sorted(places)
    assert "import" not in made
    assert "export" not in made
    assert "const { A: A, b: said } = m0;" in made


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("js/a.js", 'import { b } from "./b.js";\n', "js/a.js: there is no js/b.js"),
        ("js/a.js", 'import * as b from "./main.js";\n',
         'js/a.js: not understood in one script: import * as b from "./main.js";'),
        ("js/a.js", "export let count = 0;\n",
         "js/a.js: not understood in one script: export let count = 0;"),
        (MAIN, 'import { a } from "./main.js";\n', f"modules in a circle: {MAIN} {MAIN}"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_named(name: str, text: str, why: str) -> None:
    with pytest.raises(BundleError) as raised:
        script({MAIN: "", name: text})
    assert str(raised.value) == why


def test_style_sheets_come_by_their_names() -> None:
    assert style({"style/a.css": "a {}", "style/b.css": "b {}"}) == "a {}\nb {}"
