"""Every code that a server answers is in the documentation's table of needed permissions."""

from __future__ import annotations

import pytest

from penstock.rocketmq.broker.acl import needs
from penstock.rocketmq.namesrv.processor import ANSWERED
from penstock.rocketmq.protocol.codes import COMMANDS, CommandKind, RequestCode
from tools.pages.rocketmq_access import JAVA, NOT_IN_JAVA, PAGE, page

SERVED = [kind for kind in COMMANDS if kind.server != "client"]


def test_the_page_is_up_to_date() -> None:
    """`make pages` writes it."""
    assert PAGE.read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("kind", SERVED, ids=lambda kind: kind.code.name)
def test_a_code_is_on_the_page(kind: CommandKind) -> None:
    row = f"| {kind.code:d} | {kind.code.name} | {needs.of(kind.code).words}"
    words = row if kind.server == "broker" else f"{kind.code.name} ({kind.code:d})"
    assert page().count(words) == 1


def test_what_is_answered_is_in_the_table_of_codes() -> None:
    assert needs.RULES.keys() | ANSWERED.keys() <= {k.code for k in SERVED}


def test_java_is_said_to_want_something_of_codes_that_it_has() -> None:
    assert not JAVA.keys() & NOT_IN_JAVA
    assert JAVA.keys() | NOT_IN_JAVA <= set(RequestCode)
