"""Options of the sink http."""

from __future__ import annotations

import pytest

from penstock.spark.errors import OptionError
from penstock.spark.http.settings import Settings, require_url


def test_the_usual_and_headers() -> None:
    settings = Settings.parse({"url": "http://h/p", "header.Authorization": "Bearer x"})
    assert (settings.concurrency, settings.retries, settings.request_s) == (8, None, 20)
    assert settings.headers == {"Authorization": "Bearer x"}
    assert "Bearer" not in repr(settings)
    assert Settings.parse({"url": "http://h", "retries": "0"}).retries == 0


def test_urls() -> None:
    assert require_url("https://h/p?q=1") == ("https", "h", 443, "/p?q=1", "")
    assert require_url("http://exämple.org/")[1] == "exämple.org"
    assert require_url("http://[::1]:81") == ("http", "::1", 81, "/", "")
    assert require_url("http://u:p%40@h")[4] == "Basic dTpwQA=="


def test_the_header_of_the_content_type_is_the_option() -> None:
    settings = Settings.parse({"url": "http://h", "header.content-type": "text/plain"})
    assert (settings.content_type, settings.headers) == ("text/plain", {})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"url": "ftp://h"}, "url must be http:// or https:// and a host, not 'ftp://h'"),
        ({"url": "http://h:x"}, "url must be http:// or https:// and a host, not 'http://h:x'"),
        ({"url": "http://h/ä"}, "url must have other characters than ASCII as %XX: 'http://h/ä'"),
        ({"url": "http://h/a?q=b c"}, "url must have spaces and control characters as %XX: 'http"),
        ({"url": "http://h/a\x7f"}, "url must have spaces and control characters as %XX: 'http"),
        ({"url": "http://a b/"}, "url must be http:// or https:// and a host, not 'http://a b/'"),
        ({"url": "http://[::1/p"}, "url must be http:// or https:// and a host, not 'http://[::1"),
        ({"url": "http://[h]/"}, "url must be http:// or https:// and a host, not 'http://[h]/'"),
        ({"url": "http://a..b/"}, "url must be http:// or https:// and a host, not 'http://a..b/'"),
        ({"url": "http://h", "header.a b": "x"}, "header.a b is no name of a header"),
        ({"url": "http://h", "header.": "x"}, "header. is no name of a header"),
        ({"url": "http://h", "header.X": "a\nb"}, "the value of X has characters that no header"),
        ({"url": "http://h", "header.X": "\u20ac"}, "the value of X has characters that no header"),
        (
            {"url": "http://u:p@h/ä"},
            "url must have other characters than ASCII as %XX: 'http://u:***",
        ),
        ({"url": "http://h", "contentType": "a", "header.Content-Type": "b"}, "give one of them"),
        ({"url": "http://h", "contentType": "a\r"}, "the value of contentType has characters"),
        ({"uri": "http://h"}, "format http knows no option uri; did you mean url?"),
        ({"url": "http://h", "retries": "-1"}, "retries must be a whole number from 0 to "),
        ({"url": "http://h", "deadLetters": "a b"}, "deadLetters: 'a b' is no name of a topic"),
        (
            {"url": "http://h", "deadLetters": "t"},
            "deadLetters=t is a topic: say on which nodes, by nsqd_http_address or lookupd_http_",
        ),
    ],
)
def test_what_is_wrong(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as refused:
        Settings.parse(options)
    assert said in str(refused.value)
