"""Flags that say where to read and how nodes are asked, for commands without a pipeline's file."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from penstock.core.errors import PenstockError
from penstock.core.units import SECOND, parse_duration

Texts = Annotated[tuple[str, ...], Parameter(negative="", show_default=False)]
Maybe = Annotated[bool | None, Parameter(negative="", show_default=False)]


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Nodes:
    """Each is the option of ``format("nsq")`` with the same name.

    Parameters
    ----------
    lookupd_http_address
        nsqlookupd to ask for the nodes, host:port (may be given several times).
    nsqd_http_address
        nsqd to read from, host:port (may be given several times).
    timeout
        How long a node may be out of reach before the command ends with an error.
    tls_v1
        Read over HTTPS; an https:// address or another --tls flag implies it.
    tls_root_ca_file
        Who may sign the nodes' certificates (PEM), else the system's authorities.
    tls_cert
        Our certificate (PEM).
    tls_key
        Its key (PEM), where it is not in the same file.
    tls_server_name
        The name in the nodes' certificates, if it is not their host's.
    tls_insecure_skip_verify
        Accept any certificate.
    auth_secret
        Sent with every request as `Authorization: Bearer SECRET`; the environment keeps it out of
        the list of processes.
    """

    lookupd_http_address: Texts = ()
    nsqd_http_address: Texts = ()
    timeout: str = "10s"
    tls_v1: Maybe = None
    tls_root_ca_file: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_server_name: str | None = None
    tls_insecure_skip_verify: Maybe = None
    auth_secret: Annotated[str | None, Parameter(env_var="PENSTOCK_AUTH_SECRET")] = None

    def options(self) -> dict[str, str]:
        """Options of ``format("nsq")``. Raises PenstockError for an invalid time."""
        options = {"timeout": seconds("--timeout", self.timeout)}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "timeout" or value in (None, ()):
                continue
            text = ",".join(value) if isinstance(value, tuple) else str(value)
            options[field.name] = text.lower() if isinstance(value, bool) else text
        return options


def duration_ns(flag: str, text: str) -> int:
    """A duration of a flag. Raises PenstockError, which names the flag."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise PenstockError(f"{flag}: {error}") from None


def seconds(flag: str, duration: str) -> str:
    """A duration as the source's options want it. Raises PenstockError if it is invalid."""
    return str(max(1, round(duration_ns(flag, duration) / SECOND)))
