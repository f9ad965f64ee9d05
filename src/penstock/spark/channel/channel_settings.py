"""The options of ``format("nsq")`` with ``mode=channel``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from penstock.core.names import is_valid_name
from penstock.nsq.client.config import Config
from penstock.spark.cluster_options import ConnectionOptions, require_port
from penstock.spark.errors import OptionError
from penstock.spark.option_declarations import (
    boolean,
    one_of,
    option,
    parse,
    positive,
    require_columns,
    text,
    texts,
    words,
)

COLUMNS: Final = ("topic", "body", "id", "timestamp", "attempts", "node")
"""All columns that a channel has for a message."""
MODE: Final = "channel"
_FILE_BYTES_MAX: Final = 1 << 30
_LOCAL: Final = ("file://", "file:")


def _folder(name: str, given: str) -> str:
    """A path of the file system; ``file:`` in front of it is left out."""
    path = given.strip()
    for scheme in _LOCAL:
        path = path.removeprefix(scheme)
    if "://" in path or not path.startswith("/"):
        raise OptionError(
            f"{name} must be an absolute path of a folder that driver and executors share (a local "
            f"one, NFS or its like), not {given!r}: files are synced and renamed there"
        )
    return path.rstrip("/") or "/"


@dataclass(frozen=True)
class ChannelSettings(ConnectionOptions):
    """Addresses of nodes are those of TCP; times are seconds."""

    format: ClassVar[str] = "nsq with mode=channel"

    mode: str = option("mode", one_of("log", MODE), MODE, "`channel`.", shown="log")
    topic: str = option("topic", text, "", "The one topic.", aliases=("subscribe", "path"))
    channel: str = option(
        "channel",
        text,
        "",
        "Its channel; it is made if it is not there. Several queries, and other consumers, on one"
        " channel share its messages.",
    )
    staging: str = option(
        "stagingLocation",
        _folder,
        "",
        "A folder for this query alone, which driver and executors share under the same path.",
    )
    lookupd: tuple[str, ...] = option(
        "lookupd_http_address",
        texts,
        (),
        "nsqlookupd to ask for the nodes: `host:port` or a URL, several separated by commas. Either"
        " this or the next.",
    )
    nodes: tuple[str, ...] = option(
        "nsqd_tcp_address",
        texts,
        (),
        "The nodes: `host:port` of TCP, several separated by commas.",
    )
    columns: tuple[str, ...] = option(
        "columns", words, (), "The columns to read, in this order, separated by commas."
    )
    records_max: int | None = option(
        "maxRecordsPerTrigger",
        positive,
        None,
        "Most messages of a micro-batch, by whole files: of these at least one.",
        aliases=("maxOffsetsPerTrigger",),
    )
    bytes_max: int | None = option(
        "maxBytesPerTrigger", positive, None, "Most bytes of a micro-batch, by whole files, too."
    )
    partitions_min: int = option(
        "minPartitions",
        positive,
        1,
        "Splits at least, when there are as many files; by default one for each 32 MiB.",
    )
    in_flight_max: int = option(
        "maxInFlight",
        positive,
        2500,
        "Most messages in flight, over all nodes; a file has about as many at most. Raise it"
        " together with the nodes' `--max-rdy-count`.",
    )
    file_bytes: int = option(
        "maxFileBytes",
        positive,
        16 << 20,
        "Bytes of bodies after which a file is written, however few messages they are; the driver"
        " holds about as much in memory.",
    )
    staged_bytes_max: int = option(
        "maxStagedBytes",
        positive,
        1 << 30,
        "Bytes of staged files at which no more messages are taken, until batches are committed.",
    )
    fail_on_data_loss: bool = option(
        "failOnDataLoss",
        boolean,
        True,
        "`true`: staged files that are missing or damaged end the query with an error that names"
        " them. `false`: they are skipped with a warning.",
    )
    tls_v1: bool | None = option(
        "tls_v1",
        boolean,
        None,
        "`true`: speak TLS. Another `tls_` option implies it.",
        shown="false",
    )
    auth_secret: str = option(
        "auth_secret", text, "", "The secret of AUTH; nsqlookupd gets it, too.", secret=True
    )

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Settings from Spark's options. Raises OptionError."""
        settings = cls(**parse(cls, options, format=cls.format))
        cls.columns_in(options)
        settings._require_channel()
        settings._require_where()
        settings.require_tls()
        if settings.file_bytes > _FILE_BYTES_MAX:
            raise OptionError(f"maxFileBytes is more than {_FILE_BYTES_MAX}")
        return settings

    @classmethod
    def columns_in(cls, options: Mapping[str, str]) -> tuple[str, ...]:
        """The columns that options ask for, whatever the other options are. Raises OptionError."""
        given = {key: value for key, value in options.items() if key.lower() == "columns"}
        asked: tuple[str, ...] = cls(**parse(cls, given, format=cls.format)).columns
        require_columns(asked, COLUMNS)
        return asked or COLUMNS

    @property
    def where(self) -> str:
        """The channel in words."""
        return f"channel {self.channel} of topic {self.topic}"

    def client_config(self) -> Config:
        """Options of a consumer with these settings, which gives no message up."""
        return Config(
            tls_v1=bool(self.tls_v1 or self.implies_tls),
            tls_root_ca_file=self.tls_root_ca_file,
            tls_cert=self.tls_cert,
            tls_key=self.tls_key,
            tls_server_name=self.tls_server_name,
            tls_insecure_skip_verify=self.tls_insecure_skip_verify,
            auth_secret=self.auth_secret,
            max_in_flight=self.in_flight_max,
            max_attempts=0,
            lookupd_poll_timeout=self.timeout_s,
        )

    def _require_channel(self) -> None:
        for name, given in (("topic", self.topic), ("channel", self.channel)):
            if not given:
                raise OptionError(f'the option "{name}" is missing: mode=channel reads one')
            if not is_valid_name(given):
                raise OptionError(
                    f"{name} name {given!r} is invalid: a name is 1 to 64 letters, digits, dots, "
                    "underscores and dashes; mode=channel reads one topic"
                )
        if not self.staging:
            raise OptionError(
                'the option "stagingLocation" is missing: a folder for this query alone, which '
                "driver and executors share"
            )

    def _require_where(self) -> None:
        if bool(self.lookupd) == bool(self.nodes):
            raise OptionError(
                "say where the nodes are: lookupd_http_address, or nsqd_tcp_address (host:port of "
                "TCP, such as 127.0.0.1:4150), one of the two"
            )
        for address in self.nodes:
            require_port("nsqd_tcp_address", address, address, 4150)
