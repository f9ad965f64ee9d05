"""NSQ's log lines over the standard ``logging``, on stderr; objects of JSON where they are asked
for.

A line is ``[nsqd] 2026/01/31 12:30:45.123456 INFO: text``. Other programs parse these lines, so the
format is a promise, as are the names in an object. Loggers are ``logging.getLogger("penstock.…")``.
"""

from __future__ import annotations

import logging
import re
import sys
from datetime import UTC, datetime
from typing import Final, NoReturn, TextIO

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "fatal": logging.CRITICAL,
}
_WORDS = {
    logging.DEBUG: "DEBUG",
    logging.INFO: "INFO",
    logging.WARNING: "WARNING",
    logging.ERROR: "ERROR",
    logging.CRITICAL: "FATAL",
}

_FLAG_WORDS = {level: word for word, level in LEVELS.items()}

# Line ends and terminal escape sequences: they could forge another line or hide one. Tabs stay.
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")


def parse_level(word: str) -> int:
    """The level of debug, info, warn, error or fatal (any case); ValueError has NSQ's text."""
    level = LEVELS.get(word.lower())
    if level is None:
        raise ValueError(f"invalid log level '{word}' (debug, info, warn, error, fatal)")
    return level


def level_word(level: int) -> str:
    """The word NSQ prints for a level: DEBUG, INFO, WARNING, ERROR or FATAL."""
    return _WORDS.get(level, f"LEVEL({level})")


def parse_form(word: str) -> str:
    """The form of a log's lines, text or json (any case). Raises ValueError."""
    form = word.lower()
    if form not in _FORMATTERS:
        raise ValueError(f"invalid log format '{word}' ({', '.join(_FORMATTERS)})")
    return form


class NsqFormatter(logging.Formatter):
    r"""Prefix, local time to the microsecond and level before the text, which is one line.

    Texts may hold what strangers sent, so control characters are shown as escapes (``\n``).
    """

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix
        self._second = -1
        self._second_text = ""

    def format(self, record: logging.LogRecord) -> str:
        text = one_line(record.getMessage())
        if record.exc_info:
            text = f"{text}\n{self.formatException(record.exc_info)}"
        return f"{self._prefix}{self._time(record.created)} {level_word(record.levelno)}: {text}"

    def _time(self, created: float) -> str:
        second = int(created)
        if second != self._second:  # a second's text is made once
            self._second = second
            self._second_text = datetime.fromtimestamp(second).strftime("%Y/%m/%d %H:%M:%S")
        return f"{self._second_text}.{int((created - second) * 1_000_000):06d}"


class JsonFormatter(logging.Formatter):
    """One JSON object a record, on one line of ASCII: nothing in it can forge another line.

    ``time`` is RFC 3339 in UTC, ``level`` as flags name it, ``program`` the prefix without its
    brackets.
    """

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._program = prefix.strip(" []")

    def format(self, record: logging.LogRecord) -> str:
        import json  # most daemons write text

        created = datetime.fromtimestamp(record.created, UTC)
        fields = {
            "time": created.isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "level": _FLAG_WORDS.get(record.levelno, level_word(record.levelno)),
            "program": self._program,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields)


_FORMATTERS: Final = {"text": NsqFormatter, "json": JsonFormatter}

_form = "text"


def setup(
    prefix: str, level: int = logging.INFO, stream: TextIO | None = None, *, form: str = "text"
) -> None:
    """Send what ``penstock`` logs from ``level`` on, and asyncio's warnings, to ``stream`` or
    stderr.

    ``form`` is that of all lines from now on, those of ``warn`` and ``die`` included.
    """
    global _form
    _form = form
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(_FORMATTERS[form](prefix))
    for name, threshold in (("penstock", level), ("asyncio", max(level, logging.WARNING))):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        # Else a handler of the root logger would write each line a second time.
        logger.propagate = False
        logger.setLevel(threshold)


def one_line(text: str) -> str:
    """The text on one line, with its control characters as escapes."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def bare_line(text: str) -> str:
    """A line as Go's standard logger writes it: the time to the second, then the text."""
    created = logging.LogRecord("penstock", logging.INFO, "", 0, text, None, None).created
    return f"{datetime.fromtimestamp(created):%Y/%m/%d %H:%M:%S} {text}"


def warn(prefix: str, text: str) -> None:
    """Write one WARNING line to stderr, of a program whose logging is not set up yet."""
    _write(prefix, logging.WARNING, text)


def die(prefix: str, text: str) -> NoReturn:
    """Write one FATAL line to stderr and leave with exit code 1."""
    _write(prefix, logging.CRITICAL, text)
    raise SystemExit(1)


def _write(prefix: str, level: int, text: str) -> None:
    record = logging.LogRecord("penstock", level, "", 0, text, None, None)
    print(_FORMATTERS[_form](prefix).format(record), file=sys.stderr, flush=True)
