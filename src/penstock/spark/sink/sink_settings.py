"""The options of the sink, parsed once on the driver and pickled to the workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.core.names import is_valid_name
from penstock.spark.cluster_options import ClusterOptions
from penstock.spark.errors import OptionError
from penstock.spark.option_declarations import (
    WHOLE_MAX,
    boolean,
    option,
    parse,
    positive,
    text,
    whole,
)

WRITER_LENGTH_MAX = 128
# What Spark itself hands to a sink beside the sink's options.
OF_SPARK = {"path", "checkpointlocation", "queryname"}


def whole_number(name: str, given: str) -> int:
    """A whole number from 0 on, as nodes take them."""
    number = whole(given)
    if number is None:
        raise OptionError(
            f"{name} must be a whole number from 0 to {WHOLE_MAX}, not {given[:100]!r}"
        )
    return number


@dataclass(frozen=True)
class WriteOptions:
    """The options of every sink of ours: the topic, how often each row, and in which requests."""

    topic: str | None = option(
        "topic",
        text,
        None,
        'The topic to write to. It goes before a column `topic`; `save("t")` and `start("t")`'
        " name it as well.",
    )
    exactly_once: bool = option(
        "exactlyOnce",
        boolean,
        False,
        "`true`: each row once, staged and then committed at the nodes of `nsqd_http_address`,"
        " which must be Penstock's.",
    )
    writer: str = option(
        "writerId",
        text,
        "",
        "Batch writes with `exactlyOnce`: a name under which nodes remember the last batch. A"
        " stream is remembered by its query id.",
    )
    writer_batch: int | None = option(
        "writerBatch",
        whole_number,
        None,
        "Batch writes with `exactlyOnce`: the number of this batch. One that is not higher than"
        " the writer's last counts as written.",
    )
    request_bytes: int = option(
        "requestBytes",
        positive,
        1 << 20,
        "Bytes of one request, about; a larger message has one for itself.",
    )
    in_flight: int = option(
        "requestsInFlight",
        positive,
        2,
        "Requests of a task at a time. With 1 the rows of a partition stay in order on a node, and"
        " in a queue of RocketMQ.",
    )

    def require_writer(self, *, streaming: bool) -> None:
        """Raise OptionError unless the writer's memory has a name where it needs one."""
        named = bool(self.writer) or self.writer_batch is not None
        if streaming and named:
            raise OptionError(
                "writerId and writerBatch are for batch writes: a stream has its query id and the "
                "numbers of its batches"
            )
        if named and not self.exactly_once:
            raise OptionError("writerId and writerBatch are of no use without exactlyOnce=true")
        if (
            self.exactly_once
            and not streaming
            and not (self.writer and self.writer_batch is not None)
        ):
            raise OptionError(
                "a batch write with exactlyOnce=true needs writerId and writerBatch, by which a "
                "repeated write is known"
            )

    @staticmethod
    def given(options: Mapping[str, str]) -> dict[str, str]:
        """Spark's options in lower case; the path of ``save("t")`` is the topic."""
        given = {key.lower(): value for key, value in options.items()}
        return {"topic": given["path"], **given} if "path" in given else given


@dataclass(frozen=True)
class SinkSettings(ClusterOptions, WriteOptions):
    """The options of a writer."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SinkSettings:
        """Settings from Spark's options, whose names are case-insensitive.

        Raises OptionError for a missing, unknown or unusable option.
        """
        settings = cls(**parse(cls, cls.given(options), OF_SPARK))
        settings.require_nodes()
        settings.require_names()
        return settings

    def require_names(self) -> None:
        """Raise OptionError for names that no topic or writer can have."""
        if self.topic is not None and not is_valid_name(self.topic):
            raise OptionError(invalid_topic(self.topic))
        if len(self.writer) > WRITER_LENGTH_MAX:
            raise OptionError(f"writerId has more than {WRITER_LENGTH_MAX} characters")

    def require_fixed_nodes(self) -> None:
        """Raise OptionError for nodes that may be others when a batch is repeated."""
        if self.exactly_once and self.lookupd:
            raise OptionError(
                "exactlyOnce=true needs the fixed list of nodes in nsqd_http_address, in place of "
                "lookupd_http_address: those that nsqlookupd names may be others when a batch is "
                "repeated. A pipeline's file may name nsqlookupd: its checkpoint keeps the list"
            )


def invalid_topic(name: str) -> str:
    """The sentence for a name that no topic can have."""
    shown = name if len(name) <= 100 else name[:100] + "..."
    return (
        f"topic name {shown!r} is invalid: a name is 1 to 64 letters, digits, dots, underscores "
        "and dashes"
    )
