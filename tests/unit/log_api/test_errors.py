"""Errors of a node's log in words."""

from __future__ import annotations

from penstock.log_api import errors


def test_errors_name_the_node_and_what_is_wrong() -> None:
    assert str(errors.LogError("n:1", 500, "INTERNAL_ERROR")) == "n:1: 500 INTERNAL_ERROR"
    assert str(errors.TlsNeeded("n:1", 4152)) == "n:1: 403 TLS_REQUIRED"
    assert str(errors.GroupInUse("n:1", "q", 2.6)) == "n:1: 409 GROUP_IN_USE by q, 3 s ago"
    assert str(errors.TopicNotFound("t", "n:1")) == "n:1 has no topic 't'"
    outside = errors.OffsetOutOfRange("t", "n:1", 9, 2, 7)
    assert str(outside) == "offset 9 of topic 't' on n:1 is outside 2..7"
    unreachable = errors.TlsFailed("n:1", "t", "no certificate")
    assert str(unreachable) == "n:1 cannot be reached for topic 't': no certificate"


def test_each_is_an_error_of_a_node() -> None:
    kinds = [each for each in vars(errors).values() if isinstance(each, type)]
    others = {each.__name__ for each in kinds if not issubclass(each, errors.NodeError)}
    assert others == {"PenstockError"}
