"""Exceptions named for the server's codes."""

from __future__ import annotations

import pytest

from penstock.core.errors import PenstockError
from penstock.nsq.client import errors

PROBLEMS = (
    "INVALID BAD_BODY BAD_TOPIC BAD_CHANNEL BAD_MESSAGE BAD_PROTOCOL IDENTIFY_FAILED SUB_FAILED "
    "PUB_FAILED MPUB_FAILED DPUB_FAILED FIN_FAILED REQ_FAILED TOUCH_FAILED AUTH_FIRST AUTH_FAILED "
    "AUTH_DISABLED AUTH_ERROR UNAUTHORIZED"
)
CODES = [f"E_{problem}" for problem in PROBLEMS.split(" ")]


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_its_own(code: str) -> None:
    error = errors.server_error(f"{code} something failed")
    assert type(error) is not errors.ServerError
    assert errors.code_of(type(error)) == error.code == code
    assert str(error) == error.text == f"{code} something failed"
    assert isinstance(error, PenstockError)


def test_a_code_we_do_not_know() -> None:
    error = errors.server_error("E_TOO_MANY_CHANNEL_CONSUMERS x")
    assert type(error) is errors.ServerError
    assert error.code == "E_TOO_MANY_CHANNEL_CONSUMERS"


def test_not_connected_names_the_node() -> None:
    assert str(errors.NotConnected("h:1", "refused")) == "h:1: refused"
