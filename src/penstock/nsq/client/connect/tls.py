"""TLS as the options of a client ask for it; imported when it is needed."""

from __future__ import annotations

import ssl
from typing import Final

from penstock.core.errors import ConfigError
from penstock.net.address import split_host_port
from penstock.net.tls.tls_layer import TlsLayer, client_context
from penstock.nsq.client.config import Config
from penstock.nsq.client.errors import BadTlsOptions

_VERSIONS: Final = {"ssl3.0": 768, "tls1.0": 769, "tls1.1": 770, "tls1.2": 771, "tls1.3": 772}


def context_of(config: Config) -> ssl.SSLContext:
    """``tls_config``, or a context of the other ``tls_*``, its files read now.

    Raises BadTlsOptions, which names the file and what is wrong with it.
    """
    if config.tls_config is not None:
        return config.tls_config
    if config.tls_min_version not in _VERSIONS:
        raise BadTlsOptions(f"tls_min_version {config.tls_min_version!r} is not a version of TLS")
    if config.tls_key and not config.tls_cert:
        raise BadTlsOptions("tls_key is of no use without tls_cert")
    try:
        return client_context(
            config.tls_root_ca_file,
            cert_file=config.tls_cert,
            key_file=config.tls_key,
            verify=not config.tls_insecure_skip_verify,
            min_version=_VERSIONS[config.tls_min_version],
        )
    except ConfigError as error:
        raise BadTlsOptions(str(error)) from error


def layer_of(context: ssl.SSLContext, address: str, server_name: str = "") -> TlsLayer:
    """The client's side of a connection to this address, whose certificate must be for its host, or
    for ``server_name``.
    """
    host, _ = split_host_port(address)
    return TlsLayer(context, server_name=server_name or host or "localhost")
