"""The command line of nsq_to_http, checked in upstream's order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from penstock.core.quote import quote
from penstock.core.settings.option_kinds import DURATION, FLOAT
from penstock.core.settings.options import option
from penstock.core.units import SECOND
from penstock.net.http.fields import is_name
from penstock.nsq.client.hosts import MODES
from penstock.nsq.tools.errors import ToolError
from penstock.nsq.tools.flags import ConsumerFlags, check_names, check_sources, parse
from penstock.nsq.tools.forwarding import mode_option
from penstock.nsq.tools.to_http.hops import is_template

_HTTP: Final = re.compile(r"https?://.", re.IGNORECASE)
DEFAULT_CONTENT_TYPE: Final = "application/octet-stream"


class ToHttpFlags(ConsumerFlags):
    """The command line; ``headers`` is what --header comes to."""

    topic: str = option("", "nsq topic")
    channel: str = option("nsq_to_http", "nsq channel")
    publishers: int = option(100, "number of concurrent publishers", flag="n")
    mode: str = mode_option()
    sample: float = option(1.0, "% of messages to publish (float b/w 0 -> 1)", kind=FLOAT)
    connect_timeout: int = option(
        2 * SECOND,
        "timeout for HTTP connect",
        flag="http-client-connect-timeout",
        kind=DURATION,
    )
    request_timeout: int = option(
        20 * SECOND,
        "timeout for HTTP request",
        flag="http-client-request-timeout",
        kind=DURATION,
    )
    status_every: int = option(
        250, "the # of requests between logging status (per handler), 0 disables"
    )
    content_type: str = option(DEFAULT_CONTENT_TYPE, "the Content-Type used for POST requests")
    posts: tuple[str, ...] = option(
        (),
        "HTTP address to make a POST request to.  data will be in the body"
        " (may be given multiple times)",
        flag="post",
    )
    gets: tuple[str, ...] = option(
        (),
        "HTTP address to make a GET request to. '%s' will be printf replaced with data"
        " (may be given multiple times)",
        flag="get",
    )
    header_lines: tuple[str, ...] = option(
        (), "Custom header for HTTP requests (may be given multiple times)", flag="header"
    )

    headers: dict[str, str]

    @property
    def is_to_all(self) -> bool:
        """True if every message goes to every address: what upstream makes of an unknown mode."""
        return self.mode not in MODES


def parse_options(argv: Sequence[str]) -> ToHttpFlags:
    """The flags, once they have passed every check. Raises ToolError, or leaves like Go's flags."""
    flags = parse(ToHttpFlags, argv, "nsq_to_http")
    flags.headers = header_values(flags.header_lines)
    if not flags.topic or not flags.channel:
        raise ToolError("--topic and --channel are required")
    if flags.content_type != DEFAULT_CONTENT_TYPE:
        if not flags.posts:
            raise ToolError("--content-type only used with --post")
        if not flags.content_type:
            raise ToolError("--content-type requires a value when used")
    check_sources(flags)
    _check_endpoints(flags)
    if flags.sample > 1.0 or flags.sample < 0.0:
        raise ToolError("ERROR: --sample must be between 0.0 and 1.0")
    check_names([flags.topic], flags.channel)
    if flags.publishers < 1:
        raise ToolError("no handlers")
    _check_urls(flags)
    return flags


def header_values(lines: Iterable[str]) -> dict[str, str]:
    """``Name: value`` lines as a dictionary. Raises ToolError."""
    values = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name, value = name.strip(), value.strip()
        if not (colon and name and value):
            raise ToolError("--header value format should be 'key=value'")
        if not is_name(name) or not value.isprintable():
            raise ToolError(f"--header {quote(line)} cannot be sent")
        values[name] = value
    return values


def _check_endpoints(flags: ToHttpFlags) -> None:
    if not flags.gets and not flags.posts:
        raise ToolError("--get or --post required")
    if flags.gets and flags.posts:
        raise ToolError("use --get or --post not both")
    if not all(map(is_template, flags.gets)):
        raise ToolError("invalid GET address - must be a printf string")


def _check_urls(flags: ToHttpFlags) -> None:
    """Raise ToolError for what is not a URL: Go's starts with it, and fails with every message."""
    for flag, addresses in (("--post", flags.posts), ("--get", flags.gets)):
        for address in addresses:
            if not _HTTP.match(address):
                raise ToolError(f"{flag} {quote(address)}: give an http:// or https:// address")
