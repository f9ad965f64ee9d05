"""Flags that say how nodes are asked over HTTP: TLS and AUTH, the same for every command."""

# Annotations are objects here: cyclopts reads them from classes elsewhere that inherit them.
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from penstock.cluster.access import Access
from penstock.core.errors import UsageError
from penstock.core.redaction import without_secrets

if TYPE_CHECKING:
    from penstock.cli.shared.node_selection import NodeSelection

Texts = Annotated[tuple[str, ...], Parameter(negative="", show_default=False)]
"""A flag that may be given several times; without it nothing, which needs no mention."""
Maybe = Annotated[bool | None, Parameter(negative="", show_default=False)]


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionFlags:
    """Each is the option of Spark's ``format("nsq")`` with the same name.

    Parameters
    ----------
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

    tls_v1: Maybe = None
    tls_root_ca_file: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_server_name: str | None = None
    tls_insecure_skip_verify: Maybe = None
    auth_secret: Annotated[str | None, Parameter(env_var="PENSTOCK_AUTH_SECRET")] = None

    def access(self, nodes: Iterable[str] = ()) -> Access:
        """The way to ask these nodes and others. Raises UsageError."""
        if self.tls_key and not self.tls_cert:
            raise UsageError("--tls-key is of no use without --tls-cert")
        files = (self.tls_root_ca_file, self.tls_cert, self.tls_key)
        others = any(files) or self.tls_server_name or self.tls_insecure_skip_verify
        is_https = any(node.startswith("https://") for node in nodes)
        root_ca_file, cert, key = (str(file or "") for file in files)
        return Access(
            tls=bool(self.tls_v1 or others or is_https),
            root_ca_file=root_ca_file,
            cert=cert,
            key=key,
            server_name=self.tls_server_name or "",
            verify=not self.tls_insecure_skip_verify,
            auth_secret=self.auth_secret or "",
        )


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFlags:
    """The nodes of a command.

    Parameters
    ----------
    nsqd_http_address
        nsqd to ask, host:port (may be given several times); 127.0.0.1:4151 without any address.
    lookupd_http_address
        nsqlookupd to ask for the nodes, host:port (may be given several times).
    """

    nsqd_http_address: Texts = ()
    lookupd_http_address: Texts = ()

    def where(self, asking: ConnectionFlags | None) -> "NodeSelection":
        """The addresses with the way to ask. Raises UsageError."""
        from penstock.cli.shared.node_selection import NodeSelection

        nsqds = self.nsqd_http_address
        for flag, addresses in (
            ("--nsqd-http-address", nsqds),
            ("--lookupd-http-address", self.lookupd_http_address),
        ):
            for each in addresses:
                check_address(flag, each)
        return NodeSelection(
            nsqds, self.lookupd_http_address, (asking or ConnectionFlags()).access(nsqds)
        )


def check_address(flag: str, address: str) -> None:
    """Raise UsageError, which names the flag, for what is not an address of HTTP."""
    from penstock.cluster.exchange import Endpoint

    try:
        scheme, is_url, _ = address.partition("://")
        if is_url and scheme not in ("http", "https"):
            raise ValueError(f"unknown scheme {scheme}")
        Endpoint.of(address).host_and_port()
    except ValueError as error:
        raise UsageError(f"{flag} {without_secrets(address)}: {error}; give host:port") from None


_FILES: Final = (
    ("--tls-root-ca-file", "root_ca_file"),
    ("--tls-cert", "cert"),
    ("--tls-key", "key"),
    ("--tls-server-name", "server_name"),
)


def flags_of(access: Access) -> list[str]:
    """The flags of a command that asks so; the secret is left to whoever types it."""
    given = {flag: getattr(access, name) for flag, name in _FILES}
    words = [word for flag, value in given.items() if value for word in (flag, value)]
    if not access.verify:
        words.append("--tls-insecure-skip-verify")
    if access.tls and not words:
        words.append("--tls-v1")
    return words + ["--auth-secret", "..."] * bool(access.auth_secret)
