from __future__ import annotations

import pytest

from penstock.core.redaction import without_secrets, without_user


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://user:pass@h:1/x", "https://user:***@h:1/x"),
        ("https://:pass@h", "https://:***@h"),
        ("https://user:p@ss@h", "https://user:***@h"),
        ("https://user:p'a\"s=s@h/a@b", "https://user:***@h/a@b"),
        ("https://user:p/a?s#s@h/", "https://user:***@h/"),
        ("user:pass@h:4181", "user:***@h:4181"),
        ("--auth-http-address=user:pass@h:4181", "--auth-http-address=user:***@h:4181"),
        ("--graphite-url=http://user:pass@h", "--graphite-url=http://user:***@h"),
        ("GET http://u:p@h/x: refused", "GET http://u:***@h/x: refused"),
        ("['u:p@h', 'http://v:q@i']", "['u:***@h', 'http://v:***@i']"),
        ("http://h/auth?common_name=&secret=s3&tls=false", "http://h/auth?common_name=&secret=***&tls=false"),
        ("http://h/auth?Token=s3", "http://h/auth?Token=***"),
        ("auth_secret,s3 and more", "auth_secret,***"),
        ('value "auth-secret=s3 \\" more" for', 'value "auth-secret=***" for'),
    ],
)  # fmt: skip
def test_secrets_are_not_shown(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "h:1", "[::1]:4150", "http://h/a@b", "http://h:80/a@b", "http://h:80?a=@b",
        "http://user@h/x", "2026/01/31 12:30:45 INFO: a@b", "http://h/?secrets=1", "",
    ],
)  # fmt: skip
def test_all_else_is_as_it_was(text: str) -> None:
    assert without_secrets(text) == text


def test_without_its_user_a_url_leads_to_the_same_place() -> None:
    assert without_user("https://user:p@ss@h:1/x@y?z=@") == "https://h:1/x@y?z=@"
    assert without_user("https://h/x@y") == "https://h/x@y"
