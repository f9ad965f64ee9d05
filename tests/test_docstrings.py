"""A docstring's first line stands by itself: a noun phrase or an imperative."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "penstock"
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
MODULES = sorted(SOURCE.rglob("*.py"))


def name(module: Path) -> str:
    return module.relative_to(SOURCE).as_posix()


def docstrings(source: str) -> Iterator[str]:
    """The docstrings of a module, its classes and functions, and those below its assignments."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if text := ast.get_docstring(node):
                yield text
            yield from _below_assignments(node.body)


def _below_assignments(body: list[ast.stmt]) -> Iterator[str]:
    for before, node in pairwise(body):
        match before, node:
            case ast.Assign() | ast.AnnAssign(), ast.Expr(ast.Constant(str(text))):
                yield text


def banned(source: str) -> list[str]:
    """The first lines that begin with a word that needs another sentence before it."""
    return [text.splitlines()[0] for text in docstrings(source) if BANNED.match(text)]


def in_third_person(source: str) -> list[str]:
    return [text.splitlines()[0] for text in docstrings(source) if THIRD_PERSON.match(text)]


def test_first_lines_stand_by_themselves() -> None:
    found = {name(module): banned(module.read_text(encoding="utf-8")) for module in MODULES}
    assert {module: lines for module, lines in found.items() if lines} == {}


def test_the_mood_is_the_imperative() -> None:
    """Or there is no verb, as in a noun phrase; errors raised are a sentence further behind."""
    found = {name(module): in_third_person(module.read_text("utf-8")) for module in MODULES}
    assert {module: lines for module, lines in found.items() if lines} == {}


def test_the_third_person_is_found() -> None:
    source = (
        '"""Runs a tool."""\nclass Asset:\n    """Routes of an asset."""\n'
        '    def close(self):\n        """Raises ConfigError."""\n'
    )
    assert in_third_person(source) == ["Runs a tool.", "Raises ConfigError."]


def test_banned_beginnings_are_found() -> None:
    source = (
        '"""What a module is."""\n'
        'LIMIT = 1\n"""So many are kept."""\n'
        "class Asset:\n"
        '    """Assets, as they are."""\n'
        '    def is_open(self):\n        """Whether it is."""\n'
    )
    assert sorted(banned(source)) == ["So many are kept.", "What a module is.", "Whether it is."]
