"""The files of ``deploy/pair``, and an API server with Leases for them."""

from __future__ import annotations

import importlib.util
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from tools.deploy.manifests import ROOT

PAIR: Final = ROOT / "deploy" / "pair"
LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/orders/leases"


def loaded(name: str) -> Any:
    """A script of the folder as a module, which reads its environment now."""
    spec = importlib.util.spec_from_file_location(name, PAIR / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class ApiServer:
    """Leases by name, as Kubernetes keeps them."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.leases: dict[str, dict[str, Any]] = {}
        self._version = 0

    def store(self, name: str, lease: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        metadata = {**lease["metadata"], "resourceVersion": str(self._version)}
        self.leases[name] = {**lease, "metadata": metadata}
        return self.leases[name]

    def answer(self, method: str, path: str, content: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if not path.startswith(LEASES):
            return 404, {}
        name = path.removeprefix(LEASES).removeprefix("/") or content["metadata"]["name"]
        held = self.leases.get(name)
        if method == "POST":
            return (409, {}) if held is not None else (201, self.store(name, content))
        if held is None:
            return 404, {}
        if method == "GET":
            return 200, held
        version = held["metadata"]["resourceVersion"]
        if content["metadata"].get("resourceVersion") != version:
            return 409, {"reason": "Conflict"}
        return 200, self.store(name, content)


@contextmanager
def api_server(token: str) -> Iterator[ApiServer]:
    """An API server that lets this token in."""

    class Handler(BaseHTTPRequestHandler):
        def do_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status: int = 401
            answer: dict[str, Any] = {}
            if self.headers["Authorization"] == f"Bearer {token}":
                status, answer = server.answer(self.command, self.path, json.loads(body or b"{}"))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        do_GET = do_POST = do_PUT = do_any

        def log_message(self, format: str, *args: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server = ApiServer(f"http://127.0.0.1:{http.server_port}")
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()
