"""Routes from paths and methods to handlers, with the redirects that Go's httprouter makes."""

from __future__ import annotations

import posixpath
from urllib.parse import quote

from penstock.net.http.server.guard import Guard
from penstock.net.http.server.known_heads import KnownHeads
from penstock.net.http.server.message import Response, text
from penstock.net.http.server.route import Begin, Handler, Plain, Route

DEFAULT_MAX_BODY = 1 << 20


class ErrorPages:
    """Answers of the server itself; a dialect overrides these to speak in its own way."""

    def not_found(self) -> Response:
        return text("404 page not found\n", 404)

    def method_not_allowed(self, allow: str) -> Response:
        response = text("Method Not Allowed\n", 405)
        response.headers = (("Allow", allow),)
        return response

    def internal_error(self) -> Response:
        return text("Internal Server Error\n", 500)

    def too_large(self) -> Response:
        return text("Request Entity Too Large\n", 413)

    def busy(self, why: str) -> Response:
        return text(f"Service Unavailable: {why}\n", 503)

    def forbidden(self, why: str) -> Response:
        return text(f"Forbidden: {why}\n", 403)


class Router:
    """The routes of one server."""

    def __init__(self, pages: ErrorPages | None = None, guard: Guard | None = None) -> None:
        self.pages = pages or ErrorPages()
        self.guard = guard or Guard()
        self.known = KnownHeads()
        self._exact: dict[str, dict[str, Route]] = {}
        self._prefixes: dict[str, dict[str, Route]] = {}
        self._pairs: dict[str, dict[str, Route]] = {}

    def add(
        self,
        method: str,
        path: str,
        handler: Handler,
        *,
        max_body: int | None = None,
        too_large: Response | None = None,
        quiet: bool = False,
        begin: Begin | None = None,
        is_safe: bool = True,
        plain: Plain | None = None,
    ) -> None:
        """Route ``path`` to ``handler``; a path ending in ``/:name`` hands on its last part as
        ``param``, one in ``/:name/:other`` its last two, with the slash between them.

        ``max_body`` is in bytes; ``too_large`` answers a longer body. ``is_safe`` is False for a
        GET that other sites' pages must not ask for.
        """
        route = Route(
            handler,
            DEFAULT_MAX_BODY if max_body is None else max_body,
            too_large or self.pages.too_large(),
            quiet=quiet,
            begin=begin,
            is_safe=is_safe,
            plain=plain,
        )
        prefix, colon, rest = path.partition(":")
        table = self._exact
        if colon:
            table = self._pairs if "/" in rest else self._prefixes
        table.setdefault(prefix, {})[method] = route
        self.known = KnownHeads()  # some may lead elsewhere now

    def resolve(self, method: str, path: str, query: bytes) -> tuple[Route, str]:
        """The route of a request and the path's parameter.

        A redirect, 404, 405 and the answer to OPTIONS are routes too, so that all ends alike.
        """
        methods, param = self._find(path)
        route = methods.get(method)
        if route is not None:
            return route, param
        if method == "OPTIONS":
            return self._options(path, methods), ""
        fixed = self._fixed_path(method, path)
        if fixed is not None:
            # Quiet: redirects are not in nsqd's access log (NSQ spec 2.1).
            return self._constant(_redirect(method, fixed, query), quiet=True), ""
        if methods:
            return self._constant(self.pages.method_not_allowed(_allow(methods))), ""
        return self._constant(self.pages.not_found()), ""

    def _find(self, path: str) -> tuple[dict[str, Route], str]:
        methods = self._exact.get(path)
        if methods is not None:
            return methods, ""
        slash = path.rfind("/") + 1
        methods = self._prefixes.get(path[:slash])
        # httprouter wants at least one character in a parameter's place.
        if methods is not None and len(path) > slash:
            return methods, path[slash:]
        return self._find_pair(path, slash) if self._pairs else ({}, "")

    def _find_pair(self, path: str, slash: int) -> tuple[dict[str, Route], str]:
        start = path.rfind("/", 0, max(slash - 1, 0)) + 1
        methods = self._pairs.get(path[:start])
        if methods is not None and start < slash - 1 and len(path) > slash:
            return methods, path[start:]
        return {}, ""

    def _options(self, path: str, methods: dict[str, Route]) -> Route:
        # The one answer to OPTIONS without Allow (NSQ spec 2.1).
        if path == "*":
            return self._constant(Response(), quiet=True)
        if not methods:
            return self._constant(self.pages.not_found())
        return self._constant(Response(headers=(("Allow", _allow(methods)),)), quiet=True)

    def _fixed_path(self, method: str, path: str) -> str | None:
        """The registered path that was probably meant: other case, a slash too many or too few."""
        clean = posixpath.normpath(path).replace("//", "/", 1) if path != "/" else path
        for candidate in (clean, clean + "/"):
            fixed = self._in_any_case(candidate)
            # Only if it has this method: httprouter answers `GET /pub/` with 404 (NSQ spec 2.1).
            if fixed is not None and fixed != path and method in self._find(fixed)[0]:
                return fixed
        return None

    def _in_any_case(self, path: str) -> str | None:
        folded = path.lower()
        for known in self._exact:
            if known.lower() == folded:
                return known
        slash = folded.rfind("/") + 1
        start = folded.rfind("/", 0, max(slash - 1, 0)) + 1
        for table, at in ((self._prefixes, slash), (self._pairs, start)):
            for prefix in table:
                if prefix.lower() == folded[:at] and len(path) > at:
                    return prefix + path[at:]
        return None

    def _constant(self, response: Response, *, quiet: bool = False) -> Route:
        return Route(
            lambda request: response, DEFAULT_MAX_BODY, self.pages.too_large(), quiet=quiet
        )


def _allow(methods: dict[str, Route]) -> str:
    # Without HEAD, which GET does not imply at httprouter (NSQ spec 2.1).
    return ", ".join(sorted({*methods, "OPTIONS"}))


def _redirect(method: str, path: str, query: bytes) -> Response:
    # The decoded path is quoted again: a line end in it would let the client add headers.
    location = quote(path, safe="/:@!$&'()*+,;=~", errors="surrogateescape")
    location += "?" + query.decode("latin-1") if query else ""
    headers = (("Location", location),)
    # As httprouter: 301 and a link for GET, else a bare 307, which keeps the method (NSQ spec 2.1).
    if method != "GET":
        return Response(307, headers=headers)
    from html import escape  # slow to import, and hardly any client is redirected

    body = f'<a href="{escape(location)}">Moved Permanently</a>.\n\n'.encode()
    return Response(301, body, headers=(*headers, ("Content-Type", "text/html; charset=utf-8")))
