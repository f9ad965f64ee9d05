"""A lease in etcd: one key, changed by transactions that compare its revision.

etcd's API version 3 over JSON (etcd documentation, "gRPC gateway"). Reads are linearizable, so a
member that is cut off from the majority does not answer.
"""

from __future__ import annotations

import base64
import os
import ssl
from collections.abc import Mapping
from typing import Any

import msgspec

from penstock.cli.lease.record import LeaseError, Record, RefusedError, Version, ask
from penstock.core.malformed import MALFORMED


class Etcd:
    """The key ``name`` of a cluster; ``etcdctl``'s variables name the files for TLS."""

    def __init__(self, endpoints: list[str], name: str) -> None:
        """Raise LeaseError for files that cannot be used."""
        self.name = f"{name} in etcd"
        self._key = base64.b64encode(f"penstock/{name}".encode()).decode()
        self._endpoints = [each if "://" in each else f"http://{each}" for each in endpoints]
        self._tls = _tls() if any(each.startswith("https:") for each in self._endpoints) else None

    def read(self) -> Version:
        found = self._ask("range", {"key": self._key}).get("kvs") or []
        if not found:
            return Version(None, "0")
        try:
            record = msgspec.json.decode(base64.b64decode(found[0]["value"]), type=Record)
        except (*MALFORMED, KeyError, ValueError) as error:
            raise LeaseError(
                f"the lease {self.name} is damaged, so who holds it cannot be known ({error}): "
                "delete the key once no node is primary"
            ) from error
        return Version(record, str(found[0]["mod_revision"]))

    def write(self, seen: Version, record: Record) -> bool:
        value = base64.b64encode(msgspec.json.encode(record)).decode()
        answer = self._ask(
            "txn",
            {
                "compare": [
                    {
                        "key": self._key,
                        "target": "MOD",
                        "result": "EQUAL",
                        "mod_revision": seen.mark,
                    }
                ],
                "success": [{"request_put": {"key": self._key, "value": value}}],
            },
        )
        return bool(answer.get("succeeded"))

    def _ask(self, what: str, content: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of the first member that gives one. Raises LeaseError."""
        for place, endpoint in enumerate(self._endpoints):
            try:
                answer = ask(f"{endpoint}/v3/kv/{what}", "POST", content, {}, self._tls)
            except RefusedError as error:
                # Of a member without a leader; another one may have it.
                failed: LeaseError = error
            except LeaseError as error:
                failed = error
            else:
                # The next time this one first, as others cost their time each time.
                self._endpoints.insert(0, self._endpoints.pop(place))
                return answer
        raise failed


def _tls() -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=os.environ.get("ETCDCTL_CACERT"))
        if certificate := os.environ.get("ETCDCTL_CERT"):
            context.load_cert_chain(certificate, os.environ.get("ETCDCTL_KEY"))
    except OSError as error:
        raise LeaseError(
            f"a file of ETCDCTL_CACERT, ETCDCTL_CERT, ETCDCTL_KEY cannot be used: {error}"
        ) from error
    return context
