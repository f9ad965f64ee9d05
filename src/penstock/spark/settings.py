"""The options of ``format("nsq")``, parsed once on the driver and pickled to the workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.core.names import is_valid_name
from penstock.net.address import split_host_port
from penstock.spark.errors import OptionError

_KNOWN = frozenset({
    "topic", "lookupd_http_address", "nsqd_http_address", "startingoffsets", "endingoffsets",
    "maxrecordspertrigger", "minpartitions", "group", "failondataloss", "timeout",
    "fetchbytes", "mode", "path",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Settings:
    """What a reader needs to know. Addresses are ``host:port`` of HTTP, times are seconds."""

    topics: tuple[str, ...]
    lookupd: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    starting: str | None = None
    ending: str = "latest"
    records_max: int | None = None
    partitions_min: int = 0
    """0: as many as the amount asks for."""
    group: str | None = None
    fail_on_data_loss: bool = True
    timeout_s: float = 10.0
    fetch_bytes: int = 4 << 20

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Settings:
        """Settings from Spark's options, whose names are case-insensitive.

        Raises OptionError for a missing, unknown or unusable option.
        """
        given = {key.lower(): value for key, value in options.items()}
        _refuse_unknown(given)
        settings = cls(
            topics=_split(given.get("topic", "")),
            lookupd=_split(given.get("lookupd_http_address", "")),
            nodes=_split(given.get("nsqd_http_address", "")),
            starting=given.get("startingoffsets"),
            ending=given.get("endingoffsets", "latest"),
            records_max=_positive(given, "maxRecordsPerTrigger", None),
            partitions_min=_positive(given, "minPartitions", None) or 0,
            group=given.get("group"),
            fail_on_data_loss=_boolean(given, "failOnDataLoss", True),
            timeout_s=float(_positive(given, "timeout", 10) or 10),
            fetch_bytes=_positive(given, "fetchBytes", 4 << 20) or 4 << 20,
        )
        settings._require_topics()
        settings._require_where()
        return settings

    @property
    def every_topic(self) -> bool:
        """Whether ``topic`` is ``*``: all there are, and those that come."""
        return self.topics == ("*",)

    def _require_topics(self) -> None:
        if not self.topics:
            raise OptionError('the option "topic" is missing')
        for topic in () if self.every_topic else self.topics:
            if not is_valid_name(topic):
                raise OptionError(
                    f"topic name {topic!r} is invalid: a name is 1 to 64 letters, digits, "
                    "dots, underscores and dashes (a * alone is every topic)"
                )

    def _require_where(self) -> None:
        if bool(self.lookupd) == bool(self.nodes):
            raise OptionError(
                "say where to read: lookupd_http_address or nsqd_http_address, one of the two "
                "(host:port, several separated by commas)"
            )
        for address in self.nodes:
            _require_port("nsqd_http_address", address, address, 4151)
        for address in self.lookupd:
            # nsqlookupd may also be given as a URL with a path of its own.
            if "://" not in address:
                _require_port("lookupd_http_address", address, address.partition("/")[0], 4161)


def _refuse_unknown(given: Mapping[str, str]) -> None:
    unknown = sorted(set(given) - _KNOWN)
    if unknown:
        raise OptionError(f"format nsq knows no option {', '.join(unknown)}")
    if given.get("mode", "log") != "log":
        raise OptionError(f'mode must be "log", not {given["mode"]!r}')


def _require_port(name: str, given: str, address: str, usual: int) -> None:
    try:
        split_host_port(address)
    except ValueError:
        raise OptionError(
            f"{name} must be host:port, such as 127.0.0.1:{usual}, not {given!r}"
        ) from None


def _split(value: str) -> tuple[str, ...]:
    parts = (part.strip().removeprefix("http://").rstrip("/") for part in value.split(","))
    return tuple(part for part in parts if part)


def _positive(given: Mapping[str, str], name: str, default: int | None) -> int | None:
    value = given.get(name.lower())
    if value is None:
        return default
    if not value.strip().isdecimal() or int(value) < 1:
        raise OptionError(f"{name} must be a positive whole number, not {value!r}")
    return int(value)


def _boolean(given: Mapping[str, str], name: str, default: bool) -> bool:
    value = given.get(name.lower(), str(default)).strip().lower()
    if value not in ("true", "false"):
        raise OptionError(f"{name} must be true or false, not {value!r}")
    return value == "true"
