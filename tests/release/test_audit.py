"""No answer about vulnerabilities is told apart from a good one."""

from __future__ import annotations

import json

from tools.release.audit import NO_ANSWER, verdict

GOOD = {"name": "rich", "version": "15.0.0", "vulns": []}
BAD = {
    "name": "jinja", "version": "2.0",
    "vulns": [{"id": "CVE-1", "fix_versions": ["2.1"]}, {"id": "CVE-2", "fix_versions": []}],
}  # fmt: skip
SKIPPED = {"name": "own", "skip_reason": "not found on PyPI"}


def said(*packages: object) -> str:
    return json.dumps({"dependencies": packages, "fixes": []})


def test_nothing_found() -> None:
    assert verdict(said(GOOD), "") == (0, "0 vulnerable packages of 1")


def test_vulnerabilities_are_named_with_what_mends_them() -> None:
    code, text = verdict(said(GOOD, BAD, SKIPPED), "Found 2 known vulnerabilities")
    assert code == 1
    assert text.splitlines()[:3] == [
        "jinja 2.0: CVE-1, mended in 2.1", "jinja 2.0: CVE-2, mended in no version yet",
        "1 vulnerable package of 3",
    ]  # fmt: skip


def test_an_answer_on_some_is_no_good_answer() -> None:
    code, text = verdict(said(GOOD, SKIPPED), "")
    assert code == NO_ANSWER
    assert text.endswith("of 1 package nothing is known: not found on PyPI")


def test_no_answer_is_no_good_answer() -> None:
    code, text = verdict("", "WARNING:x\nERROR:pip_audit:connection refused\n")
    assert code == NO_ANSWER
    assert text.endswith("so nothing is known: ERROR:pip_audit:connection refused")
