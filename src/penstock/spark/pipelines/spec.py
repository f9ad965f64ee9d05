"""A pipeline as values, read from its file and checked before Spark starts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from penstock.core.units import DURATION_FORM, parse_duration
from penstock.spark.channel.channel_settings import ChannelSettings
from penstock.spark.cluster_options import cluster_options_of
from penstock.spark.errors import OptionError
from penstock.spark.http.http_settings import HttpSettings as HttpSettings
from penstock.spark.option_declarations import named
from penstock.spark.pipelines.document import Document, filled, nearest
from penstock.spark.rocketmq.rocketmq_settings import RocketmqSettings
from penstock.spark.sink.rocketmq.rocketmq_sink_settings import (
    RocketmqSinkSettings as RocketmqSinkSettings,
)
from penstock.spark.sink.sink_settings import SinkSettings as SinkSettings
from penstock.spark.source_settings import SourceSettings, is_channel


class Format(NamedTuple):
    """A format of ours: its options, and a check of those that a pipeline gives."""

    settings: type[Any]
    check: Callable[[Mapping[str, str]], Any]
    """A check of a value, which raises OptionError."""


def _check_nsq_sink(options: Mapping[str, str]) -> None:
    SinkSettings.parse(options).require_writer(streaming=True)


def _check_rocketmq_sink(options: Mapping[str, str]) -> None:
    RocketmqSinkSettings.parse(options).require_writer(streaming=True)


# Formats of ours, whose options are checked here. Those of other formats are Spark's to check.
SOURCES: Final = {
    "nsq": Format(SourceSettings, partial(SourceSettings.parse, read="stream")),
    "rocketmq": Format(RocketmqSettings, partial(RocketmqSettings.parse, read="stream")),
}
_CHANNEL: Final = Format(ChannelSettings, ChannelSettings.parse)
SINKS: Final = {
    "nsq": Format(SinkSettings, _check_nsq_sink),
    "rocketmq": Format(RocketmqSinkSettings, _check_rocketmq_sink),
    "http": Format(HttpSettings, HttpSettings.parse),
}

_TABLES = ("pipeline", "source", "parse", "sql", "sink", "run", "tests")
FILES: Final = ("parquet", "json", "orc", "csv", "text")
"""Formats of Spark's that write files into a folder."""
ARROW: Final = "arrow"
SPARK: Final = "spark"
_OUTPUT_MODES = ("append", "update", "complete")
# Those that Spark has for a format, where it has not all. A source in Python cannot offer update.
_MODES_OF: Final = dict.fromkeys(SINKS, ("append", "complete")) | dict.fromkeys(FILES, ("append",))
_UPDATE = (
    ". With append each window or group is written once, when the watermark has passed it; a "
    "program of your own can write what has changed by foreachBatch"
)
_NAME = re.compile(r"[\w.-]{1,64}")
_ADDRESSES = ("lookupd_http_address", "nsqd_http_address")


@dataclass(frozen=True, slots=True)
class Source:
    """``format`` and ``options`` as of ``spark.readStream``; ``schema`` is DDL."""

    format: str
    options: Mapping[str, str]
    schema: str | None = None

    @property
    def reads_log(self) -> bool:
        """True if it reads the log of nodes, by offset."""
        return self.format == "nsq" and not is_channel(self.options)

    def __str__(self) -> str:
        return _place(self.format, self.options)


@dataclass(frozen=True, slots=True)
class Parse:
    """The way from a message to columns.

    ``json`` is the DDL of a body's fields, ``watermark`` a column and a delay, ``unique`` the
    columns that tell copies apart, ``bad`` the topic for rows that do not parse.
    """

    json: str | None = None
    watermark: tuple[str, str] | None = None
    unique: tuple[str, ...] = ()
    bad: str | None = None


@dataclass(frozen=True, slots=True)
class Sink:
    """``format``, ``options`` and the rest as of ``DataFrame.writeStream``.

    ``writer`` is who writes an archive's files, ARROW or SPARK, where the file says so.
    """

    format: str
    options: Mapping[str, str]
    partition_by: tuple[str, ...] = ()
    output_mode: str = "append"
    writer: str | None = None

    def __str__(self) -> str:
        return _place(self.format, self.options)


@dataclass(frozen=True, slots=True)
class Run:
    """``every`` is the time between micro-batches in ms; ``settings`` are Spark's."""

    every_ms: int
    checkpoint: str
    packages: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Case:
    """One of ``[[tests]]``: rows that come, rows that are wanted. ``place`` is file and line."""

    name: str
    place: str
    input: tuple[Any, ...]
    output: tuple[Mapping[str, Any], ...] | None
    bad: tuple[Mapping[str, Any], ...] | None


@dataclass(frozen=True, slots=True)
class Spec:
    """A whole pipeline."""

    name: str
    source: Source
    sink: Sink
    run: Run
    parse: Parse = Parse()
    query: str | None = None
    tests: tuple[Case, ...] = ()


def read(document: Document, variables: Mapping[str, str] | None = None) -> Spec:
    """The pipeline of a document. Raises PipelineFileError for the first thing that is wrong.

    ``variables`` replace ``${NAME}`` in values of source, sink and run: the environment.
    """
    return _Reader(document, os.environ if variables is None else variables).spec()


class _Reader:
    """A reader of tables. Keys are popped from copies, so what is left is not known."""

    def __init__(self, document: Document, variables: Mapping[str, str]) -> None:
        self._document = document
        self._variables = variables
        document.require_known("", document.tables, _TABLES)

    def spec(self) -> Spec:
        for needed in ("source", "sink"):
            self._table(needed, required=True)
        name = self._name()
        source = self._source()
        spec = Spec(
            name,
            source,
            self._sink(source),
            self._run(name),
            self._parse(),
            self._query(),
            self._tests(),
        )
        if spec.parse.bad and not source.reads_log:
            raise self._document.error(
                "parse",
                "bad",
                'bad is a topic on the nodes of the source, so with format = "nsq" and its log',
            )
        if spec.parse.bad and SourceSettings.parse(source.options).reads(spec.parse.bad):
            raise self._document.error(
                "parse",
                "bad",
                f"the source reads topic {spec.parse.bad}, too: letters would come back as rows. "
                f'Leave it out, as topicPattern = "(?!{spec.parse.bad}$).*" does',
            )
        return spec

    def _name(self) -> str:
        table = self._known("pipeline", ("name",))
        name = self._text("pipeline", table, "name") or Path(self._document.name).stem
        if not _NAME.fullmatch(name):
            raise self._document.error(
                "pipeline",
                "name",
                f"{name!r} is not a name: it has 1 to 64 letters, digits, dots, underscores, "
                "dashes",
            )
        return name

    def _source(self) -> Source:
        table = self._table("source")
        format = self._format("source", table)
        schema = self._text("source", table, "schema")
        table.pop("schema", None)
        options = self._options("source", table)
        of_channel = format == "nsq" and is_channel(options)
        ours = _CHANNEL if of_channel else SOURCES.get(format)
        return Source(format, self._checked("source", ours, options), schema)

    def _sink(self, source: Source) -> Sink:
        table = self._table("sink")
        format = self._format("sink", table)
        by = self._texts("sink", table, "partitionBy")
        mode = self._text("sink", table, "outputMode") or "append"
        self._require_mode(format, mode)
        if by and format in SINKS:
            problem = f"partitionBy makes folders, and format {format} has none: leave it out"
            raise self._document.error("sink", "partitionBy", problem)
        writer = self._writer(table, format)
        for key in ("partitionBy", "outputMode", "writer"):
            table.pop(key, None)
        options = self._options("sink", table)
        given = {key.lower() for key in options}
        if format in FILES and "path" not in given:
            raise self._document.error("sink", None, f"path is missing: the folder of the {format}")
        needs_nodes = format == "nsq" or (format == "http" and "deadletters" in given)
        if needs_nodes and source.format == "nsq" and not given & {*_ADDRESSES}:
            options = cluster_options_of(source.options) | options
        return Sink(format, self._checked("sink", SINKS.get(format), options), by, mode, writer)

    def _writer(self, table: dict[str, Any], format: str) -> str | None:
        writer = self._text("sink", table, "writer") if format in FILES else None
        if writer not in (None, ARROW, SPARK):
            problem = f"writer is {ARROW} or {SPARK}, not {writer!r}"
            raise self._document.error("sink", "writer", problem)
        return writer

    def _require_mode(self, format: str, mode: str) -> None:
        """Raise PipelineFileError for a mode that there is not, or that the format cannot have."""
        for of, modes in (("", _OUTPUT_MODES), (f" of format {format}", _MODES_OF.get(format))):
            if modes and mode not in modes:
                problem = f"outputMode{of} is {' or '.join(modes)}, not {mode!r}"
                more = _UPDATE if of and mode == "update" else ""
                raise self._document.error("sink", "outputMode", problem + more)

    def _parse(self) -> Parse:
        table = self._known("parse", ("json", "watermark", "unique", "bad"))
        json = self._text("parse", table, "json")
        bad = self._text("parse", table, "bad")
        unique = self._texts("parse", table, "unique")
        given = self._text("parse", table, "watermark")
        column, _, delay = (given or "").strip().partition(" ")
        if given is not None and not delay.strip():
            problem = f'watermark is a column and a delay, such as "ts 2 minutes", not {given!r}'
            raise self._document.error("parse", "watermark", problem)
        if bad and not json:
            raise self._document.error("parse", "bad", "bad is for rows that do not parse as json")
        if unique and not given:
            problem = "unique needs a watermark, which says how long a copy may be recognised"
            raise self._document.error("parse", "unique", problem)
        return Parse(json, (column, delay.strip()) if given else None, unique, bad)

    def _query(self) -> str | None:
        return self._text("sql", self._known("sql", ("query",)), "query")

    def _run(self, name: str) -> Run:
        table = self._known("run", ("every", "checkpoint", "packages", "settings"))
        settings = table.get("settings", {})
        if not isinstance(settings, dict):
            problem = 'settings is a table of Spark\'s, such as {"spark.driver.memory" = "2g"}'
            raise self._document.error("run", "settings", problem)
        every = self._text("run", table, "every") or "1s"
        try:
            every_ms = parse_duration(every) // 1_000_000
        except ValueError:
            problem = f"every = {every!r}: give {DURATION_FORM}"
            raise self._document.error("run", "every", problem) from None
        if every_ms < 0:
            raise self._document.error(
                "run", "every", f"every = {every!r} is negative: give {DURATION_FORM}"
            )
        return Run(
            every_ms,
            self._text("run", table, "checkpoint") or f"run/{name}",
            self._texts("run", table, "packages"),
            self._options("run.settings", dict(settings)),
        )

    def _tests(self) -> tuple[Case, ...]:
        given = self._document.tables.get("tests", [])
        if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
            raise self._document.error("tests", None, "write [[tests]] above each test")
        return tuple(self._case(number, dict(each)) for number, each in enumerate(given))

    def _case(self, number: int, table: dict[str, Any]) -> Case:
        label = f"tests#{number}"
        self._document.require_known(label, table, ("name", "input", "output", "bad"))
        name = self._text(label, table, "name") or f"test {number + 1}"
        rows = {key: self._rows(label, table, key) for key in ("input", "output", "bad")}
        if rows["input"] is None or (rows["output"] is None and rows["bad"] is None):
            raise self._document.error(label, None, f"{name!r} needs input, and output or bad")
        place = f"{self._document.name}:{self._document.line(label)}"
        return Case(name, place, rows["input"], rows["output"], rows["bad"])

    def _rows(self, label: str, table: Mapping[str, Any], key: str) -> tuple[Any, ...] | None:
        if key not in table:
            return None
        rows = table[key]
        kinds: tuple[type, ...] = (dict, str) if key == "input" else (dict,)
        if not isinstance(rows, list) or not all(isinstance(row, kinds) for row in rows):
            also = ", or texts for bodies" if key == "input" else ""
            raise self._document.error(
                label, key, f"{key} is a list of rows, such as [{{n = 1}}]{also}"
            )
        return tuple(rows)

    # --- kinds of values --------------------------------------------------------------------------

    def _table(self, name: str, required: bool = False) -> dict[str, Any]:
        table = self._document.tables.get(name)
        if table is None and required:
            raise self._document.error("", None, f"the table [{name}] is missing")
        if table is not None and not isinstance(table, dict):
            raise self._document.error(name, None, f"{name} is a table: write [{name}]")
        return dict(table or {})

    def _known(self, name: str, keys: tuple[str, ...]) -> dict[str, Any]:
        table = self._table(name)
        self._document.require_known(name, table, keys)
        return table

    def _format(self, name: str, table: dict[str, Any]) -> str:
        format = self._text(name, table, "format") or "nsq"
        table.pop("format", None)
        return format

    def _text(self, name: str, table: Mapping[str, Any], key: str) -> str | None:
        value = table.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            raise self._document.error(name, key, f"{key} is a text in quotes, not {value!r}")
        return self._filled(name, key, value)

    def _texts(self, name: str, table: Mapping[str, Any], key: str) -> tuple[str, ...]:
        value = table.get(key, [])
        values = value if isinstance(value, list) else [value]
        if not all(isinstance(each, str) and each for each in values):
            raise self._document.error(name, key, f'{key} is a list of texts, such as ["a", "b"]')
        return tuple(self._filled(name, key, each) for each in values)

    def _options(self, name: str, table: Mapping[str, Any]) -> dict[str, str]:
        return {key: self._option(name, key, value) for key, value in table.items()}

    def _option(self, name: str, key: str, value: Any) -> str:
        if isinstance(value, list):
            return ",".join(self._option(name, key, each) for each in value)
        try:
            return self._filled(name, key, option_text(value))
        except TypeError:
            problem = f"{key} is a text, a number, true or false, or a list of these"
            raise self._document.error(name, key, problem) from None

    def _filled(self, name: str, key: str, text: str) -> str:
        if name in ("sql", "parse") or name.startswith("tests#"):
            return text
        try:
            return filled(text, self._variables)
        except KeyError as error:
            problem = f"{key}: the environment has no variable {error.args[0]}"
            raise self._document.error(name, key, problem) from None

    def _checked(self, name: str, format: Format | None, options: dict[str, str]) -> dict[str, str]:
        """The options, by their own names where the format is ours."""
        if format is None:
            return options
        try:
            format.check(options)
            return named(format.settings, options)
        except OptionError as error:
            problem = str(error)
            # The parser knows no lines: the key is the longest that its sentence names.
            keys = sorted(options, key=len, reverse=True)
            key = next((each for each in keys if each.lower() in problem.lower()), None)
            raise self._document.error(name, key, problem) from None


def option_text(value: Any) -> str:
    """A value of TOML as Spark's options have it. Raises TypeError for a table."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, str | int | float):
        return str(value)
    raise TypeError


def _place(format: str, options: Mapping[str, str]) -> str:
    """Format, and topic or folder if there is one: ``nsq clicks``, ``parquet /lake``."""
    given = {key.lower(): value for key, value in options.items()}
    return f"{format} {given.get('topic') or given.get('path') or ''}".rstrip()


def column_error(given: str, columns: list[str]) -> str:
    """The end of a sentence about a column that is not there."""
    return f"no column {given}{nearest(given, columns)}"
