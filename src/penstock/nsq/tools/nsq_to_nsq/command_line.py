"""The command line of nsq_to_nsq, checked in upstream's order."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.core.names import is_valid_name
from penstock.core.settings.options import option
from penstock.nsq.client.hosts import MODES
from penstock.nsq.tools.errors import ToolError
from penstock.nsq.tools.flags import (
    ClientPair,
    ConsumerFlags,
    check_sources,
    client_options,
    parse,
)
from penstock.nsq.tools.forwarding import mode_option


class ToNsqdFlags(ConsumerFlags):
    """The command line."""

    topics: tuple[str, ...] = option((), "nsq topic (may be given multiple times)", flag="topic")
    channel: str = option("nsq_to_nsq", "nsq channel")
    destination_topic: str = option(
        "", "use this destination topic for all consumed topics (default is consumed topic name)"
    )
    destinations: tuple[str, ...] = option(
        (),
        "destination nsqd TCP address (may be given multiple times)",
        flag="destination-nsqd-tcp-address",
    )
    status_every: int = option(
        250, "the # of requests between logging status (per destination), 0 disables"
    )
    mode: str = mode_option()
    required_field: str = option(
        "",
        "for JSON messages: only pass messages that contain this field",
        flag="require-json-field",
    )
    required_value: str = option(
        "",
        "for JSON messages: only pass messages in which the required field has this value",
        flag="require-json-value",
    )
    kept_fields: tuple[str, ...] = option(
        (),
        "for JSON messages: pass this field (may be given multiple times)",
        flag="whitelist-json-field",
    )
    consumer_options: tuple[ClientPair, ...] = client_options(
        "consumer-opt", "nsq.Consumer", see="see "
    )
    producer_options: tuple[ClientPair, ...] = client_options(
        "producer-opt", "nsq.Producer", see="see "
    )

    @property
    def is_mode_known(self) -> bool:
        """False for a mode that means round-robin, as upstream."""
        return self.mode in MODES


def parse_options(argv: Sequence[str]) -> ToNsqdFlags:
    """The flags, once they have passed every check. Raises ToolError, or leaves like Go's flags."""
    flags = parse(ToNsqdFlags, argv, "nsq_to_nsq")
    if not flags.topics or not flags.channel:
        raise ToolError("--topic and --channel are required")
    if not all(map(is_valid_name, flags.topics)):
        raise ToolError("--topic is invalid")
    if flags.destination_topic and not is_valid_name(flags.destination_topic):
        raise ToolError("--destination-topic is invalid")
    if not is_valid_name(flags.channel):
        raise ToolError("--channel is invalid")
    check_sources(flags)
    if not flags.destinations:
        raise ToolError("--destination-nsqd-tcp-address required")
    return flags
