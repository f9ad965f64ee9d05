"""The modules of the pages as one script, and their style sheets as one: two files, not a hundred.

A module becomes a function that returns what it exports, in an order in which each comes behind
those that it imports. The sources keep to what is understood here: imports of names in braces,
``export`` before a declaration or with ``from``, no circle, and ``import(...)`` of a page alone.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Final

SCRIPT: Final = "app.js"
STYLE: Final = "app.css"
MAIN: Final = "js/main.js"
_FROM: Final = re.compile(
    r'^(?P<word>import|export)\s*\{(?P<names>[^}]*)\}\s*from\s*"(?P<path>\.[^"]+)";$', re.MULTILINE
)
_NAMED: Final = re.compile(r"^export ((?:async function|function|const|class) (\w+))", re.MULTILINE)
_DEFAULT: Final = re.compile(r"^export default (function (\w+))", re.MULTILINE)
_LEFT: Final = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)
_PAGE: Final = re.compile(r"\bimport\((`[^`]*`)\)")


class BundleError(Exception):
    """A module that is not written as this reader needs it; the text names it and the line."""


def script(sources: Mapping[str, str]) -> str:
    """One module of all. Raises BundleError for what is not understood."""
    needs = {
        name: [_beside(name, found["path"]) for found in _FROM.finditer(text)]
        for name, text in sources.items()
    }
    for name, paths in needs.items():
        for path in set(paths) - sources.keys():
            raise BundleError(f"{name}: there is no {path}")
    try:
        order = list(TopologicalSorter(needs).static_order())
    except CycleError as error:
        raise BundleError(f"modules in a circle: {' '.join(error.args[1])}") from error
    place = {name: f"m{number}" for number, name in enumerate(order)}
    pages = ", ".join(
        f'"{name.removeprefix("js/")}": {place[name]}'
        for name in order
        if name.startswith("js/pages/")
    )
    last = order.index(MAIN)
    order.append(order.pop(last))  # it shows a page at once, so all are to be there
    parts = [_function(name, sources[name], place) for name in order]
    parts.insert(-1, f"const pages = {{ {pages} }};")
    return "\n".join(parts)


def style(sources: Mapping[str, str]) -> str:
    """One style sheet of all, in the order of the names."""
    return "\n".join(sources.values())


def _function(name: str, text: str, place: Mapping[str, str]) -> str:
    exported: list[str] = []

    def of_another(found: re.Match[str]) -> str:
        names = [each.split() for each in found["names"].split(",") if each.strip()]
        source = place[_beside(name, found["path"])]
        if found["word"] == "export":
            exported.extend(f"{each[-1]}: {source}.{each[0]}" for each in names)
            return ""
        wanted = ", ".join(": ".join((each[0], each[-1])) for each in names)
        return f"const {{ {wanted} }} = {source};"

    def named(found: re.Match[str]) -> str:
        exported.append(found[2])
        return found[1]

    def by_default(found: re.Match[str]) -> str:
        exported.append(f"default: {found[2]}")
        return found[1]

    text = _DEFAULT.sub(by_default, _NAMED.sub(named, _FROM.sub(of_another, text)))
    text = _PAGE.sub(r"pages[\1.slice(2)]", text)
    if left := _LEFT.search(text):
        raise BundleError(f"{name}: not understood in one script: {left[0]}")
    return (
        f"// {name}\nconst {place[name]} = (() => {{\n{text}\n"
        f"return {{ {', '.join(exported)} }};\n}})();"
    )


def _beside(name: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
