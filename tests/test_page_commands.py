"""The pages' commands, run as a reader runs them over daemons on other ports.

A command must end well; one that goes on for ever must begin well, and end well when it is told to.
What a session shows must be what came, whatever the figures. Pages that are followed from their
first block to their last have their tests in `test_tutorials.py` and `test_followed_pages.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.page_blocks import Block, without_row
from tests.page_site import Site, running_site
from tests.page_terminal import Terminal, session, shows

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running_site(tmp_path_factory.mktemp("site")) as site:
        yield site


@pytest.mark.parametrize("block", without_row("console"), ids=Block.name)
def test_a_session(block: Block, site: Site) -> None:
    terminal = Terminal(site)
    for command, shown in session(block.text):
        if "^C" in shown:
            shown.remove("^C")
            output = terminal.interrupted(command, "copy")
        else:
            output = terminal.said(command, fails=True)
        assert [line for line in shown if not shows(output, line)] == [], output


@pytest.mark.parametrize("block", without_row("sh"), ids=Block.name)
def test_commands(block: Block, site: Site) -> None:
    Terminal(site).run(block.text)
