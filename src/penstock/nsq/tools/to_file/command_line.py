"""The options of nsq_to_file, and what is wrong with them (NSQ spec 6.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.core.logs import parse_level
from penstock.core.settings.option_kinds import DURATION, Int
from penstock.core.settings.options import option
from penstock.core.units import MINUTE, SECOND
from penstock.nsq.tools.errors import ToolError
from penstock.nsq.tools.flags import (
    ConsumerFlags,
    check_names,
    check_sources,
    leave_after_version,
    parse_unchecked,
)
from penstock.nsq.tools.to_file.file_system import same_directory
from penstock.nsq.tools.to_file.filename import REVISION
from penstock.nsq.tools.to_file.pattern import check_pattern
from penstock.nsq.tools.to_file.rotation import Rotation

NAME = "nsq_to_file"


class _RotateSize(Int):
    placeholder = "rotate-size"


class ToFileFlags(ConsumerFlags):
    """Sizes in bytes, durations in nanoseconds."""

    log_level: str = option("info", "set log verbosity: debug, info, warn, error, or fatal")
    log_prefix: str = option("[nsq_to_file] ", "log message prefix")

    topics: tuple[str, ...] = option((), "nsq topic (may be given multiple times)", flag="topic")
    topic_pattern: str = option("", "only log topics matching the following pattern")
    topic_refresh: int = option(
        MINUTE, "how frequently the topic list should be refreshed", kind=DURATION
    )
    channel: str = option("nsq_to_file", "nsq channel")

    output_dir: str = option("/tmp", "directory to write output files to")
    work_dir: str = option("", "directory for in-progress files before moving to output-dir")
    datetime_format: str = option(
        "%Y-%m-%d_%H", "strftime compatible format for <DATETIME> in filename format"
    )
    filename_format: str = option(
        "<TOPIC>.<HOST><REV>.<DATETIME>.log",
        "output filename format (<TOPIC>, <HOST>, <PID>, <DATETIME>, <REV> are replaced."
        " <REV> is increased when file already exists)",
    )
    host_identifier: str = option(
        "",
        "value to output in log filename in place of hostname."
        " <SHORT_HOST> and <HOSTNAME> are valid replacement tokens",
    )
    gzip: bool = option(default=False, help="gzip output files.")
    gzip_level: int = option(6, "gzip compression level (1-9, 1=BestSpeed, 9=BestCompression)")
    skip_empty_files: bool = option(default=False, help="skip writing empty files")
    rotate_size: int = option(
        0, "rotate the file when it grows bigger than rotate-size bytes", kind=_RotateSize()
    )
    rotate_interval: int = option(0, "rotate the file every duration", kind=DURATION)
    sync_interval: int = option(30 * SECOND, "sync file to disk every duration", kind=DURATION)

    http_client_connect_timeout: int = option(2 * SECOND, "timeout for HTTP connect", kind=DURATION)
    http_client_request_timeout: int = option(5 * SECOND, "timeout for HTTP request", kind=DURATION)

    @property
    def rotation(self) -> Rotation:
        """The rules by which a file ends, but for its name."""
        return Rotation(self.rotate_size, self.rotate_interval)

    @property
    def exclusive(self) -> bool:
        """True if a file that exists is never written to."""
        return self.gzip or self.rotate_interval > 0

    @property
    def moves(self) -> bool:
        """True if files move to another directory when they are finished."""
        return self.work_dir != self.output_dir

    @property
    def has_revisions(self) -> bool:
        """True if names must tell revisions apart."""
        return self.exclusive or self.rotate_size > 0 or self.moves

    @property
    def layout(self) -> str:
        """The format of names, without the revision where it is not needed."""
        return (
            self.filename_format
            if self.has_revisions
            else self.filename_format.replace(REVISION, "")
        )

    @property
    def suffix(self) -> str:
        """The ending of every name."""
        return ".gz" if self.gzip else ""


def parse_options(argv: Sequence[str]) -> ToFileFlags:
    """The options of a command line, checked; raises ToolError, and SystemExit as Go's flags do."""
    flags = parse_unchecked(ToFileFlags, argv)
    _check_before_version(flags)
    leave_after_version(flags, NAME)
    _check(flags)
    if not flags.work_dir or same_directory(flags.work_dir, flags.output_dir):
        flags = flags.replace(work_dir=flags.output_dir)
    _check_files(flags)
    return flags


def _check_before_version(flags: ToFileFlags) -> None:
    if flags.arguments:
        raise ToolError(f"unknown arguments: [{' '.join(flags.arguments)}]")
    try:
        parse_level(flags.log_level)
    except ValueError:
        raise ToolError("--log-level is invalid") from None


def _check(flags: ToFileFlags) -> None:
    """Check in the order of Go's program; what starts there and can never work comes last."""
    if not flags.channel:
        raise ToolError("--channel is required")
    _positive("http-client-connect-timeout", flags.http_client_connect_timeout)
    _positive("http-client-request-timeout", flags.http_client_request_timeout)
    check_sources(flags, full_stop=".")
    if not 1 <= flags.gzip_level <= 9:
        raise ToolError(f"invalid --gzip-level value ({flags.gzip_level}), should be 1-9")
    if not flags.topics and not flags.topic_pattern:
        raise ToolError("--topic or --topic-pattern required")
    if not flags.topics and not flags.lookupd_http_addresses:
        raise ToolError("--lookupd-http-address must be specified when no --topic specified")
    _positive("max-in-flight", flags.max_in_flight)
    _positive("sync-interval", flags.sync_interval)
    _positive("topic-refresh", flags.topic_refresh)
    check_names((), flags.channel)
    check_pattern(flags.topic_pattern)


def _check_files(flags: ToFileFlags) -> None:
    if flags.has_revisions and REVISION not in flags.filename_format:
        raise ToolError(
            "missing <REV> in --filename-format when gzip, rotation, or work dir enabled"
        )


def _positive(flag: str, value: Any) -> None:
    if value <= 0:
        raise ToolError(f"--{flag} should be positive")
