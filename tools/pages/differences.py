"""Where Penstock's nsqd differs from Go's on purpose: each difference once, with what shows it.

This table is the source of "What differs from Go's nsqd" in docs/nsqd.md:
`make pages` writes it there, `test_differences.py` checks that it did.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import NamedTuple

TCP, HTTP, CLI = "tcp.jsonl", "http.jsonl", "nsqd-cli.jsonl"
PAGE = Path(__file__).parents[2] / "docs" / "nsqd.md"
HEADING = "## What differs from Go's nsqd\n"
WIDTH = 100


class Difference(NamedTuple):
    """One difference, as a user reads it.

    `cases` are the recorded exchanges in which it shows, as (file, name). `tests` show it as well:
    `file::function`, from the folder of tests.
    """

    text: str
    cases: tuple[tuple[str, str], ...] = ()
    tests: tuple[str, ...] = ()


DIFFERENCES = (
    Difference(
        "`--version` and the first line of the log end with Penstock's own version: `nsqd v1.3.0 "
        "(built w/python3.13.0) of Penstock 0.1.0`.",
        cases=((CLI, "version"), (CLI, "version-single-dash")),
    ),
    Difference(
        "Publishes survive `kill -9` by default (`--durability`); Go's nsqd loses what it has in "
        "memory.",
        tests=("crash/test_kill_loop.py::test_acknowledged_messages_survive_kills",),
    ),
    Difference(
        "Deferred messages keep their time across a restart; Go's nsqd delivers them at once.",
        tests=("programs/nsq/nsqd/test_daemon.py::test_deferrals_keep_their_deadlines",),
    ),
    Difference(
        "Timeouts and deferrals are at most about 10 ms late; Go's nsqd checks every 100 ms, and a "
        "new channel after up to 5 s. `--queue-scan-*` are accepted without "
        "effect.",
        tests=("conformance/test_nsqd_delivery.py::test_many_in_flight_all_time_out",),
    ),
    Difference(
        "`sample_rate` N delivers N percent, as the documentation says; Go's nsqd delivers N + 1.",
        cases=((TCP, "sample-rate-1"),),
    ),
    Difference(
        "A change over HTTP (create, empty, delete, pause, move, set) is on disk before it is "
        "answered 200, and answered 500 if it cannot be written; Go's nsqd writes `nsqd.dat` after "
        "the answer, except for pauses.",
        tests=(
            "programs/nsq/nsqd/http/test_write_down.py::test_what_was_answered_is_so_after_a_kill",
            "programs/nsq/nsqd/http/test_write_down.py::test_what_cannot_be_written_is_no_success",
        ),
    ),
    Difference(
        "HTTP names the reason for refusing a publish: 503 `DISK_FULL`, `DISK_FAILED` or "
        "`TOO_MANY_OPEN_FILES`, and `EXITING` only if the topic is being deleted or nsqd stops; "
        "Go's nsqd answers 503 `EXITING` to all of them.",
        tests=(
            "programs/nsq/nsqd/tcp/test_session_trouble.py::test_a_full_disk_refuses_serves_and_recovers",
            "programs/nsq/nsqd/tcp/test_session_trouble.py::test_a_failed_sync_ends_publishing_until_a_restart",
            "programs/nsq/nsqd/tcp/test_session_trouble.py::test_a_topic_that_cannot_be_made",
        ),
    ),
    Difference(
        "If the data path disappears, publishing continues: the log keeps its files open.",
        cases=((TCP, "disk-failure"),),
    ),
    Difference(
        "A damaged part of a file costs only the batches in it, which are set aside and counted; "
        "Go's nsqd abandons the rest of the file.",
        tests=("conformance/test_nsqd_node.py::test_a_damaged_data_file_harms_nothing_else",),
    ),
    Difference(
        "An error reaches a client that is still sending before the connection is closed; Go's "
        "nsqd resets the connection, and the error may be lost.",
        tests=(
            "conformance/test_nsqd_connections.py::"
            "test_an_error_arrives_although_the_client_goes_on_sending",
        ),
    ),
    Difference(
        "A connection that does not send its four bytes of magic is closed after 60 seconds, and "
        "does not delay an exit.",
        tests=(
            "programs/nsq/nsqd/tcp/test_session.py::"
            "test_without_a_magic_there_are_no_heartbeats_and_soon_an_end",
            "programs/cli/test_nsq_programs.py::test_idle_and_silent_connections_do_not_hold_it_up",
        ),
    ),
    Difference(
        "`--output-buffer-timeout=0` means no timer, and an interval of 0 for `--sync-timeout` or "
        "`--statsd-interval` is refused at the start; Go's nsqd panics at all three, sooner or "
        "later.",
        cases=((CLI, "statsd-interval-0"),),
        tests=(
            "conformance/test_nsqd_delivery.py::test_without_a_buffer_timeout_there_is_no_timer",
            "conformance/test_nsqd_cli.py::test_an_interval_of_zero_is_refused_at_the_start",
        ),
    ),
    Difference(
        "In a configuration file, 1 is true and 0 is false (Go's nsqd has it the other way round), "
        "and a percentile may be an integer (Go's nsqd panics).",
        cases=(
            (CLI, "config-bool-1-means-false"),
            (CLI, "config-bool-0-means-true"),
            (CLI, "config-percentiles-int"),
        ),
    ),
    Difference(
        "An unknown key in the configuration file gets a warning that names the nearest one; Go's "
        "nsqd starts silently.",
        tests=("unit/core/settings/test_options.py::test_unknown_keys_of_a_file_are_warned_of",),
    ),
    Difference(
        "A stray word, as in `--metrics true`, gets a warning that names the flags after it, which "
        "have no effect; Go's nsqd starts silently.",
        tests=("unit/core/settings/test_options.py::test_words_that_end_the_flags_are_warned_of",),
    ),
    Difference(
        "After the usage, the last line repeats what is wrong with a flag, with the nearest flag "
        "or the form of its value.",
        tests=(
            "unit/core/settings/test_options.py::test_a_wrong_flag_is_explained_on_the_last_line",
        ),
    ),
    Difference(
        "A syntax error in a configuration file is reported in the words of Python's TOML parser.",
        cases=((CLI, "config-toml-bad"),),
    ),
    Difference(
        "The error of a wrong value in a configuration file ends with the option's name there and "
        "the form of its value.",
        cases=(
            (CLI, "config-duration-bad"),
            (CLI, "config-duration-float"),
            (CLI, "config-int-bad"),
            (CLI, "config-int-float"),
        ),
    ),
    Difference(
        "`/stats` lists every topic of `pub_counts`; Go's nsqd shows one of them.",
        tests=("programs/nsq/nsqd/test_stats.py::test_counts",),
    ),
    Difference(
        "`nsqd.dat` has `[]` where there are no topics or channels; Go's nsqd writes `null`. Both "
        "read both.",
        tests=(
            "programs/node/test_metadata.py::test_a_fresh_start_writes_the_file",
            "programs/node/test_metadata.py::test_the_file_makes_topics_and_channels",
        ),
    ),
    Difference(
        "`/debug/setblockrate` and `/debug/freememory` answer 200, where the handlers of Go's nsqd "
        "fail; the pages under `/debug/pprof/` show what Python records.",
        cases=((HTTP, "debug-put/setblockrate?rate=1"), (HTTP, "debug-post/freememory")),
    ),
    Difference(
        "OpenSSL decides which TLS versions and suites there are: most builds have none below TLS "
        "1.2, whatever `--tls-min-version` says.",
        tests=("unit/net/tls/test_tls_layer.py::test_old_versions_can_be_allowed",),
    ),
    Difference(
        "Counters for statsd start at 0 with a topic that was deleted and recreated; Go's nsqd "
        "sends a negative number.",
        tests=(
            "unit/nsq/nsqd/test_stats.py::test_counters_are_told_as_differences",
            "unit/nsq/nsqd/test_stats.py::test_a_topic_that_was_gone_for_a_while_starts_anew",
        ),
    ),
    Difference(
        "AUTH: secrets stay out of the log and of redirects, and what an auth server may answer is "
        "bounded ([security](security.md) has the limits).",
        tests=(
            "programs/nsq/nsqd/tcp/test_auth.py::test_a_secret_that_is_too_long",
            "programs/nsq/nsqd/tcp/test_auth.py::test_redirects_are_followed",
            "programs/nsq/nsqd/tcp/test_auth.py::test_each_in_turn_from_a_random_one_on",
        ),
    ),
    Difference(
        "The memory that all clients hold together is limited (`--max-request-memory`, "
        "`--max-answer-memory`); `/stats` shows it beside Go's memory figures.",
        cases=(
            (HTTP, "stats-json-fresh"),
            (HTTP, "stats-client-other-value"),
            (HTTP, "tls-required-tcp-https-get/stats"),
        ),
        tests=(
            "hostile/test_memory.py::test_answers_that_nobody_reads",
            "hostile/test_memory.py::test_commands_that_are_not_complete",
        ),
    ),
    Difference(
        "Repeated errors of a client, such as wrong `FIN`s, are logged with at most 100 lines in "
        "10 s and the number of the rest; each error is still answered.",
        tests=("hostile/test_memory.py::test_wrong_fins_cost_answers_and_few_lines",),
    ),
    Difference(
        "`/info` ends with Penstock's own version, `penstock_version`, and says whether plain "
        "publishes run in compiled code, `penstock_lane` ([below](#compiled-code)).",
        cases=((HTTP, "info"),),
    ),
    Difference(
        "Pages of other sites can change nothing through a browser that shows them "
        "([security](security.md#pages-of-other-sites)).",
        tests=("unit/net/http/server/test_guard.py::test_pages_of_other_sites_change_nothing",),
    ),
    Difference(
        "`/config` and `/debug/pprof/cmdline` hide passwords in addresses.",
        tests=("hostile/test_secrets.py::test_nsqd_shows_no_password_of_its_auth_servers",),
    ),
    Difference(
        "HTTP requests with bare line feeds or unknown methods are answered 400.",
        tests=("unit/net/http/server/test_reader.py::test_refusals",),
    ),
)


def reason(file: str, name: str) -> str | None:
    """Why this recorded case does not hold; None where it must."""
    for difference in DIFFERENCES:
        if (file, name) in difference.cases:
            return difference.text
    return None


def section() -> str:
    """The section of the documentation, heading included, up to the next heading."""
    bullets = [
        textwrap.fill(
            f"- {difference.text}",
            WIDTH,
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for difference in DIFFERENCES
    ]
    return "\n".join([HEADING, *bullets, ""])


def split(page: str, heading: str = HEADING) -> tuple[str, str, str]:
    """The page before the section, the section, and what follows it."""
    start = page.index(heading)
    end = page.find("\n## ", start) + 1 or len(page)
    return page[:start], page[start:end], page[end:]


def main() -> None:
    """Write the section into the page."""
    before, _, after = split(PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(f"{before}{section()}{chr(10) if after else ''}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
