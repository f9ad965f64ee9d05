"""Lines of logs: their form, their level, and how many there may be."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Callable, Iterator

import pytest

from penstock.core import logs
from penstock.core.log_limit import LINES, WINDOW_NS, LogLimit

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


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


def failed(error: Exception) -> None:
    """Log an exception."""
    try:
        raise error
    except type(error):
        logging.getLogger("penstock.x").exception("failed")


def test_lines_have_nsqs_form(stream: io.StringIO) -> None:
    logs.setup("[nsqd] ", logging.DEBUG, stream)
    log = logging.getLogger("penstock.x")
    log.debug("a")
    log.info("TCP: listening on %s", "127.0.0.1:1")
    log.warning("c")
    log.error("d")
    log.critical("e")
    said = ["DEBUG: a", "INFO: TCP: listening on 127.0.0.1:1", "WARNING: c", "ERROR: d", "FATAL: e"]
    assert re.fullmatch("".join(f"{LINE}{words}\n" for words in said), stream.getvalue())


@pytest.mark.parametrize("char", "\n\r\x00\x0b\x1b\x7f\x85\u2028\u2029", ids=ascii)
def test_what_a_stranger_sent_stays_in_its_line(stream: io.StringIO, char: str) -> None:
    logs.setup("[nsqd] ", logging.INFO, stream)
    logging.getLogger("penstock.x").info("client %s is here", f"a{char}[nsqd]\tINFO: ä")
    shown = ascii(char)[1:-1]
    line = rf"{LINE}INFO: client a{re.escape(shown)}\[nsqd\]\tINFO: ä is here\n"
    assert re.fullmatch(line, stream.getvalue())


def test_level_and_traceback(stream: io.StringIO) -> None:
    logs.setup("", logging.ERROR, stream)
    logging.getLogger("penstock.y").info("hidden")
    failed(KeyError("why"))
    assert "hidden" not in stream.getvalue()
    assert stream.getvalue().rstrip().endswith("KeyError: 'why'")


def test_a_second_setup_replaces_the_first() -> None:
    first, second = io.StringIO(), io.StringIO()
    logs.setup("", logging.INFO, first)
    logs.setup("", logging.INFO, second)
    logging.getLogger("penstock").info("once")
    assert first.getvalue() == ""
    assert second.getvalue().count("once") == 1


def test_an_object_a_line(stream: io.StringIO) -> None:
    logs.setup("[nsqd] ", logging.INFO, stream, form="json")
    logging.getLogger("penstock.x").warning("client %s\n\x85\u2028[nsqd] ä", "a")
    failed(KeyError("reason"))
    assert stream.getvalue().isascii()
    line, other = stream.getvalue().splitlines()
    found = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", found.pop("time"))
    assert found == {
        "level": "warn",
        "program": "nsqd",
        "logger": "penstock.x",
        "message": "client a\n\x85\u2028[nsqd] ä",
    }
    assert json.loads(other)["exception"].endswith("KeyError: 'reason'")


def test_the_last_line_has_the_form_of_those_before(capsys: pytest.CaptureFixture[str]) -> None:
    logs.setup("[nsqd] ", form="json")
    with pytest.raises(SystemExit):
        logs.die("[nsqd] ", "cannot start")
    found = json.loads(capsys.readouterr().err)
    assert (found["level"], found["message"]) == ("fatal", "cannot start")


@pytest.mark.parametrize(
    ("parse", "word", "text"),
    [
        (logs.parse_level, "loud", "invalid log level 'loud' (debug, info, warn, error, fatal)"),
        (logs.parse_form, "xml", "invalid log format 'xml' (text, json)"),
    ],
)
def test_words_that_are_refused(parse: Callable[[str], object], word: str, text: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse(word)
    assert str(caught.value) == text


def test_the_forms_of_a_line() -> None:
    assert [logs.parse_form(word) for word in ("text", "JSON")] == ["text", "json"]


def test_asyncio_warns_only(stream: io.StringIO) -> None:
    logs.setup("", logging.DEBUG, stream)
    logging.getLogger("asyncio").debug("Using selector")
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    ("word", "level"), [("debug", 10), ("INFO", 20), ("Warn", 30), ("error", 40), ("fatal", 50)]
)
def test_parse_level(word: str, level: int) -> None:
    assert logs.parse_level(word) == level


def test_level_word_of_an_odd_level() -> None:
    assert logs.level_word(35) == "LEVEL(35)"


def test_die_writes_one_fatal_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        logs.die("[nsqd] ", "no room")
    assert caught.value.code == 1
    assert re.fullmatch(LINE + "FATAL: no room\n", capsys.readouterr().err)


def test_bare_line() -> None:
    assert re.fullmatch(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d x", logs.bare_line("x"))


def test_so_many_lines_a_window_and_the_rest_is_counted() -> None:
    limit = LogLimit()
    said = [limit.take_line(5) for _ in range(LINES + 7)]
    assert said == [True] * LINES + [False] * 7
    assert not limit.take_line(5 + WINDOW_NS - 1)
    assert limit.take_line(5 + WINDOW_NS)
    assert (limit.take_kept_back(), limit.take_kept_back()) == (8, 0)


def test_the_end_of_a_line_tells_how_many_were_kept_back() -> None:
    limit = LogLimit()
    assert limit.told_kept_back() == ""
    for _ in range(LINES + 2):
        limit.take_line(5)
    assert limit.told_kept_back() == " (2 lines like this were kept back)"
    assert limit.told_kept_back() == ""
