"""The tools' command lines: Go's flags, the options they share, and the client's ``Config``.

    class TailFlags(ConsumerFlags):
        channel: str = option("", "NSQ channel")

    flags = parse(TailFlags, argv, "nsq_tail")
    check_sources(flags)
    config = consumer_config(flags, "nsq_tail")

The order in which a tool checks its flags shows in its messages; so each does it itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from penstock.core.errors import ConfigError
from penstock.core.names import is_valid_name
from penstock.core.quote import quote
from penstock.core.redaction import without_secrets
from penstock.core.settings import options
from penstock.core.settings.option_kinds import Kind
from penstock.core.settings.options import Flags, option
from penstock.core.settings.version import NSQ_VERSION
from penstock.net.address import split_host_port
from penstock.nsq.tools.entry import version_text
from penstock.nsq.tools.errors import ToolError

if TYPE_CHECKING:
    from penstock.nsq.client.config import Config

FlagsT = TypeVar("FlagsT", bound="ToolFlags")
ClientPair = tuple[str, str | bool]

_CONFIG_URL = "http://godoc.org/github.com/nsqio/go-nsq#Config"


class ClientOption(Kind):
    """``name,value`` for the client's Config, or a ``name`` alone for one that is to be true.

    The value is a tuple of such pairs, already known to be acceptable.
    """

    placeholder = "value"

    def from_flag(self, text: str) -> tuple[ClientPair, ...]:
        from penstock.nsq.client.config import Config

        name, comma, value = text.partition(",")
        pair = (name, value if comma else True)
        try:
            Config().with_option(*pair)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return (pair,)

    def accumulate(self, earlier: Any, value: Any) -> Any:
        return (*(earlier or ()), *value)

    def show_default(self, value: Any) -> str:
        return ""


CLIENT_OPTION = ClientOption()


def client_options(flag: str, to: str, see: str = "", hidden: bool = False) -> Any:
    """The declaration of --consumer-opt or --producer-opt: options ``to`` a part of the client.

    Upstream writes "see" before the address in one of its tools only.
    """
    return option(
        (),
        f"option to passthrough to {to} (may be given multiple times, {see}{_CONFIG_URL})",
        flag=flag,
        kind=CLIENT_OPTION,
        hidden=hidden,
    )


class ToolFlags(Flags):
    """The flags of every tool."""

    version: bool = option(default=False, help="print version string")


class ConsumerFlags(ToolFlags):
    """The flags of every tool that consumes."""

    nsqd_tcp_addresses: tuple[str, ...] = option(
        (), "nsqd TCP address (may be given multiple times)", flag="nsqd-tcp-address"
    )
    lookupd_http_addresses: tuple[str, ...] = option(
        (), "lookupd HTTP address (may be given multiple times)", flag="lookupd-http-address"
    )
    max_in_flight: int = option(200, "max number of messages to allow in flight")
    consumer_options: tuple[ClientPair, ...] = client_options("consumer-opt", "nsq.Consumer")
    # What --consumer-opt was called before NSQ 1.0, and still is in the manual's chapter AUTH.
    reader_options: tuple[ClientPair, ...] = client_options(
        "reader-opt", "nsq.Consumer", hidden=True
    )


def parse(flags_class: type[FlagsT], argv: Sequence[str], tool: str) -> FlagsT:
    """The flags of a command line. Prints the version and leaves where that is asked for.

    SystemExit: 0 after help or version, 2 after a wrong flag.
    """
    flags = parse_unchecked(flags_class, argv)
    leave_after_version(flags, tool)
    return flags


def parse_unchecked(flags_class: type[FlagsT], argv: Sequence[str]) -> FlagsT:
    """Parse like ``parse``, for a tool that checks something before --version counts."""
    return options.parse(flags_class, argv, sys.argv[0])


def leave_after_version(flags: ToolFlags, tool: str) -> None:
    """Print the version and leave with 0 where --version was given."""
    if flags.version:
        print(version_text(tool))
        raise SystemExit(0)


def user_agent(tool: str) -> str:
    """The name that the tool gives itself to a node."""
    from penstock import __version__

    return f"{tool}/{NSQ_VERSION} penstock/{__version__}"


def check_sources(flags: ConsumerFlags, full_stop: str = "") -> None:
    """Raise ToolError unless there are nsqds or nsqlookupds, and not both."""
    check_addresses(
        "nsqd-tcp-address", flags.nsqd_tcp_addresses, flags.lookupd_http_addresses, full_stop
    )


def check_addresses(
    nsqd_flag: str, nsqds: Sequence[str], lookupds: Sequence[str], full_stop: str = ""
) -> None:
    """Check like ``check_sources``, for a tool whose flag for its nsqds has another name."""
    if not nsqds and not lookupds:
        raise ToolError(f"--{nsqd_flag} or --lookupd-http-address required{full_stop}")
    if nsqds and lookupds:
        raise ToolError(f"use --{nsqd_flag} or --lookupd-http-address not both")


def check_names(topics: Iterable[str], channel: str = "") -> None:
    """Raise ToolError in go-nsq's words when one of them cannot be a name."""
    if not all(map(is_valid_name, topics)):
        raise ToolError("invalid topic name")
    if channel and not is_valid_name(channel):
        raise ToolError("invalid channel name")


def check_nsqds(addresses: Iterable[str]) -> None:
    """Raise ToolError in Go's words when one of the addresses has no port."""
    for address in addresses:
        try:
            split_host_port(address)
        except ValueError as error:
            raise ToolError(f"dial tcp: {error}") from None


def check_lookupds(addresses: Iterable[str]) -> None:
    """Raise ToolError in go-nsq's words when one of the addresses has no port."""
    for address in addresses:
        try:
            port = urlsplit(address if "://" in address else f"http://{address}").port
        except ValueError as error:
            raise ToolError(f"parse {quote(without_secrets(address))}: {error}") from None
        if port is None:
            raise ToolError("missing port")


def consumer_config(flags: ConsumerFlags, tool: str) -> Config:
    """The Config of a tool's consumers. Raises ConfigError when the options contradict each other.

    The tool's own --max-in-flight and user agent win over --consumer-opt. Unless an option says
    otherwise no message is ever given up: go-nsq's five attempts would lose it.
    """
    from penstock.nsq.client.config import Config

    pairs = (*flags.reader_options, *flags.consumer_options)
    config = _with_options(Config(max_attempts=0), pairs)
    return _checked(replace(config, max_in_flight=flags.max_in_flight), tool)


def producer_config(pairs: Iterable[ClientPair], tool: str) -> Config:
    """The Config of a tool's producers from its --producer-opt. Raises ConfigError."""
    from penstock.nsq.client.config import Config

    return _checked(_with_options(Config(), pairs), tool)


def _with_options(config: Config, pairs: Iterable[ClientPair]) -> Config:
    for name, text in pairs:
        config = config.with_option(name, text)
    return config


def _checked(config: Config, tool: str) -> Config:
    config = replace(config, user_agent=user_agent(tool))
    return config.validate()
