"""How what a session of a page shows is compared with what came."""

from __future__ import annotations

from tests.page_terminal import session, shows


def test_a_session_that_shows_something_else_is_seen() -> None:
    block = "$ one\na 1 of b\n...\n\n$ two\n"
    assert list(session(block)) == [("one", ["a 1 of b", "..."]), ("two", [])]
    assert shows("x\na   23 of b", "a 1 of b")
    assert shows("a 23 of b", "a 1 ... b")
    assert not shows("a 23 of c", "a 1 of b")
