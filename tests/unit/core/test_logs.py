from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from penstock.core import logs

LINE = r"\[nsqd\] \d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6} "


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    names = ("penstock", "asyncio")
    before = [(logging.getLogger(name), *_state(name)) for name in names]
    yield
    logs.setup("")
    for logger, handlers, propagate, level in before:
        logger.handlers[:] = handlers
        logger.propagate = propagate
        logger.setLevel(level)


def _state(name: str) -> tuple[list[logging.Handler], bool, int]:
    logger = logging.getLogger(name)
    return list(logger.handlers), logger.propagate, logger.level


def test_lines_have_nsqs_form() -> None:
    stream = io.StringIO()
    logs.setup("[nsqd] ", logging.DEBUG, stream)
    log = logging.getLogger("penstock.x")
    log.debug("a")
    log.info("TCP: listening on %s", "127.0.0.1:1")
    log.warning("c")
    log.error("d")
    log.critical("e")
    words = [
        "DEBUG: a",
        "INFO: TCP: listening on 127.0.0.1:1",
        "WARNING: c",
        "ERROR: d",
        "FATAL: e",
    ]
    assert re.fullmatch("".join(f"{LINE}{word}\n" for word in words), stream.getvalue())


@pytest.mark.parametrize("char", "\n\r\x00\x0b\x1b\x7f\x85\u2028\u2029", ids=ascii)
def test_what_a_stranger_sent_stays_in_its_line(char: str) -> None:
    stream = io.StringIO()
    logs.setup("[nsqd] ", logging.INFO, stream)
    logging.getLogger("penstock.x").info("client %s is here", f"a{char}[nsqd]\tINFO: ä")
    shown = ascii(char)[1:-1]
    line = rf"{LINE}INFO: client a{re.escape(shown)}\[nsqd\]\tINFO: ä is here\n"
    assert re.fullmatch(line, stream.getvalue())


def test_level_and_traceback() -> None:
    stream = io.StringIO()
    logs.setup("", logging.ERROR, stream)
    log = logging.getLogger("penstock.y")
    log.info("hidden")
    try:
        raise KeyError("why")
    except KeyError:
        log.exception("failed")
    assert "hidden" not in stream.getvalue()
    assert stream.getvalue().rstrip().endswith("KeyError: 'why'")


def test_a_second_setup_replaces_the_first() -> None:
    first, second = io.StringIO(), io.StringIO()
    logs.setup("", logging.INFO, first)
    logs.setup("", logging.INFO, second)
    logging.getLogger("penstock").info("once")
    assert first.getvalue() == ""
    assert second.getvalue().count("once") == 1


def test_an_object_a_line() -> None:
    stream = io.StringIO()
    logs.setup("[nsqd] ", logging.INFO, stream, form="json")
    logging.getLogger("penstock.x").warning("client %s\n\x85\u2028[nsqd] ä", "a")
    assert stream.getvalue().isascii()
    (line,) = stream.getvalue().splitlines()
    found = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", found.pop("time"))
    assert found == {
        "level": "warn",
        "program": "nsqd",
        "logger": "penstock.x",
        "message": "client a\n\x85\u2028[nsqd] ä",
    }


def test_a_traceback_stays_in_its_object() -> None:
    stream = io.StringIO()
    logs.setup("[nsqd] ", logging.INFO, stream, form="json")
    try:
        raise KeyError("reason")
    except KeyError:
        logging.getLogger("penstock.x").exception("failed")
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["exception"].endswith("KeyError: 'reason'")


def test_the_last_line_has_the_form_of_those_before(capsys: pytest.CaptureFixture[str]) -> None:
    logs.setup("[nsqd] ", form="json")
    with pytest.raises(SystemExit):
        logs.die("[nsqd] ", "cannot start")
    found = json.loads(capsys.readouterr().err)
    assert (found["level"], found["message"]) == ("fatal", "cannot start")


def test_the_forms_of_a_line() -> None:
    assert [logs.parse_form(word) for word in ("text", "JSON")] == ["text", "json"]
    with pytest.raises(ValueError, match=r"invalid log format 'xml' \(text, json\)"):
        logs.parse_form("xml")


def test_asyncio_warns_only() -> None:
    stream = io.StringIO()
    logs.setup("", logging.DEBUG, stream)
    logging.getLogger("asyncio").debug("Using selector")
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    ("word", "level"), [("debug", 10), ("INFO", 20), ("Warn", 30), ("error", 40), ("fatal", 50)]
)
def test_parse_level(word: str, level: int) -> None:
    assert logs.parse_level(word) == level


def test_parse_level_refuses() -> None:
    with pytest.raises(ValueError) as caught:
        logs.parse_level("loud")
    assert str(caught.value) == "invalid log level 'loud' (debug, info, warn, error, fatal)"


def test_level_word_of_an_odd_level() -> None:
    assert logs.level_word(35) == "LEVEL(35)"


def test_die_writes_one_fatal_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        logs.die("[nsqd] ", "no room")
    assert caught.value.code == 1
    assert re.fullmatch(LINE + "FATAL: no room\n", capsys.readouterr().err)


def test_bare_line() -> None:
    assert re.fullmatch(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d x", logs.bare_line("x"))
