"""Zsh's script, read by a real zsh in a terminal, where the key for completion is pressed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.debian import needed
from tools.harness.terminals import Screen, screen

from .scripts import COMPLETED, printed


@pytest.fixture(scope="module")
def zsh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Screen]:
    """A zsh that has read the script, with an empty line."""
    file = tmp_path_factory.mktemp("zsh") / "penstock.zsh"
    file.write_text(printed("zsh"))
    shell = [needed("zsh", "zsh"), "-f", "-i"]
    with screen(program=shell, columns=140, lines=50) as shown:
        start = f"PS1='ready '; autoload -Uz compinit; compinit -D -u; source {file}; clear\n"
        shown.type(start)
        shown.until(lambda text: text.strip() == "ready")
        yield shown


def empty(zsh: Screen) -> None:
    """Take away what is typed, and what is on the screen."""
    zsh.type("\x15\x0c")
    zsh.until(lambda text: text.strip() == "ready")


@pytest.mark.parametrize(("typed", "wanted"), COMPLETED)
def test_it_completes_commands_and_flags(zsh: Screen, typed: str, wanted: str) -> None:
    zsh.type(f"{typed}\t")
    zsh.until(lambda text: text.startswith(f"ready {wanted}"))
    empty(zsh)


def test_it_shows_the_help_of_what_it_offers(zsh: Screen) -> None:
    zsh.type("mqadmin clusterRT -\t")
    zsh.until(lambda text: "print as tlog | default false" in text)
    empty(zsh)
