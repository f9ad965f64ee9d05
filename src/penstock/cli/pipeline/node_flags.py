"""Flags that say where to read and how nodes are asked, for commands without a pipeline's file."""

from __future__ import annotations

from dataclasses import dataclass, fields

from cyclopts import Parameter

from penstock.cli.shared.connection_flags import ConnectionFlags, Texts
from penstock.core.errors import UsageError
from penstock.core.units import DURATION_FORM, SECOND, parse_duration


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineNodeFlags(ConnectionFlags):
    """Each is the option of ``format("nsq")`` with the same name.

    Parameters
    ----------
    lookupd_http_address
        nsqlookupd to ask for the nodes, host:port (may be given several times).
    nsqd_http_address
        nsqd to read from, host:port (may be given several times).
    timeout
        How long a node may be out of reach before the command ends with an error.
    """

    lookupd_http_address: Texts = ()
    nsqd_http_address: Texts = ()
    timeout: str = "10s"

    def options(self) -> dict[str, str]:
        """Options of ``format("nsq")``. Raises UsageError for an invalid time."""
        options = {"timeout": seconds("--timeout", self.timeout)}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "timeout" or value in (None, ()):
                continue
            text = ",".join(value) if isinstance(value, tuple) else str(value)
            options[field.name] = text.lower() if isinstance(value, bool) else text
        return options


def duration_ns(flag: str, text: str) -> int:
    """A duration of a flag. Raises UsageError, which names the flag."""
    try:
        return parse_duration(text)
    except ValueError:
        raise UsageError(f"{flag} {text}: give {DURATION_FORM}") from None


def seconds(flag: str, duration: str) -> str:
    """A duration as the source's options want it. Raises UsageError if it is invalid."""
    return str(max(1, round(duration_ns(flag, duration) / SECOND)))
