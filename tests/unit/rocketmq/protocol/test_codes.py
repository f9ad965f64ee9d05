"""The table of codes is whole."""

from __future__ import annotations

from penstock.rocketmq.protocol.codes import COMMANDS, RequestCode, ResponseCode

PAGE_REQUESTS = (
    "10 11 12 13 14 15 17 21 25 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 45 100 101 102 105 "
    "106 200 201 202 203 204 205 206 208 215 216 220 221 222 223 224 300 303 304 305 306 307 308 "
    "309 315 316 317 318 319 320 321 322"
)
PAGE_RESPONSES = "10 11 12 13 14 15 16 17 19 20 21 22 23 24 25 26 206 207 208"


def test_every_code_has_one_row() -> None:
    assert len(COMMANDS) == len({kind.code for kind in COMMANDS}) == len(RequestCode)


def test_the_codes_of_the_page_are_there() -> None:
    on_page = {int(code) for code in PAGE_REQUESTS.split()}
    assert {int(kind.code) for kind in COMMANDS if kind.on_page} == on_page
    assert {int(code) for code in PAGE_RESPONSES.split()} <= {int(code) for code in ResponseCode}


def test_rows_are_told_in_words() -> None:
    for kind in COMMANDS:
        assert kind.purpose
        assert not set(kind.required) & set(kind.optional)
