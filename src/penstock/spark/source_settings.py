"""The options of ``format("nsq")``, parsed once on the driver and pickled to the workers."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from penstock.core.names import is_valid_name
from penstock.core.units import MINUTE
from penstock.spark.cluster_options import ClusterOptions
from penstock.spark.errors import OptionError
from penstock.spark.offsets import GROUP, offsets, require_some
from penstock.spark.option_declarations import (
    Read,
    boolean,
    duration,
    one_of,
    option,
    parse,
    pattern,
    positive,
    printable,
    require_columns,
    texts,
    words,
)
from penstock.spark.timestamps import Timestamp, timestamp

COLUMNS: Final = ("topic", "body", "id", "timestamp", "attempts", "node", "queue", "offset")
"""The columns of every message, which are read unless others are asked for."""
ORIGIN_COLUMNS: Final = (
    "origin_topic",
    "origin_channel",
    "origin_id",
    "origin_timestamp",
    "origin_attempts",
    "reason",
)
"""The columns of dead letters, null in other messages."""
_OF_COLUMNS = ("columns", "includeorigin")


@dataclass(frozen=True)
class SourceSettings(ClusterOptions):
    """The options of a reader. Addresses are ``host:port`` of HTTP, times are seconds."""

    format: ClassVar[str] = "nsq"
    usual_columns: ClassVar[tuple[str, ...]] = COLUMNS
    origin_columns: ClassVar[tuple[str, ...]] = ORIGIN_COLUMNS

    topics: tuple[str, ...] = option(
        "topic",
        texts,
        (),
        "One, several separated by commas, or `*` for all.",
        aliases=("subscribe", "path"),
    )
    pattern: str | None = option(
        "topicPattern",
        pattern,
        None,
        "In its place: all topics, present and future, whose full name matches this regular"
        " expression (Python's).",
        aliases=("subscribePattern",),
    )
    starting: str | None = option(
        "startingOffsets",
        offsets,
        None,
        "`earliest` (default of a batch read), `latest` (default of a stream, and for streams"
        " only), `group` (streams only: where the `group` of the options stands), or JSON"
        ' `{"topic": {"node": {"0": 123}}}`, where just one node has the topic also'
        ' `{"topic": {"0": 123}}`; -2 is earliest, -1 latest.',
    )
    starting_time: Timestamp | None = option(
        "startingTimestamp",
        timestamp,
        None,
        "In its place: from the first message published at this time on. `2026-01-31T12:00:00Z`"
        " (UTC where no zone is named), milliseconds since 1970, or `-1h`, `-7d`: that long ago.",
    )
    ending: str | None = option(
        "endingOffsets", offsets, None, "`latest` or JSON as above.", shown="latest", only="batch"
    )
    ending_time: Timestamp | None = option(
        "endingTimestamp",
        timestamp,
        None,
        "In its place: up to the first message published at this time or later, which is left out.",
        only="batch",
    )
    columns: tuple[str, ...] = option(
        "columns",
        words,
        (),
        "The columns to read, in this order, separated by commas; by default those of all messages."
        " A column that is left out costs nothing.",
    )
    include_origin: bool = option(
        "includeOrigin",
        boolean,
        False,
        "`true`: read the columns of dead letters, too.",
    )
    records_max: int | None = option(
        "maxRecordsPerTrigger",
        positive,
        None,
        "Most messages of a micro-batch.",
        aliases=("maxOffsetsPerTrigger",),
        only="stream",
    )
    bytes_max: int | None = option(
        "maxBytesPerTrigger",
        positive,
        None,
        "Most bytes of log of a micro-batch, by the mean size of each queue's messages; of each"
        " queue at least a message.",
        only="stream",
    )
    records_min: int | None = option(
        "minRecordsPerTrigger",
        positive,
        None,
        "Fewest messages of a micro-batch, which waits for them. A run of `AvailableNow` does not.",
        aliases=("minOffsetsPerTrigger",),
        only="stream",
    )
    trigger_delay_ns: int = option(
        "maxTriggerDelay",
        duration,
        15 * MINUTE,
        "Longest that messages wait for `minRecordsPerTrigger`, such as `30s` or `1h`.",
        shown="15m",
        only="stream",
    )
    partitions_min: int = option(
        "minPartitions",
        positive,
        0,
        "Splits at least, when there is enough to read; by default one for each 32 MiB of log.",
    )
    partition_records_max: int | None = option(
        "maxRecordsPerPartition", positive, None, "Most messages of a split."
    )
    group: str | None = option(
        "group",
        printable(256),
        None,
        "Under this name nsqd keeps what is still to be read; each query needs another one. Without"
        " it a query gets a random name.",
        only="stream",
    )
    group_prefix: str = option(
        "groupIdPrefix",
        printable(240),
        "spark",
        "The prefix of that random name.",
        only="stream",
    )
    fail_on_data_loss: bool = option(
        "failOnDataLoss",
        boolean,
        True,
        "`true`: messages that are gone end the query with an error that names them. `false`: they"
        " are skipped with a warning.",
    )
    wait_for_nodes: bool = option(
        "waitForNodes",
        boolean,
        False,
        "`true`: a node that left nsqlookupd with messages to read is waited for, up to `timeout`."
        " `false`: the query continues without it, with a warning, until it is back.",
    )
    skip_without_log: bool = option(
        "skipNodesWithoutLog",
        boolean,
        False,
        "`true`: leave out nodes that have no log to read, as Go's nsqd, with a warning.",
    )
    fetch_bytes: int = option("fetchBytes", positive, 4 << 20, "Bytes of one fetch.")
    mode: str = option(
        "mode",
        one_of("log", "channel"),
        "log",
        "`log`; `channel` reads a [channel](#channels) of any nsqd, and has other options.",
    )

    @classmethod
    def parse(cls, options: Mapping[str, str], read: Read | None = None) -> Self:
        """Settings from Spark's options, whose names are case-insensitive.

        Raises OptionError for a missing, unknown or unusable option, and with ``read`` for one that
        is of no use to this kind of read.
        """
        if is_channel(options):
            raise OptionError(
                "mode=channel is for streams of Spark with format nsq, not for other reads"
            )
        fields = parse(cls, options, read=read, format=cls.format)
        settings = cls(**fields)
        cls.columns_in(options)
        settings._require_topics()
        settings._require_one_position(read)
        settings._require_limits(fields)
        settings.require_nodes()
        return settings

    @classmethod
    def columns_in(cls, options: Mapping[str, str]) -> tuple[str, ...]:
        """The columns that options ask for, whatever the other options are. Raises OptionError."""
        of_columns = {k: v for k, v in options.items() if k.lower() in _OF_COLUMNS}
        asked = cls(**parse(cls, of_columns, format=cls.format))
        if asked.columns and asked.include_origin:
            raise OptionError("columns names all columns to read: leave includeOrigin out")
        known = cls.usual_columns + cls.origin_columns
        require_columns(asked.columns, known)
        return asked.columns or (known if asked.include_origin else cls.usual_columns)

    @property
    def every_topic(self) -> bool:
        """True if ``topic`` is ``*``: all there are, and those that come."""
        return self.topics == ("*",)

    @property
    def finds_topics(self) -> bool:
        """True if topics are not named one by one, so that more may come and any may go."""
        return self.every_topic or self.pattern is not None

    def reads(self, topic: str) -> bool:
        """True if the options ask for a topic."""
        if self.pattern is not None:
            return re.fullmatch(self.pattern, topic) is not None
        return self.every_topic or topic in self.topics

    @property
    def directory(self) -> tuple[str, tuple[str, ...]]:
        """The kind of the directories that know the nodes, and their addresses."""
        return "nsqlookupd", self.lookupd

    @property
    def groups_hold(self) -> bool:
        """True if nodes keep what a group has not read."""
        return True

    def _require_topics(self) -> None:
        if self.topics and self.pattern is not None:
            raise OptionError("give topic or topicPattern, not both")
        if not self.topics and self.pattern is None:
            raise OptionError('the option "topic" is missing')
        for topic in () if self.every_topic else self.topics:
            self._require_topic_name(topic)

    def _require_topic_name(self, topic: str) -> None:
        if not is_valid_name(topic):
            raise OptionError(
                f"topic name {topic!r} is invalid: a name is 1 to 64 letters, digits, "
                "dots, underscores and dashes (a * alone is every topic)"
            )

    def _require_one_position(self, read: Read | None) -> None:
        if self.starting is not None and self.starting_time is not None:
            raise OptionError("give startingOffsets or startingTimestamp, not both")
        if self.ending is not None and self.ending_time is not None:
            raise OptionError("give endingOffsets or endingTimestamp, not both")
        if self.starting == GROUP and read == "batch":
            raise OptionError(
                "startingOffsets=group is for streams only: a batch read has no group"
            )
        if self.starting == GROUP and self.group is None:
            raise OptionError("startingOffsets=group needs the option group, whose place it is")
        for name, given in (("startingOffsets", self.starting), ("endingOffsets", self.ending)):
            if read == "batch" and given is not None:
                require_some(name, given)

    def _require_limits(self, given: Collection[str]) -> None:
        if self.records_min and self.records_max and self.records_min > self.records_max:
            raise OptionError("minRecordsPerTrigger is more than maxRecordsPerTrigger")
        if "trigger_delay_ns" in given and self.records_min is None:
            raise OptionError("maxTriggerDelay is of no use without minRecordsPerTrigger")
        if "group_prefix" in given and self.group is not None:
            raise OptionError("give group or groupIdPrefix, not both")


def is_channel(options: Mapping[str, str]) -> bool:
    """True if these options, of any case, ask for ``mode=channel``."""
    return any(key.lower() == "mode" and value == "channel" for key, value in options.items())
