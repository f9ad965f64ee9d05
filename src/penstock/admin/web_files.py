"""The files that the pages are made of: modules, style sheets, the icon."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from penstock.admin.compression import coding_of, compressed
from penstock.net.http.server.service import Request, Response
from penstock.nsq.http_api import plain_response

_KINDS: Final = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_FOR_EVER: Final = ("Cache-Control", "public, max-age=31536000, immutable")
NEVER_KEPT: Final = ("Cache-Control", "no-store")
NO_GUESSES: Final = ("X-Content-Type-Options", "nosniff")


class WebFiles:
    """The files of a folder, read once; with ``is_live`` whenever they are asked for.

    ``version`` is that of all their contents together. Raises OSError.
    """

    def __init__(self, folder: Path, *, is_live: bool) -> None:
        self._folder, self._is_live = folder, is_live
        found = sorted(path for path in folder.rglob("*") if path.suffix in _KINDS)
        bodies = {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}
        self.names = list(bodies)
        self.version = "dev" if is_live else _version(bodies)
        self._answers = {
            (name, b""): _answer(name, body, _FOR_EVER) for name, body in bodies.items()
        }

    def named(self, *suffixes: str) -> list[str]:
        """The names that end like this, sorted."""
        return [name for name in self.names if name.endswith(suffixes)]

    def answer(self, name: str, accepted: bytes = b"") -> Response:
        """The file of this name, one of ``names``; packed once for each coding that is accepted."""
        if not self._is_live:
            place = name, coding_of(accepted)
            if place not in self._answers:
                self._answers[place] = compressed(self._answers[name, b""], accepted)
            return self._answers[place]
        try:
            return _answer(name, (self._folder / name).read_bytes(), NEVER_KEPT)
        except OSError:
            return no_file()


def no_file(request: Request | None = None) -> Response:
    """The answer of nsqadmin for a file that is not there."""
    return plain_response("NOT_FOUND", 404)


def _answer(name: str, body: bytes, kept: tuple[str, str]) -> Response:
    return Response(200, body, _KINDS[Path(name).suffix], (kept, NO_GUESSES))


def _version(bodies: dict[str, bytes]) -> str:
    digest = hashlib.blake2b(digest_size=6)
    for name, body in bodies.items():
        digest.update(f"{name} {len(body)}\n".encode())
        digest.update(body)
    return digest.hexdigest()
