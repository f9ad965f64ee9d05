"""``penstock pipeline sql``: questions to topics in SQL, one or a shell of them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from penstock.cli.pipeline.local_spark import local_spark
from penstock.cli.shared.pipes import quiet_pipe
from penstock.core.errors import PenstockError
from penstock.spark.access import close_connections
from penstock.spark.errors import explain
from penstock.spark.nodes.bounds import Cluster
from penstock.spark.source_settings import SourceSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROMPT: Final = "sql> "
_GOES_ON: Final = "...> "
_WORD = re.compile(r"\w+")
_SHOW = re.compile(r"(?i)\s*show\s+(topics|tables|views)\s*")


@quiet_pipe()
def run_sql(nodes: Mapping[str, str], statement: str | None, rows: int) -> None:
    """Answer one statement, or those of standard input.

    Raises PenstockError where a node cannot be asked, and for what is wrong with the one statement.
    """
    if not {"lookupd_http_address", "nsqd_http_address"} & set(nodes):
        nodes = {**nodes, "nsqd_http_address": "127.0.0.1:4151"}
    _topics(nodes)  # a wrong address is said at once, not after Spark's ten seconds of starting
    with local_spark() as spark:
        shell = _Shell(spark, nodes, rows)
        if statement is not None:
            shell.answer(statement)
            return
        _shell(shell)


def _shell(shell: _Shell) -> None:
    """Answer what is typed, or what comes from a file or a pipe."""
    typed = sys.stdin.isatty()
    if typed:
        import readline  # noqa: F401  # input() then has a line to edit and a history

        print("SQL up to a semicolon; `show topics` lists the views, `exit` or Ctrl-D ends")
    for each in statements(input if typed else _line):
        try:
            shell.answer(each)
        except PenstockError as error:
            print(error)
        except KeyboardInterrupt:
            if not typed:
                raise
            print("\ncancelled")


def _line(_: str) -> str:
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line


def statements(read: Callable[[str], str]) -> Iterator[str]:
    """Statements up to a semicolon at a line's end; the last may go without.

    ``read`` gives a line for a prompt, and raises EOFError when no line is left and
    KeyboardInterrupt to begin the statement again.
    """
    lines: list[str] = []
    ended = False
    while not ended:
        try:
            line = read(_GOES_ON if lines else _PROMPT).rstrip()
        except EOFError:
            line, ended = "", True
        except KeyboardInterrupt:
            print()
            lines.clear()
            continue
        if line.strip().lower() in ("exit", "quit", "exit;", "quit;"):
            return
        if line or lines:
            lines.append(line)
        if line.endswith(";") or ended:
            whole = "\n".join(lines).strip().rstrip(";")
            lines.clear()
            if whole:
                yield whole


def views(topics: Iterable[str]) -> dict[str, list[str]]:
    """The topics by their names in SQL: what is not a word of SQL is an underscore, and capital
    letters count as small ones. Only a topic that has a name to itself is a view.
    """
    found: dict[str, list[str]] = {}
    for topic in topics:
        found.setdefault(re.sub(r"\W", "_", topic).lower(), []).append(topic)
    return found


def listed(found: Mapping[str, Sequence[str]], names: Iterable[str]) -> list[str]:
    """A line for each of these names that is a view, or that several topics would have."""
    lines = []
    for name in sorted(found.keys() & set(names)):
        others = f" is not a view, as it could be any of the topics {', '.join(found[name])}"
        lines.append(name + others * (len(found[name]) > 1))
    return lines


def _topics(nodes: Mapping[str, str]) -> list[str]:
    try:
        bounds = Cluster(SourceSettings.parse({**nodes, "topic": "*"})).bounds()
    finally:
        close_connections()
    return sorted({place.topic for place in bounds})


class _Shell:
    """Views of topics, made when they are first named, and again for each statement.

    Spark plans a source in Python once for each view: a view that is kept would show the messages
    of its first statement for ever, also where another view is made from it.
    """

    def __init__(self, spark: SparkSession, nodes: Mapping[str, str], rows: int) -> None:
        self._spark = spark
        self._nodes = nodes
        self._rows = rows
        self._made: set[str] = set()

    def answer(self, statement: str) -> None:
        """Print the answer. Raises PenstockError."""
        found = views(_topics(self._nodes))
        if _SHOW.fullmatch(statement):
            print("\n".join(listed(found, found)) or "no topics")
            return
        words = {word.lower() for word in _WORD.findall(statement)}
        try:
            self._renew(found, words)
            self._spark.sql(statement).show(self._rows, truncate=False)
        except BrokenPipeError:
            raise  # nobody reads any more
        except Exception as error:  # Spark's own, which have no common root
            shared = [word for word in words if len(found.get(word, ())) > 1]
            said = [explain(error), *listed(found, shared)]
            raise PenstockError("; ".join(said)) from error

    def _renew(self, found: Mapping[str, Sequence[str]], words: set[str]) -> None:
        """Make the views of these words, and those of before: other views may stand on them."""
        single = {name for name, topics in found.items() if len(topics) == 1}
        for name in self._made - single:
            self._spark.catalog.dropTempView(name)
        self._made = single & (self._made | words)
        for name in self._made:
            (topic,) = found[name]
            frame = self._spark.read.format("nsq").options(**self._nodes, topic=topic).load()
            frame.withColumn("body", frame["body"].cast("string")).createOrReplaceTempView(name)
