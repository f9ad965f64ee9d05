"""A docstring's first line stands by itself: a noun phrase or an imperative."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from tests.source import MODULES, Documented, below_assignments, name, nodes

BANNED = re.compile(
    r"(What|Who|How|Whether|Which|The same|As|So many|So long|Such|Likewise"
    r"|For who|They|It|Its|Their|Them|This|These|Those|Where|When|Why|Until)\b"
)
# Of the verbs in the third person those that are no nouns in the plural as well.
THIRD_PERSON = re.compile(
    r"(?:Accepts|Adds|Allows|Applies|Asks|Becomes|Begins|Brings|Builds|Chooses|Clears|Closes"
    r"|Collects|Compiles|Connects|Consumes|Converts|Creates|Decides|Declares|Decodes|Delivers"
    r"|Does|Encodes|Enters|Fails|Fills|Finds|Finishes|Forgets|Frees|Gathers|Gets|Gives|Goes"
    r"|Handles|Has|Hides|Holds|Is|Joins|Keeps|Knows|Leaves|Lets|Lies|Listens|Loads|Makes|Moves"
    r"|Opens|Parses|Passes|Polls|Prints|Produces|Puts|Quotes|Raises|Reads|Receives|Refuses"
    r"|Releases|Remembers|Removes|Renames|Replaces|Restores|Returns|Runs|Saves|Says|Serves|Sets"
    r"|Shows|Sorts|Stands|Starts|Stops|Stores|Takes|Tells|Tries|Turns|Uses|Verifies|Waits|Wakes"
    r"|Wraps|Writes|Yields)\b"
)


def docstrings(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The docstrings of a module, its classes and functions, and those below its assignments."""
    for node in nodes:
        if isinstance(node, Documented):
            if text := ast.get_docstring(node):
                yield text
            yield from below_assignments(node.body)


@cache
def first_lines(module: Path) -> list[str]:
    return [text.splitlines()[0] for text in docstrings(nodes(module))]


def first_lines_of(source: str) -> list[str]:
    return [text.splitlines()[0] for text in docstrings(ast.walk(ast.parse(source)))]


def banned(lines: list[str]) -> list[str]:
    """Those that begin with a word that needs another sentence before it."""
    return [line for line in lines if BANNED.match(line)]


def in_third_person(lines: list[str]) -> list[str]:
    return [line for line in lines if THIRD_PERSON.match(line)]


def test_first_lines_stand_by_themselves() -> None:
    found = {name(module): banned(first_lines(module)) for module in MODULES}
    assert {module: lines for module, lines in found.items() if lines} == {}


def test_the_mood_is_the_imperative() -> None:
    """Or there is no verb, as in a noun phrase; errors raised are a sentence further behind."""
    found = {name(module): in_third_person(first_lines(module)) for module in MODULES}
    assert {module: lines for module, lines in found.items() if lines} == {}


def test_the_third_person_is_found() -> None:
    source = (
        '"""Runs a tool."""\nclass Asset:\n    """Routes of an asset."""\n'
        '    def close(self):\n        """Raises ConfigError."""\n'
    )
    assert in_third_person(first_lines_of(source)) == ["Runs a tool.", "Raises ConfigError."]


def test_banned_beginnings_are_found() -> None:
    source = (
        '"""What a module is."""\n'
        'LIMIT = 1\n"""So many are kept."""\n'
        "class Asset:\n"
        '    """Assets, as they are."""\n'
        '    def is_open(self):\n        """Whether it is."""\n'
    )
    assert sorted(banned(first_lines_of(source))) == [
        "So many are kept.",
        "What a module is.",
        "Whether it is.",
    ]
