"""Every code of RocketMQ is served, shown by a test, and told in the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import penstock.rocketmq
from penstock.rocketmq.broker.acl import needs
from penstock.rocketmq.protocol.codes import COMMANDS, RequestCode, ResponseCode
from tools.pages.references import missing
from tools.pages.rocketmq_codes import PAGE, REQUESTS, RESPONSES, Response, page

SOURCE = Path(penstock.rocketmq.__file__).parent
OBSOLETE = RequestCode.QUERY_BROKER_OFFSET


def names_in_source() -> set[str]:
    """The response codes that the servers use by name."""
    files = [
        each
        for each in SOURCE.rglob("*.py")
        if each.name != "codes.py" and SOURCE / "client" not in each.parents
    ]
    texts = "".join(each.read_text(encoding="utf-8") for each in files)
    found = set(re.findall(r"ResponseCode\.([A-Z_]+)", texts))
    if ".unsupported()" in texts:  # commands are below the table of codes, and know the number
        found.add(ResponseCode.REQUEST_CODE_NOT_SUPPORTED.name)
    return found


def test_the_broker_answers_the_codes_of_the_table_and_no_others() -> None:
    """Those with a rule are those that are answered, as tests of ``acl.needs`` assert."""
    wanted = {kind.code for kind in COMMANDS if kind.server == "broker"} - {OBSOLETE}
    assert needs.RULES.keys() == wanted


@pytest.mark.parametrize("code", RequestCode, ids=lambda code: code.name)
def test_a_request_is_shown_by_tests(code: RequestCode) -> None:
    assert REQUESTS[code]
    assert missing(REQUESTS[code]) == []


def test_every_response_is_told_once() -> None:
    assert [each.name for each in RESPONSES] == list(ResponseCode.__members__)


@pytest.mark.parametrize("response", RESPONSES, ids=lambda response: response.name)
def test_a_response_is_shown_by_tests_or_never_sent(response: Response) -> None:
    assert missing(response.tests) == []
    assert (response.name in names_in_source()) == bool(response.tests)


def test_the_page_is_up_to_date() -> None:
    """`make pages` writes it anew."""
    assert PAGE.read_text(encoding="utf-8") == page()
