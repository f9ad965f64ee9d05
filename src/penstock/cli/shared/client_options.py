"""``--client-opt name,value``: options of the NSQ client, as the NSQ tools take them."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.cluster.access import Access
from penstock.core.errors import ConfigError, UsageError
from penstock.nsq.client.config import Config

_SECRET = "auth_secret"


def client_config(pairs: Iterable[str], base: Config | None = None) -> Config:
    """``base`` with options set from texts: ``name,value``, or ``name`` for one that is to be true.

    Raises UsageError, which names the text.
    """
    config = base or Config()
    for pair in pairs:
        name, comma, value = pair.partition(",")
        try:
            config = config.with_option(name, value if comma else True).validate()
        except ConfigError as error:
            raise UsageError(f"--client-opt {without_secret(pair)}: {error}") from None
    return config


def config_of(access: Access) -> Config:
    """The options of a client that asks a node as its HTTP API is asked."""
    return Config(
        tls_v1=access.tls,
        tls_root_ca_file=access.root_ca_file,
        tls_cert=access.cert,
        tls_key=access.key,
        tls_server_name=access.server_name,
        tls_insecure_skip_verify=not access.verify,
        auth_secret=access.auth_secret,
    )


def without_secret(pair: str) -> str:
    """The text as it may be shown."""
    name = pair.partition(",")[0]
    return f"{name},..." if name.replace("-", "_") == _SECRET else pair
