"""The options that say where nodes are and how they are asked, which each format has.

Files are read on the machine that asks: the driver's and each executor's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.net.address import split_host_port
from penstock.spark.access import Access
from penstock.spark.errors import OptionError
from penstock.spark.option_declarations import boolean, option, port, seconds, text, texts

_FILE = "On every machine of the cluster"
_NAMES: Final = re.compile(
    r"(?i)(lookupd|nsqd)_http_address|nsqd_https_port|tls_\w+|auth_secret|timeout"
)


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """Patience and TLS; times are seconds."""

    timeout_s: float = option(
        "timeout", seconds, 10.0, "Seconds to wait for a node that does not answer."
    )
    tls_v1: bool | None = option(
        "tls_v1",
        boolean,
        None,
        "`true`: speak HTTPS. An `https://` address or another `tls_` option implies it.",
        shown="false",
    )
    tls_root_ca_file: str = option(
        "tls_root_ca_file",
        text,
        "",
        f"Who may sign the nodes' certificates (PEM), else the system's authorities. {_FILE}.",
    )
    tls_cert: str = option("tls_cert", text, "", f"Our certificate (PEM). {_FILE}.")
    tls_key: str = option(
        "tls_key", text, "", f"Its key (PEM), where it is not in the same file. {_FILE}."
    )
    tls_server_name: str = option(
        "tls_server_name",
        text,
        "",
        "The name in the nodes' certificates, if it is not their host's.",
    )
    tls_insecure_skip_verify: bool = option(
        "tls_insecure_skip_verify", boolean, False, "Accept any certificate."
    )

    def require_tls(self) -> None:
        """Raise OptionError for options of TLS that do not go together."""
        if self.tls_v1 is False and self.implies_tls:
            raise OptionError("tls_v1 is false, but other options ask for TLS: leave it out")
        if self.tls_key and not self.tls_cert:
            raise OptionError("tls_key is of no use without tls_cert")

    @property
    def implies_tls(self) -> bool:
        """True if another option than tls_v1 asks for TLS."""
        files = self.tls_root_ca_file or self.tls_cert or self.tls_key
        return bool(files or self.tls_server_name or self.tls_insecure_skip_verify)


@dataclass(frozen=True)
class ClusterOptions(ConnectionOptions):
    """Addresses are ``host:port`` of HTTP."""

    lookupd: tuple[str, ...] = option(
        "lookupd_http_address",
        texts,
        (),
        "nsqlookupd to ask for the nodes: `host:port` or a URL, several separated by commas. Either"
        " this or the next.",
    )
    nodes: tuple[str, ...] = option(
        "nsqd_http_address",
        texts,
        (),
        "The nodes: `host:port`, or `https://host:port`, several separated by commas.",
    )
    https_port: int = option(
        "nsqd_https_port",
        port,
        4152,
        "HTTPS port of nodes that do not report theirs; those with `--tls-required` do.",
    )
    auth_secret: str = option(
        "auth_secret",
        text,
        "",
        "Sent with every request to nodes and nsqlookupd as `Authorization: Bearer <secret>`.",
        secret=True,
    )

    @property
    def access(self) -> Access:
        """The part of it that says how nodes are asked."""
        return Access(
            timeout_s=self.timeout_s,
            tls=bool(self.tls_v1 or self.implies_tls),
            root_ca_file=self.tls_root_ca_file,
            cert=self.tls_cert,
            key=self.tls_key,
            server_name=self.tls_server_name,
            verify=not self.tls_insecure_skip_verify,
            https_port=self.https_port,
            auth_secret=self.auth_secret,
        )

    def require_nodes(self) -> None:
        """Raise OptionError unless it is clear where the nodes are and how to ask them."""
        self._require_where()
        self.require_tls()

    @property
    def implies_tls(self) -> bool:
        https = any(address.startswith("https://") for address in self.nodes)
        return https or super().implies_tls

    def _require_where(self) -> None:
        if bool(self.lookupd) == bool(self.nodes):
            raise OptionError(
                "say where the nodes are: lookupd_http_address or nsqd_http_address, one of the "
                "two (host:port, several separated by commas)"
            )
        for address in self.nodes:
            plain = address.removeprefix("https://")
            require_port("nsqd_http_address", address, plain, 4151)
        for address in self.lookupd:
            # nsqlookupd may also be given as a URL with a path.
            if "://" not in address:
                require_port("lookupd_http_address", address, address.partition("/")[0], 4161)


def require_port(name: str, given: str, address: str, usual: int) -> None:
    """Raise OptionError for an address without a port; ``usual`` is one for the example."""
    try:
        split_host_port(address)
    except ValueError:
        raise OptionError(
            f"{name} must be host:port, such as 127.0.0.1:{usual}, not {given!r}"
        ) from None


def cluster_options_of(options: Mapping[str, str]) -> dict[str, str]:
    """The options that say where nodes are and how they are asked."""
    return {key: value for key, value in options.items() if _NAMES.fullmatch(key)}
