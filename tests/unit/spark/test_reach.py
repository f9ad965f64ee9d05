"""Where nodes are and how they are asked."""

from __future__ import annotations

import pytest

from penstock.spark.errors import OptionError
from penstock.spark.options import parse
from penstock.spark.reach import Reach


def reach(**options: str) -> Reach:
    found = Reach(**parse(Reach, options, set()))
    found.require_reach()
    return found


@pytest.mark.parametrize(
    "option",
    [
        {"tls_v1": "true"},
        {"tls_root_ca_file": "ca.pem"},
        {"tls_server_name": "n"},
        {"tls_insecure_skip_verify": "true"},
        {"nsqd_http_address": "https://h:1"},
    ],
)
def test_what_implies_tls(option: dict[str, str]) -> None:
    given = {"nsqd_http_address": "h:1"}
    assert not reach(**given).access.tls
    assert reach(**{**given, **option}).access.tls


def test_the_secret_is_sent_and_not_shown() -> None:
    found = reach(nsqd_http_address="h:1", auth_secret="s3cret")
    assert "s3cret" not in repr(found) + repr(found.access)
    assert found.access.headers == {"Authorization": "Bearer s3cret"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "say where the nodes are"),
        ({"nsqd_http_address": "a:1", "lookupd_http_address": "b:1"}, "one of the two"),
        ({"nsqd_http_address": "a:1,nohost"}, "such as 127.0.0.1:4151, not 'nohost'"),
        ({"lookupd_http_address": "nohost/lookup"}, "such as 127.0.0.1:4161, not 'nohost/lookup'"),
        ({"nsqd_http_address": "a:1", "tls_key": "k"}, "no use without tls_cert"),
        ({"nsqd_http_address": "a:1", "tls_cert": "c", "tls_v1": "false"}, "leave it out"),
    ],
)
def test_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as refused:
        reach(**options)
    assert said in str(refused.value)
