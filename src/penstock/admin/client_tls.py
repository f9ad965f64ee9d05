"""TLS from nsqadmin to nodes: the four --http-client-tls options."""

from __future__ import annotations

import ssl

from penstock.admin.options import AdminOptions
from penstock.net.tls.tls_layer import check_readable, client_context


def client_tls(options: AdminOptions) -> ssl.SSLContext:
    """The TLS for nodes that want HTTPS. Raises ConfigError with nsqadmin's texts."""
    cert, key = options.http_client_tls_cert, options.http_client_tls_key
    ca = options.http_client_tls_root_ca_file
    for file in filter(None, (cert, key)):
        check_readable(file, f"failed to LoadX509KeyPair {cert}, {key}")
    if ca:
        check_readable(ca, f"failed to read TLS root CA file {ca}")
    return client_context(
        ca,
        cert_file=cert,
        key_file=key,
        verify=not options.http_client_tls_insecure_skip_verify,
    )
