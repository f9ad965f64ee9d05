"""Servers that speak TLS only, with access rules; and what a client needs for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import trustme

from penstock.rocketmq.client import Config
from tools.harness.rocketmq.servers import QUICK, Servers, run_servers

RULES = """
accounts:
  - accessKey: producer1
    secretKey: secret-1
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - Allowed=PUB|SUB
"""


@contextmanager
def run_with_tls(folder: Path) -> Iterator[tuple[Servers, Config]]:
    """A name server and a broker that speak TLS only."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    issued = authority.issue_cert("127.0.0.1")
    issued.cert_chain_pems[0].write_to_path(str(folder / "cert.pem"))
    issued.private_key_pem.write_to_path(str(folder / "key.pem"))
    properties = {
        "tls.server.certPath": folder / "cert.pem", "tls.server.keyPath": folder / "key.pem",
    }  # fmt: skip
    with run_servers(**properties) as servers:
        trust = str(folder / "ca.pem")
        yield servers, replace(QUICK, tls_enable=True, tls_trust_cert_path=trust)


@contextmanager
def run_with_rules(folder: Path) -> Iterator[Servers]:
    """A broker that wants signatures."""
    (folder / "plain_acl.yml").write_text(RULES)
    with run_servers(aclEnable="true", nsqOpen="true", aclDirectory=folder) as servers:
        yield servers


@contextmanager
def page(text: str) -> Iterator[str]:
    """The URL of a page with this text."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path == "/nsaddr"
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(text)) if found else "0")
            self.end_headers()
            if found:
                self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/nsaddr"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
