"""A wrong command line of ``penstock`` is one line that names the flag and the remedy."""

from __future__ import annotations

import pytest

from tests.unit.cli.nodes_at_work import Commands

ARCHIVE = ("pipeline", "run", "archive", "--topic=t", "--to=lake")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (ARCHIVE, "--checkpoint is required; see `penstock pipeline run archive --help`"),
        (("replay",), "TOPIC is required; see `penstock replay --help`"),
        ((*ARCHIVE, "--checkpoint"), "--checkpoint needs a value; see `penstock pipeline run "
         "archive --help`"),
        (("top", "--intervall=1s"), "Unknown option: --intervall. Did you mean --interval?; see "
         "`penstock top --help`"),
        (("demo", "--rate=x"), 'Invalid value for --rate: unable to convert "x" into int; see '
         "`penstock demo --help`"),
    ],
)  # fmt: skip
def test_one_line(command: Commands, words: tuple[str, ...], said: str) -> None:
    ended = command(*words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"penstock: {said}\n"
