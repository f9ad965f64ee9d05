"""TLS as the options of a client ask for it; imported when it is needed."""

from __future__ import annotations

import ssl

from penstock.core.errors import ConfigError
from penstock.net.tls.tls_layer import client_context
from penstock.rocketmq.client.config import Config
from penstock.rocketmq.client.errors import BadTlsOptions


def context_of(config: Config) -> ssl.SSLContext | None:
    """``tls_config``, or a context of the other ``tls_*``, its files read now; None without TLS.

    Raises BadTlsOptions, which names the file and what is wrong with it.
    """
    if not config.tls_enable:
        return None
    if config.tls_config is not None:
        return config.tls_config
    if config.tls_key_path and not config.tls_cert_path:
        raise BadTlsOptions("tls_key_path is of no use without tls_cert_path")
    try:
        return client_context(
            config.tls_trust_cert_path,
            cert_file=config.tls_cert_path,
            key_file=config.tls_key_path,
            verify=config.tls_auth_server,
        )
    except ConfigError as error:
        raise BadTlsOptions(str(error)) from error
