"""The options of ``format("nsq")``, parsed once on the driver and pickled to the workers."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from penstock.core.names import is_valid_name
from penstock.core.units import MINUTE
from penstock.net.address import split_host_port
from penstock.spark.access import Access
from penstock.spark.columns import COLUMNS, ORIGIN_COLUMNS
from penstock.spark.errors import OptionError
from penstock.spark.options import (
    Read,
    boolean,
    duration,
    one_of,
    option,
    parse,
    pattern,
    positive,
    printable,
    seconds,
    text,
    texts,
    words,
)
from penstock.spark.timestamps import Timestamp, timestamp

_FILE = "On every machine of the cluster"
_OF_COLUMNS = ("columns", "includeorigin")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a reader needs to know. Addresses are ``host:port`` of HTTP, times are seconds."""

    format: ClassVar[str] = "nsq"
    usual_columns: ClassVar[tuple[str, ...]] = COLUMNS
    origin_columns: ClassVar[tuple[str, ...]] = ORIGIN_COLUMNS

    topics: tuple[str, ...] = option(
        "topic", texts, (), "One, several separated by commas, or `*` for all.",
        aliases=("subscribe", "path"),
    )  # fmt: skip
    pattern: str | None = option(
        "topicPattern", pattern, None,
        "In its place: all topics whose whole name matches this regular expression (Python's), and"
        " those that come.",
        aliases=("subscribePattern",),
    )  # fmt: skip
    lookupd: tuple[str, ...] = option(
        "lookupd_http_address", texts, (),
        "nsqlookupd to ask for the nodes: `host:port` or a URL, several separated by commas. Either"
        " this or the next.",
    )  # fmt: skip
    nodes: tuple[str, ...] = option(
        "nsqd_http_address", texts, (),
        "Nodes to read: `host:port`, or `https://host:port`, several separated by commas.",
    )  # fmt: skip
    starting: str | None = option(
        "startingOffsets", text, None,
        '`earliest` (default of a batch read), `latest` (default of a stream), or JSON'
        ' `{"topic": {"node": {"0": 123}}}`, where just one node has the topic also'
        ' `{"topic": {"0": 123}}`; -2 is earliest, -1 latest.',
    )  # fmt: skip
    starting_time: Timestamp | None = option(
        "startingTimestamp", timestamp, None,
        "In its place: from the first message published at this time on. `2026-01-31T12:00:00Z`"
        " (UTC where no zone is named), milliseconds since 1970, or `-1h`, `-7d`: that long ago.",
    )  # fmt: skip
    ending: str | None = option(
        "endingOffsets", text, None, "`latest` or JSON as above.", shown="latest", only="batch"
    )
    ending_time: Timestamp | None = option(
        "endingTimestamp", timestamp, None,
        "In its place: up to the first message published at this time or later, which is left out.",
        only="batch",
    )  # fmt: skip
    columns: tuple[str, ...] = option(
        "columns", words, (),
        "The columns to read, in this order, separated by commas; by default those of all messages."
        " A column that is left out costs nothing.",
    )  # fmt: skip
    include_origin: bool = option(
        "includeOrigin", boolean, False,
        "`true`: read the columns of dead letters, too.", shown="false",
    )  # fmt: skip
    records_max: int | None = option(
        "maxRecordsPerTrigger", positive, None, "Most messages of a micro-batch.",
        aliases=("maxOffsetsPerTrigger",), only="stream",
    )  # fmt: skip
    bytes_max: int | None = option(
        "maxBytesPerTrigger", positive, None,
        "Most bytes of log of a micro-batch, by the mean size of each queue's messages; of each"
        " queue at least a message.",
        only="stream",
    )  # fmt: skip
    records_min: int | None = option(
        "minRecordsPerTrigger", positive, None,
        "Fewest messages of a micro-batch, which waits for them. A run of `AvailableNow` does not.",
        aliases=("minOffsetsPerTrigger",), only="stream",
    )  # fmt: skip
    trigger_delay_ns: int = option(
        "maxTriggerDelay", duration, 15 * MINUTE,
        "Longest that messages wait for `minRecordsPerTrigger`, such as `30s` or `1h`.",
        shown="15m", only="stream",
    )  # fmt: skip
    partitions_min: int = option(
        "minPartitions", positive, 0,
        "Splits at least, when there is enough to read; by default one for each 32 MiB of log.",
    )  # fmt: skip
    partition_records_max: int | None = option(
        "maxRecordsPerPartition", positive, None, "Most messages of a split."
    )
    group: str | None = option(
        "group", printable(256), None,
        "Under this name nsqd keeps what is still to be read; each query needs another one. Without"
        " it a query gets a name by chance.",
        only="stream",
    )  # fmt: skip
    group_prefix: str = option(
        "groupIdPrefix", printable(240), "spark",
        "The beginning of that name by chance.", shown="spark", only="stream",
    )  # fmt: skip
    fail_on_data_loss: bool = option(
        "failOnDataLoss", boolean, True,
        "`true`: messages that are gone end the query with an error that names them. `false`: they"
        " are skipped with a warning.",
        shown="true",
    )  # fmt: skip
    wait_for_nodes: bool = option(
        "waitForNodes", boolean, False,
        "`true`: a node that left nsqlookupd with messages to read is waited for, as long as"
        " `timeout` says. `false`: the query goes on without it, with a warning, until it is back.",
        shown="false",
    )  # fmt: skip
    skip_without_log: bool = option(
        "skipNodesWithoutLog", boolean, False,
        "`true`: leave out nodes that have no log to read, as Go's nsqd, with a warning.",
        shown="false",
    )  # fmt: skip
    timeout_s: float = option(
        "timeout", seconds, 10.0, "Seconds to wait for a node that does not answer.", shown="10"
    )
    fetch_bytes: int = option(
        "fetchBytes", positive, 4 << 20, "Bytes of one fetch.", shown="4194304"
    )
    tls_v1: bool | None = option(
        "tls_v1", boolean, None,
        "`true`: read over HTTPS. An `https://` address or another `tls_` option implies it.",
        shown="false",
    )  # fmt: skip
    tls_root_ca_file: str = option(
        "tls_root_ca_file", text, "",
        f"Who may sign the nodes' certificates (PEM), else the system's authorities. {_FILE}.",
    )  # fmt: skip
    tls_cert: str = option("tls_cert", text, "", f"Our certificate (PEM). {_FILE}.")
    tls_key: str = option(
        "tls_key", text, "", f"Its key (PEM), where it is not in the same file. {_FILE}."
    )
    tls_server_name: str = option(
        "tls_server_name",
        text,
        "",
        "The name in the nodes' certificates, if it is not their host's.",
    )
    tls_insecure_skip_verify: bool = option(
        "tls_insecure_skip_verify", boolean, False, "Accept any certificate.", shown="false"
    )
    https_port: int = option(
        "nsqd_https_port", positive, 4152,
        "HTTPS port of nodes that do not tell theirs; those with `--tls-required` do.",
        shown="4152",
    )  # fmt: skip
    auth_secret: str = option(
        "auth_secret", text, "",
        "Sent with every request to nodes and nsqlookupd as `Authorization: Bearer <secret>`.",
        secret=True,
    )  # fmt: skip
    mode: str = option("mode", one_of("log"), "log", "`log`.", shown="log")

    @classmethod
    def parse(cls, options: Mapping[str, str], read: Read | None = None) -> Self:
        """Settings from Spark's options, whose names are case-insensitive.

        Raises OptionError for a missing, unknown or unusable option, and with ``read`` for one that
        is of no use to this kind of read.
        """
        fields = parse(cls, options, read=read, format=cls.format)
        settings = cls(**fields)
        cls.columns_in(options)
        settings._require_topics()
        settings._require_one_position()
        settings._require_limits(fields)
        settings._require_where()
        settings._require_tls()
        return settings

    @classmethod
    def columns_in(cls, options: Mapping[str, str]) -> tuple[str, ...]:
        """The columns that options ask for, whatever the other options are. Raises OptionError."""
        of_columns = {k: v for k, v in options.items() if k.lower() in _OF_COLUMNS}
        asked = cls(**parse(cls, of_columns, format=cls.format))
        if asked.columns and asked.include_origin:
            raise OptionError("columns names all columns to read: leave includeOrigin out")
        known = cls.usual_columns + cls.origin_columns
        if not set(asked.columns) <= set(known) or len(set(asked.columns)) < len(asked.columns):
            given = ", ".join(asked.columns)
            raise OptionError(f"columns must be some of {', '.join(known)}, each once, not {given}")
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
    def access(self) -> Access:
        """The part of it that says how nodes are asked."""
        return Access(
            timeout_s=self.timeout_s,
            tls=self._wants_tls,
            root_ca_file=self.tls_root_ca_file,
            cert=self.tls_cert,
            key=self.tls_key,
            server_name=self.tls_server_name,
            verify=not self.tls_insecure_skip_verify,
            https_port=self.https_port,
            auth_secret=self.auth_secret,
        )

    @property
    def _wants_tls(self) -> bool:
        return bool(self.tls_v1 or self._tls_given or _https(self.nodes))

    @property
    def _tls_given(self) -> bool:
        files = self.tls_root_ca_file or self.tls_cert or self.tls_key
        return bool(files or self.tls_server_name or self.tls_insecure_skip_verify)

    def _require_tls(self) -> None:
        if self.tls_v1 is False and (self._tls_given or _https(self.nodes)):
            raise OptionError("tls_v1 is false, but other options ask for TLS: leave it out")
        if self.tls_key and not self.tls_cert:
            raise OptionError("tls_key is of no use without tls_cert")

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

    def _require_one_position(self) -> None:
        if self.starting is not None and self.starting_time is not None:
            raise OptionError("give startingOffsets or startingTimestamp, not both")
        if self.ending is not None and self.ending_time is not None:
            raise OptionError("give endingOffsets or endingTimestamp, not both")

    def _require_limits(self, given: Collection[str]) -> None:
        if self.records_min and self.records_max and self.records_min > self.records_max:
            raise OptionError("minRecordsPerTrigger is more than maxRecordsPerTrigger")
        if "trigger_delay_ns" in given and self.records_min is None:
            raise OptionError("maxTriggerDelay is of no use without minRecordsPerTrigger")
        if "group_prefix" in given and self.group is not None:
            raise OptionError("give group or groupIdPrefix, not both")

    def _require_where(self) -> None:
        if bool(self.lookupd) == bool(self.nodes):
            raise OptionError(
                "say where to read: lookupd_http_address or nsqd_http_address, one of the two "
                "(host:port, several separated by commas)"
            )
        for address in self.nodes:
            plain = address.removeprefix("https://")
            _require_port("nsqd_http_address", address, plain, 4151)
        for address in self.lookupd:
            # nsqlookupd may also be given as a URL with a path of its own.
            if "://" not in address:
                _require_port("lookupd_http_address", address, address.partition("/")[0], 4161)


def _https(addresses: tuple[str, ...]) -> bool:
    return any(address.startswith("https://") for address in addresses)


def _require_port(name: str, given: str, address: str, usual: int) -> None:
    try:
        split_host_port(address)
    except ValueError:
        raise OptionError(
            f"{name} must be host:port, such as 127.0.0.1:{usual}, not {given!r}"
        ) from None
