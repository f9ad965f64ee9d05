"""nsq_to_file from its command line to its exit code."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from penstock.core.logs import NsqFormatter, parse_level
from penstock.core.units import MINUTE, SECOND, format_duration
from penstock.nsq.tools.flags import consumer_config
from penstock.nsq.tools.lifecycle import Stop, run_tool
from penstock.nsq.tools.to_file.command_line import NAME, ToFileFlags, parse_options

if TYPE_CHECKING:
    from penstock.nsq.client import Config

NSQD_MSG_TIMEOUT: Final = MINUTE
"""The time that nsqd waits for FIN when neither it nor the consumer was told otherwise."""

logger = logging.getLogger("penstock.nsq.tools.to_file")


def run(argv: Sequence[str]) -> int:
    """Write topics to files until INT or TERM; HUP closes the files.

    The exit code is 1 when files cannot be written, and when there is no topic that could be.
    """
    flags = parse_options(argv)
    config = consumer_config(flags, NAME)
    _log_to_stderr(flags)
    _warn_of_timeouts(flags, config)
    return run_tool(lambda stop: _serve(flags, config, stop))


async def _serve(flags: ToFileFlags, config: Config, stop: Stop) -> int:
    from penstock.nsq.tools.to_file.discovery import Topics

    async with asyncio.TaskGroup() as group:
        topics = Topics(flags, config, stop, group)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, topics.close_file)
        if flags.topics:
            topics.start(flags.topics)
        else:
            await topics.discover()
    if stop.requested:
        return 0
    logger.critical("%s", _nothing_left(flags, topics.refused))
    return 1


def _nothing_left(flags: ToFileFlags, refused: bool) -> str:
    """Say why no topic is written, and what to look at."""
    if not refused:
        return "there is no topic to write: --topic-pattern fits none of --topic"
    source = "--nsqd-tcp-address" if flags.nsqd_tcp_addresses else "--lookupd-http-address"
    return f"no topic can be written, for the reason above: check --topic and {source}"


def _warn_of_timeouts(flags: ToFileFlags, config: Config) -> None:
    """Warn that messages not finished in time are delivered, and written, once more."""
    timeout = round(config.msg_timeout * SECOND) or NSQD_MSG_TIMEOUT
    if flags.sync_interval >= timeout:
        logger.warning(
            "messages may be written twice: --sync-interval (%s) is not below their time-out (%s)",
            format_duration(flags.sync_interval),
            format_duration(timeout),
        )


def _log_to_stderr(flags: ToFileFlags) -> None:
    """The tool's own lines look like a daemon's; the client's are go-nsq's, as in every tool."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(NsqFormatter(flags.log_prefix))
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(parse_level(flags.log_level))
