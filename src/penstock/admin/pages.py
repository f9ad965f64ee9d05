"""The pages: one HTML document for all of them, which says what this nsqadmin is (NSQ spec 5.6).

Its files stand under ``/static/<version>/``, where the version is that of their contents: a browser
keeps them for ever, and sees an upgrade at once.
"""

from __future__ import annotations

import hashlib
import html
from functools import partial
from pathlib import Path
from string import Template
from typing import Any, Final

import msgspec

from penstock import __version__
from penstock.admin import bundle
from penstock.admin.admin_options import AdminOptions
from penstock.admin.compression import coding_of, compressed
from penstock.admin.permissions import Access
from penstock.admin.router import AdminRouter
from penstock.admin.verdicts.limits import LIMITS
from penstock.core.errors import ConfigError
from penstock.core.redaction import without_user
from penstock.core.settings.version import NSQ_VERSION
from penstock.core.units import SECOND
from penstock.net.http.server.service import Request, Response
from penstock.net.http.server.v1_api import plain_response

PATHS: Final = (
    "/", "/topics", "/topics/:topic", "/topics/:topic/:channel", "/nodes", "/nodes/:node",
    "/counter", "/lookup", "/groups", "/deadletters", "/deadletters/:topic",
    "/pipelines", "/pipelines/:id",
    "/rocketmq", "/rocketmq/topics/:topic", "/rocketmq/groups/:group",
)  # fmt: skip
_FOLDER: Final = Path(__file__).parent / "web"
_INDEX: Final = "index.html"
_KINDS: Final = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_FOR_EVER: Final = ("Cache-Control", "public, max-age=31536000, immutable")
_NEVER_KEPT: Final = ("Cache-Control", "no-store")
_NO_GUESSES: Final = ("X-Content-Type-Options", "nosniff")


class Pages:
    """The document and its files. Raises ConfigError when --dev-static-dir has none."""

    def __init__(self, options: AdminOptions, access: Access) -> None:
        self._options, self._access = options, access
        self._is_live = bool(options.dev_static_dir)
        self._folder = Path(options.dev_static_dir) if self._is_live else _FOLDER
        try:
            self._files = WebFiles(self._folder, is_live=self._is_live)
            self._template = self._read_template()
        except OSError as error:
            text = f"--dev-static-dir: {error.filename}: {error.strerror}"
            raise ConfigError(text) from error
        self._base = self._static = ""

    def add_routes(self, router: AdminRouter) -> None:
        """Route every path that has a page, and every file."""
        self._base = "" if router.base_path == "/" else router.base_path
        static = f"/static/{self._files.version}"
        self._static = self._base + static
        for path in PATHS:
            router.add("GET", path, self._page)
        for name in self._files.names:
            router.add("GET", f"{static}/{name}", partial(self._file, name))
        for path in ("/static/:asset", "/fonts/:asset"):
            router.add("GET", path, _no_file)

    def _file(self, name: str, request: Request) -> Response:
        return self._files.answer(name, request.headers.get(b"accept-encoding", b""))

    def _page(self, request: Request) -> Response:
        template = self._read_template() if self._is_live else self._template
        body = template.substitute(
            static=html.escape(self._static),
            api=html.escape(self._base + "/api/topics"),
            head=self._files_of_head(),
            settings=_in_html(self._settings(request)),
        )
        headers = (
            ("Content-Security-Policy", _policy(self._options)),
            _NEVER_KEPT,
            _NO_GUESSES,
            ("Referrer-Policy", "same-origin"),
        )
        return Response(200, body.encode(), "text/html", headers)

    def _files_of_head(self) -> str:
        """Style and script: one file each, or live each file by itself."""
        styles = self._files.named(".css") if self._is_live else [bundle.STYLE]
        script = bundle.MAIN if self._is_live else bundle.SCRIPT
        links = [f'<link rel="stylesheet" href="{self._url(name)}">' for name in styles]
        # The first picture has the theme that was chosen, so it waits for the script.
        main = f'<script type="module" blocking="render" src="{self._url(script)}"></script>'
        return "\n".join([*links, main])

    def _url(self, name: str) -> str:
        return html.escape(f"{self._static}/{name}")

    def _settings(self, request: Request) -> dict[str, Any]:
        """The settings that web/js/core/settings.js describes."""
        options = self._options
        return {
            "basePath": self._base,
            "version": NSQ_VERSION,
            "penstockVersion": __version__,
            # By the header of this request (NSQ spec 5.6), so no cache may keep the page.
            "isAdmin": self._access.is_admin(request),
            "lookupds": options.lookupd_http_addresses,
            "hasNodes": options.has_nodes,
            "hasRocketmq": bool(options.rocketmq_namesrv_addresses),
            "historyInterval": options.watch_s,
            "ranges": ["1h", "24h", *(["7d", "30d"] if options.prometheus_url else [])],
            "limits": LIMITS._asdict(),
            "graphite": {
                "enabled": bool(options.graphite_url),
                "url": self._base if options.proxy_graphite else without_user(options.graphite_url),
                "prefix": options.statsd_prefix,
                "counterFormat": options.statsd_counter_format,
                "gaugeFormat": options.statsd_gauge_format,
                "interval": options.statsd_interval / SECOND,
            },
        }

    def _read_template(self) -> Template:
        return Template((self._folder / _INDEX).read_text("utf-8"))


def _in_html(value: Any) -> str:
    """JSON that neither ends a script element nor begins a comment."""
    return msgspec.json.encode(value).decode().replace("<", "\\u003c")


def _policy(options: AdminOptions) -> str:
    """The document's Content-Security-Policy: this server alone, and graphite's images."""
    images = "'self'"
    if options.graphite_url and not options.proxy_graphite:
        scheme, _, rest = without_user(options.graphite_url).partition("://")
        images += f" {scheme}://{rest.partition('/')[0]}"
    return (
        f"default-src 'none'; script-src 'self'; style-src 'self'; img-src {images}; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


class WebFiles:
    """The files of a folder, read once; with ``is_live`` whenever they are asked for.

    ``version`` is that of all their contents together. Raises OSError.
    """

    def __init__(self, folder: Path, *, is_live: bool) -> None:
        self._folder, self._is_live = folder, is_live
        found = sorted(path for path in folder.rglob("*") if path.suffix in _KINDS)
        bodies = {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}
        if not is_live and bundle.MAIN in bodies:
            bodies |= {
                bundle.SCRIPT: bundle.script(_texts(bodies, ".js")).encode(),
                bundle.STYLE: bundle.style(_texts(bodies, ".css")).encode(),
            }
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
            return _answer(name, (self._folder / name).read_bytes(), _NEVER_KEPT)
        except OSError:
            return _no_file()


def _texts(bodies: dict[str, bytes], suffix: str) -> dict[str, str]:
    return {name: body.decode() for name, body in bodies.items() if name.endswith(suffix)}


def _no_file(request: Request | None = None) -> Response:
    """The answer of nsqadmin for a file that is not there."""
    # Plain text, where all other 404s are JSON (NSQ spec 5.2).
    return plain_response("NOT_FOUND", 404)


def _answer(name: str, body: bytes, kept: tuple[str, str]) -> Response:
    return Response(200, body, _KINDS[Path(name).suffix], (kept, _NO_GUESSES))


def _version(bodies: dict[str, bytes]) -> str:
    digest = hashlib.blake2b(digest_size=6)
    for name, body in bodies.items():
        digest.update(f"{name} {len(body)}\n".encode())
        digest.update(body)
    return digest.hexdigest()
