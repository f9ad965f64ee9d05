"""``--client-opt name,value``: options of the NSQ client, as the NSQ tools take them."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.core.errors import ConfigError
from penstock.nsq.client.config import Config

_SECRET = "auth_secret"


def client_config(pairs: Iterable[str], base: Config | None = None) -> Config:
    """``base`` with options set from texts: ``name,value``, or ``name`` for one that is to be true.

    Raises ConfigError, which names the text.
    """
    config = base or Config()
    for pair in pairs:
        name, comma, value = pair.partition(",")
        try:
            config = config.with_option(name, value if comma else True).validate()
        except ConfigError as error:
            raise ConfigError(f"--client-opt {without_secret(pair)}: {error}") from None
    return config


def without_secret(pair: str) -> str:
    """The text as it may be shown."""
    name = pair.partition(",")[0]
    return f"{name},..." if name.replace("-", "_") == _SECRET else pair
