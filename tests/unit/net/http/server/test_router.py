from __future__ import annotations

import pytest

from penstock.net.http.server.message import Request, Response
from penstock.net.http.server.router import Router
from tests.http_heads import parse_head


@pytest.fixture
def router() -> Router:
    router = Router()
    for method, path in [
        ("GET", "/stats"),
        ("POST", "/topic/create"),
        ("GET", "/config/:opt"),
        ("PUT", "/config/:opt"),
        ("GET", "/debug/pprof/"),
    ]:
        router.add(method, path, lambda request: Response(200, request.param.encode()))
    return router


def answer(router: Router, method: str, path: str, query: bytes = b"") -> Response:
    route, param = router.resolve(method, path, query)
    head = parse_head(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    response = route.handler(Request(head, param, b"", str))
    assert isinstance(response, Response)
    return response


def test_routes(router: Router) -> None:
    assert answer(router, "GET", "/stats").status == 200
    assert answer(router, "PUT", "/config/x").body == b"x"


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/nope", 404, None),
        ("GET", "/", 404, None),
        ("GET", "/config/", 404, None),
        ("GET", "/config/a/b", 404, None),
        ("GET", "*", 404, None),
        ("POST", "/stats", 405, "GET, OPTIONS"),
        ("HEAD", "/stats", 405, "GET, OPTIONS"),
        ("GET", "/topic/create", 405, "OPTIONS, POST"),
        ("POST", "/config/x", 405, "GET, OPTIONS, PUT"),
        ("OPTIONS", "/config/x", 200, "GET, OPTIONS, PUT"),
        ("OPTIONS", "*", 200, None),
        ("OPTIONS", "/nope", 404, None),
        ("OPTIONS", "/stats/", 404, None),
        ("HEAD", "/stats/", 404, None),
        ("GET", "/topic/create/", 404, None),
    ],
)
def test_refusals(router: Router, method: str, path: str, status: int, allow: str | None) -> None:
    response = answer(router, method, path)
    assert response.status == status
    assert dict(response.headers).get("Allow") == allow


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("/stats/", "/stats"),
        ("/STATS", "/stats"),
        ("//stats", "/stats"),
        ("/./stats", "/stats"),
        ("/topic/../stats", "/stats"),
        ("/Config/MixedCase", "/config/MixedCase"),
        ("/config/x/", "/config/x"),
        ("/debug/pprof", "/debug/pprof/"),
        ("/DEBUG/pprof/", "/debug/pprof/"),
        ("/CONFIG/a\r\nSet-Cookie: b", "/config/a%0D%0ASet-Cookie:%20b"),
    ],
)
def test_redirects(router: Router, path: str, location: str) -> None:
    response = answer(router, "GET", path, b"a=b&c")
    assert response.status == 301
    assert dict(response.headers)["Location"] == location + "?a=b&c"
    link = f'<a href="{location}?a=b&amp;c">Moved Permanently</a>.\n\n'
    assert response.body == link.encode()


def test_redirect_of_a_post(router: Router) -> None:
    response = answer(router, "POST", "/topic/create/", b"topic=x")
    assert (response.status, response.body) == (307, b"")
    assert response.headers == (("Location", "/topic/create?topic=x"),)


def test_limits_and_quiet() -> None:
    router = Router()
    refusal = Response(413)
    router.add("POST", "/a", lambda r: Response(), max_body=5, too_large=refusal, quiet=True)
    route, _ = router.resolve("POST", "/a", b"")
    assert (route.max_body, route.too_large, route.quiet) == (5, refusal, True)
    assert router.resolve("GET", "/nope", b"")[0].quiet is False
    assert router.resolve("POST", "/a/", b"")[0].quiet is True


@pytest.mark.parametrize(
    ("path", "answered"),
    [
        ("/api/topics", b"all"),
        ("/api/topics/t", b"one t"),
        ("/api/topics/t/c", b"two t/c"),
        ("/API/Topics/t/C", 301),
        ("/api/topics/t/c/", 301),
        ("/api/topics//c", 301),
        ("/api/topics/t/c/x", 404),
        ("/t/c", 404),
        ("//", 404),
    ],
)
def test_paths_with_two_parameters(path: str, answered: bytes | int) -> None:
    router = Router()
    for route, word in (("", b"all"), ("/:topic", b"one "), ("/:topic/:channel", b"two ")):
        router.add(
            "GET",
            f"/api/topics{route}",
            lambda request, word=word: Response(200, word + request.param.encode()),
        )
    response = answer(router, "GET", path)
    assert answered in (response.status, response.body)
