"""What a client of NSQ owes, and what shows that ours does it.

The duties of NSQ's client guide, in its order, and those of NSQ spec 7 and 8.5 to 8.7.
`make pages` writes docs/spec/client-guide.md of them; `test_client_duties.py` checks that it did,
and that the tests exist. References as in `references.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from .references import tests_of

PAGE = Path(__file__).parents[2] / "docs" / "spec" / "client-guide.md"


class Duty(NamedTuple):
    """One row: what is asked, the tests that show it, and what is done otherwise, and why."""

    asks: str
    tests: tuple[str, ...]
    note: str = ""


def _tests(file: str, *functions: str) -> tuple[str, ...]:
    return tuple(f"{file}::test_{function}" for function in functions)


def _of_source(file: str, *functions: str) -> tuple[str, ...]:
    return tests_of(file, *(f"test_{function}" for function in functions))


def _guide(*functions: str) -> tuple[str, ...]:
    return _tests("conformance/test_client_guide.py", *functions)


def _publishing(*functions: str) -> tuple[str, ...]:
    return _tests("conformance/test_client_guide_publishing.py", *functions)


def _consumer(*functions: str) -> tuple[str, ...]:
    return _tests("conformance/test_nsq_consumer.py", *functions)


def _client(*functions: str) -> tuple[str, ...]:
    return _tests("conformance/test_nsq_client.py", *functions)


def _unit(file: str, *functions: str) -> tuple[str, ...]:
    return _of_source(f"nsq/client/test_{file}.py", *functions)


def _sequence(name: str) -> tuple[str, ...]:
    return _tests("programs/nsq/client/test_sequences.py", f"sequences[{name}]")


def _tools(file: str, *functions: str) -> tuple[str, ...]:
    return _of_source(f"nsq/tools/{file}.py", *functions)


# fmt: off
_PROTOCOL = (
    Duty("The connection begins with the four bytes of V2.",
         _guide("the_first_and_the_last_words")),
    Duty("IDENTIFY tells client_id, hostname, user_agent and all that is asked for.",
         _guide("what_a_node_knows_of_its_consumer") + _unit("config", "identify")),
    Duty("Names have 1 to 64 of `.a-zA-Z0-9_-`, perhaps with `#ephemeral`; others are not sent.",
         _unit("config", "valid_names", "invalid_names")
         + _unit("publishing", "topics_are_checked")),
    Duty("PUB, MPUB and DPUB are laid out as described; numbers are big endian.",
         _publishing("every_way_to_publish")
         + _tests("unit/nsq/protocol/test_frames.py", "commands_byte_for_byte")),
    Duty("Frames are a size, a type and data, however the stream is cut.",
         _tests("unit/nsq/protocol/test_frames.py", "golden_bytes",
               "any_cut_gives_the_same_frames")),
    Duty("A message has its time in nanoseconds, its attempts, its id and its body.",
         _unit("answers", "answers_once", "one_by_one_and_together")
         + _guide("answers_that_come_too_late_end_nothing")),
    Duty("A frame that cannot be ends the connection with a reason.",
         _unit("wire", "garbage_ends_a_connection_with_a_reason", "messages_that_are_too_long")
         + _tests("unit/nsq/protocol/test_frames.py", "what_is_no_frame")),
    Duty("Each error code can be told from the others.",
         _unit("config", "every_code_has_its_own", "a_code_we_do_not_know")),
    Duty("AUTH where the node asks for it, before SUB, PUB and MPUB.",
         _client("auth", "auth_refused")
         + _unit("connect", "a_consumer_with_auth_and_heartbeats")),
    Duty("Permissions that expire or are taken away: the refusal is told.",
         _client("auth_expired") + _publishing("what_is_not_allowed_and_then_is")),
    Duty("A refusal that passes: a node that has let us in before is tried again.",
         _guide("authorization_that_fails_for_a_while")
         + _unit("subscription", "no_way_to_go_on")),
    Duty("CLS before leaving; what is in flight may still be answered.",
         _guide("the_first_and_the_last_words") + _consumer("closing_gives_back_what_nobody_saw")
         + _unit("connection", "close_wait_is_seen")),
)

_CONFIGURATION = (
    Duty("It works with its defaults, and each can be changed.",
         _unit("config", "defaults_are_valid_and_explained", "options_by_name")),
    Duty("Nodes given directly, one or more.",
         _consumer("backoff_as_the_nodes_see_it")
         + _unit("config", "what_is_no_name_and_no_address")),
    Duty("Nodes that one or more nsqlookupds name.",
         _guide("what_all_nsqlookupds_know_together") + _unit("consumer", "nodes_by_lookup")),
    Duty("The interval between polls is an option, and chance keeps consumers apart.",
         _unit("subscription", "at_once_then_by_chance_then_every_interval",
               "consumers_started_together_spread")),
    Duty("`max_in_flight` is an option.",
         _guide("ready_is_said_once_and_messages_go_on")),
    Duty("The attempts of a message are bounded, and the bound is an option.",
         _consumer("giving_up") + _unit("answers", "spent_messages_are_put_aside")),
    Duty("How long a message waits after a failure, and how that changes, are options.",
         _guide("a_message_requeued_waits_as_long_as_told") + _unit("answers", "delays")),
    Duty("A handler is a function of one message.",
         _unit("aio_consumer", "so_many_at_once")
         + _unit("consumer", "handlers")),
)

_DISCOVERY = (
    Duty("All nsqlookupds are asked when the consumer starts.",
         _unit("subscription", "at_once_then_by_chance_then_every_interval", "discovery")),
    Duty("Their answers are united, by `broadcast_address:tcp_port`; each node is connected once.",
         _guide("what_all_nsqlookupds_know_together")
         + _unit("lookup", "nodes_of_all_lookupds_together")
         + _unit("subscription", "each_address_once")),
    Duty("Answers with and without a `data` around them are understood.",
         _unit("lookup", "answers")),
    Duty("One that is dead, or hangs, or answers nonsense, holds up nobody.",
         _guide("what_all_nsqlookupds_know_together")
         + _consumer("nodes_that_come_and_go_and_an_nsqlookupd_that_dies")
         + _unit("subscription", "one_that_hangs_holds_up_nobody")
         + _unit("aio_consumer", "nonsense_of_nsqlookupd")
         + _unit("consumer", "one_nsqlookupd_hangs_and_one_is_dead")),
    Duty("They are asked again and again, and nodes that are new are connected to.",
         _consumer("nodes_that_come_and_go_and_an_nsqlookupd_that_dies")
         + _unit("consumer", "a_lookup_that_fails_is_tried_again_soon")),
    Duty("When none of them answers, they are asked before long.",
         _unit("subscription", "when_nobody_answers_they_are_asked_before_long",
               "one_answer_is_enough")),
)

_CONNECTIONS = (
    Duty("One connection for each node; magic, IDENTIFY, SUB, RDY, in this order.",
         _guide("the_first_and_the_last_words") + _sequence("consumer_backoff"),
         "The first RDY is the whole share, as go-nsq's, not 1."),
    Duty("The answers to IDENTIFY and SUB are checked.",
         _unit("wire", "refusals_are_the_servers_errors", "what_is_no_node")
         + _unit("consumer", "a_refused_subscription")),
    Duty("A peer that is not an nsqd, its HTTP port for one, is reported as that.",
         _guide("the_http_port") + _client("the_http_port", "the_https_port")),
    Duty("A node given directly is tried for ever, after delays that double up to a bound.",
         _consumer("a_node_that_is_started_late")
         + _unit("subscription", "a_direct_node_is_tried_for_ever_and_ever_less_often",
               "the_first_delay_has_bounds", "jitter", "a_connection_starts_the_delays_anew")),
    Duty("A node that nsqlookupd named is connected to again only when it names it again.",
         _guide("a_topic_that_is_deleted_on_a_node_stays_deleted")
         + _unit("subscription", "a_found_node_whose_connection_ends_is_left_to_nsqlookupd",
               "a_found_node_that_is_gone_is_given_up"),
         "So that this does not take a poll interval, nsqlookupd is asked at once and then ever "
         "less often."),
    Duty("A node that is not named any more is kept while its connection lasts.",
         _unit("aio_consumer", "nodes_that_nsqlookupd_does_not_name_any_more_are_kept")),
)

_NEGOTIATION = (
    Duty("`feature_negotiation` is asked for; what the node answers counts.",
         _guide("what_a_node_knows_of_its_consumer")
         + _client("the_node_lowers_the_level", "a_node_without_compression")
         + _unit("connect", "all_fields", "what_is_missing_has_its_default")),
    Duty("A node that answers OK does not negotiate: no upgrades, RDY up to 2500.",
         _guide("a_node_that_does_not_negotiate")),
    Duty("What the node refuses is told.",
         _client("values_that_the_node_does_not_take", "two_compressions_cannot_be_had")),
    Duty("Output buffering: size and time can be asked for, and be turned off.",
         _guide("what_a_node_knows_of_its_consumer", "messages_come_however_a_node_gathers")),
    Duty("`sample_rate`: a part of the messages.", _client("a_sample_is_a_part")),
    Duty("`msg_timeout`: how long an answer may take.",
         _guide("answers_that_come_too_late_end_nothing", "what_a_node_knows_of_its_consumer")),
)

_DATA_FLOW = (
    Duty("Heartbeats are answered.",
         _guide("who_is_busy_for_long_keeps_the_connection")
         + _client("a_second_between_heartbeats")
         + _unit("wire", "heartbeats_are_answered_and_seen")
         + _unit("consumer", "heartbeats_and_errors")),
    Duty("Reading goes on while messages are handled, so a slow handler loses no connection.",
         _guide("who_is_busy_for_long_keeps_the_connection")
         + _unit("aio_consumer", "the_loop_gets_its_turn"),
         "The blocking consumer has no thread: it must be called within two heartbeats."),
    Duty("A node that is silent for two heartbeats is left.",
         _guide("a_node_that_hangs_is_left") + _unit("consumer", "a_silent_server_is_left")),
    Duty("A node that takes nothing is left; one that takes slowly is not.",
         _unit("connection", "a_server_that_takes_nothing_is_gone_for_asyncios",
               "a_server_that_takes_slowly_stays", "a_server_that_takes_nothing_is_gone")),
    Duty("An error ends the connection, and a new one is made.",
         _guide("a_mistake_ends_the_connection_and_no_more")
         + _unit("wire", "the_end_and_what_led_to_it")),
    Duty("E_FIN_FAILED, E_REQ_FAILED and E_TOUCH_FAILED end nothing.",
         _guide("answers_that_come_too_late_end_nothing")
         + _unit("consumer", "heartbeats_and_errors")),
)

_MESSAGES = (
    Duty("A handler that returns finishes its message; one that raises requeues it.",
         _guide("what_gos_own_test_does")
         + _unit("aio_consumer", "a_handler_that_raises", "a_handler_that_answers_itself")),
    Duty("Requeued without a delay, a message waits longer with each attempt.",
         _unit("answers", "delays", "requeue")),
    Duty("A message that was tried too often is finished; a callback is told, and the log.",
         _consumer("giving_up") + _unit("aio_consumer", "giving_up_fails")),
    Duty("TOUCH starts a message's time again, as often as it is called.", _consumer("touching")),
    Duty("The client never touches a message by itself.",
         _guide("who_is_busy_for_long_keeps_the_connection")),
    Duty("A message whose time is over comes again, with one attempt more.",
         _guide("answers_that_come_too_late_end_nothing")),
    Duty("Answers to what a lost connection brought do nothing and say so.",
         _unit("answers", "a_lost_connection", "after_the_end",
               "what_a_lost_connection_brought_is_dropped")),
    Duty("Closing gives back at once what nobody saw.",
         _consumer("closing_gives_back_what_nobody_saw")
         + _unit("consumer", "close_gives_back_what_nobody_saw")
         + _unit("subscription", "what_comes_late_goes_back")),
)

_READY = (
    Duty("`max_in_flight` is shared evenly among the connections.",
         _consumer("ready_is_never_more_than_max_in_flight")
         + _unit("flow", "all_is_given_and_evenly", "examples")),
    Duty("The sum of all RDYs is never above `max_in_flight`, not even for a moment.",
         _guide("ready_in_bytes") + _consumer("ready_is_never_more_than_max_in_flight")
         + _unit("flow", "the_bounds_hold_at_every_moment", "who_gets_less_is_told_first",
               "never_too_much_and_never_stuck")),
    Duty("No RDY is above the node's `max_rdy_count`.",
         _consumer("no_more_than_a_node_allows")
         + _unit("wire", "ready_is_capped_and_not_repeated")
         + _unit("connection", "a_conversation")),
    Duty("RDY is renewed when a quarter of it is left.",
         _guide("ready_is_said_once_and_messages_go_on"),
         "Not needed: since NSQ 0.3 nodes do not count RDY down."),
    Duty("With fewer messages than connections, RDY goes round.",
         _guide("ready_in_bytes")
         + _unit("flow", "more_connections_than_messages_take_turns", "the_idle_hand_on",
               "who_keeps_its_ready_and_for_how_long")),
    Duty("`is_starved` says when a node is about to send no more.",
         _guide("starved_by_one_node_of_two") + _unit("aio_consumer", "starved_a_little_early")),
    Duty("`max_in_flight` can be changed at any time; 0 pauses.",
         _consumer("ready_is_never_more_than_max_in_flight") + _sequence("pause")),
)

_BACKOFF = (
    Duty("A failure stops the flow: RDY 0 at all nodes.",
         _consumer("backoff_as_the_nodes_see_it") + _unit("flow", "a_failure_begins_a_period")),
    Duty("The longer it fails, the longer it stops, up to a bound; successes step back.",
         _unit("flow", "exponential", "full_jitter_is_anything_up_to_that",
               "a_whole_backoff_of_five_connections",
               "the_level_ends_where_the_period_would_be_too_long")),
    Duty("After it one message tests the waters: RDY 1 at one node.",
         _consumer("one_message_tests_the_waters")
         + _unit("flow", "who_tests_the_waters_is_a_matter_of_chance",
               "the_one_that_tests_the_waters_is_lost")),
    Duty("What fares how while the flow is stopped does not count.",
         _unit("flow",                "outcomes_of_what_was_under_way_do_not_count")),
    Duty("In the end all is as before.",
         _consumer("backoff_as_the_nodes_see_it")
         + _unit("flow", "a_whole_backoff_of_five_connections")),
    Duty("It can be turned off, and a single requeue may go without.",
         _guide("without_backoff_the_flow_goes_on")
         + _unit("flow", "without_backoff_or_where_the_first_period_would_be_too_long",
               "requeued_without_backoff_in_a_backoff")),
)

_LAYERS = (
    Duty("TLS, then deflate or snappy; each is confirmed before anything else is said.",
         _client("every_layer", "every_layer_on_plain_sockets")
         + _unit("wire", "upgrades_are_confirmed", "every_layer_however_the_stream_is_cut")
         + _unit("connect", "upgrades_come_in_order_and_before_auth")),
    Duty("Nothing that was read before an upgrade is lost or read twice.",
         _unit("wire", "a_handshake_byte_by_byte",
               "what_follows_the_last_answer_is_for_the_owner")
         + _unit("connect", "what_follows_is_not_looked_at")),
    Duty("Certificates are checked, and presented where a node wants one.",
         _client("whom_to_trust", "a_node_that_wants_certificates",
               "a_node_without_certificates", "a_node_that_wants_tls")),
    Duty("A few bytes that stand for very many do no harm.",
         _unit("wire", "many_bytes_out_of_few_come_piece_by_piece")),
    Duty("All of it together, with AUTH.", _client("producer_and_consumer_over_all_of_it")),
)

_PRODUCERS = (
    Duty("Connections are made when there is something to say, and again after a loss.",
         _publishing("every_way_to_publish")
         + _unit("producer", "nothing_is_lost_over_a_restart")),
    Duty("Answers belong to commands in their order.",
         _unit("connection", "answers_and_refusals")
         + _unit("producer", "a_topic_keeps_its_order")),
    Duty("An answer that nobody waits for ends the connection.",
         _unit("producer", "an_answer_nobody_waits_for", "strange_answers")),
    Duty("A loss fails all that is pending, or it is sent again: at most once, at least once.",
         _unit("producer", "a_loss_before_the_answer",
               "all_that_was_under_way_goes_to_another_node")),
    Duty("With several nodes, one that goes or hangs is stood in for.",
         _publishing("a_node_that_goes_while_messages_are_published")
         + _unit("producer", "another_node_stands_in", "a_node_that_cannot_store_is_passed_over")),
    Duty("After its end a producer says `stopped`.",
         _unit("producer", "asyncios_stopped", "blocking_stopped")),
    Duty("Ping connects and says NOP.",
         _publishing("every_way_to_publish")
         + _unit("producer", "ping_finds_a_node_that_is_there")),
    Duty("A deferred message does not come early.",
         _publishing("a_deferred_message_does_not_come_early")),
    Duty("What is pipelined is bounded, in messages and in bytes.",
         _unit("producer", "bytes_under_way_are_bounded", "who_waits_for_room_may_give_up")),
)

_OPTIONS = (
    Duty("go-nsq's option names, `-` or `_`; unknown ones and bad values in its words (7.1).",
         _unit("config", "options_by_name",
               "values_of_a_program_are_checked_by_validate")
         + _tests("unit/core/settings/test_client_options.py", "reading", "refused", "bounds"),
         "16 bits do not wrap: `max_attempts` 70000 is 70000. `topology_*` is not in NSQ 1.3."),
    Duty("Addresses of nsqlookupd: scheme, port, path and query (7.4).",
         _unit("subscription", "bad_urls") + _unit("lookup", "url")),
    Duty("The secret goes to nsqlookupd as a bearer, unless told otherwise (7.4).",
         _unit("consumer", "one_nsqlookupd_hangs_and_one_is_dead")),
    Duty("RDY goes out before the FIN or REQ that it follows from (7.4).",
         _unit("answers", "outcomes_are_told_before_the_answer")),
    Duty("The log names a node that allows less than `max_in_flight` (7.4).",
         _unit("subscription", "a_node_that_allows_little_is_told")),
    Duty("Handlers may run side by side, and be cancelled (7.4, 7.5).",
         _unit("aio_consumer", "so_many_at_once", "cancelling", "close_lets_handlers_finish")),
    Duty("Where to connect from, and how long to wait for a connection and for answers (7.1).",
         _unit("connection", "the_address_it_comes_from", "no_answer_to_identify", "patience")
         + _unit("producer", "no_answer_to_asyncios")),
    Duty("Closing does not take for ever (7.4).",
         _unit("aio_consumer", "close_does_not_wait_for_ever")
         + _unit("consumer", "close_does_not_wait_for_a_node_that_hangs")),
    Duty("An empty message is refused before it is sent (7.5: pynsq sends a broken command).",
         _unit("publishing", "bodies_are_checked")),
    Duty("Commands of one pass are one write, in every layer (7.5: pynsq flushes each).",
         _unit("wire", "commands_of_one_pass_are_one_write_in_every_layer")
         + _unit("connection", "what_is_said_in_one_pass_is_one_write")),
    Duty("What other clients rely on (7.6): they run against our nodes.",
         ("interop/test_clients.py::test_flow[pynsq]", "interop/test_clients.py::test_flow[gnsq]",
          "interop/test_clients.py::test_flow[ansq]", "interop/test_nsqjs.py::test_flow[nsqjs]")),
)

_ORIGINAL_TESTS = (
    Duty("Tools, ParseCustomHeaders.",
         _tools("test_to_http", "headers", "what_is_no_header")),
    Duty("Tools, TypeOfAddr, HostNameAddresses, IPv4Addresses, IPv6Addresses.",
         _tools("test_flags", "what_is_refused", "what_is_right")
         + _tests("unit/net/test_address.py", "split", "split_refuses", "join")),
    Duty("go-nsq, ConfigSet and ConfigValidate.",
         _unit("config", "options_by_name",
               "values_of_a_program_are_checked_by_validate")),
    Duty("go-nsq, ExponentialBackoff and FullJitterBackoff.",
         _unit("flow", "exponential", "full_jitter_is_anything_up_to_that")),
    Duty("go-nsq, Consumer: eight deliveries, one given up, nobody left.",
         _guide("what_gos_own_test_does")),
    Duty("go-nsq, Consumer with TLS, Deflate, Snappy, both, and client certificates.",
         _client("every_layer", "a_node_that_wants_certificates")),
    Duty("go-nsq, LookupdAuthorization.",
         _unit("consumer", "one_nsqlookupd_hangs_and_one_is_dead")),
    Duty("go-nsq, ProducerConnection, Ping, Publish, MultiPublish and their asynchronous twins.",
         _publishing("every_way_to_publish")
         + _unit("producer", "asyncios_soon_and_flush", "asyncios_stopped")),
    Duty("go-nsq, ProducerHeartbeat.",
         _client("values_that_the_node_does_not_take", "a_second_between_heartbeats")),
    Duty("go-nsq, ProducerHTTPConnectionFails.", _client("the_http_port")),
    Duty("go-nsq, ConsumerBackoff.", _sequence("consumer_backoff")),
    Duty("go-nsq, RequeueNoBackoff.", _sequence("requeue_no_backoff")),
    Duty("go-nsq, BackoffDisconnect.", _sequence("backoff_disconnect")),
    Duty("go-nsq, Pause.", _sequence("pause")),
    Duty("pynsq, test_basic: names.", _unit("config", "valid_names", "invalid_names")),
    Duty("pynsq, test_basic: vectors of its BackoffTimer.",
         _unit("flow", "exponential"),
         "The backoff is go-nsq's."),
    Duty("pynsq, test_command.",
         _tests("unit/nsq/protocol/test_frames.py", "commands_byte_for_byte")),
    Duty("pynsq, test_async and test_sync: sizes, bodies, ten messages.",
         _unit("connection", "a_conversation_of_asyncios", "a_conversation",
               "frames_that_came_together_are_kept")),
    Duty("pynsq, test_backoff: many connections, some of which go.",
         _unit("flow", "a_whole_backoff_of_five_connections",
               "the_one_that_tests_the_waters_is_lost", "all_are_lost_in_a_period")),
    Duty("pynsq, test_rdy: the first RDY, new connections throttle others.",
         _unit("flow", "the_first_ready_is_all_and_a_new_connection_throttles_the_others_first"),
         "The first RDY is the whole share, as go-nsq's."),
    Duty("pynsq, test_rdy: max_in_flight, changed and turned off, also in a backoff.",
         _unit("flow", "changing_the_bound", "a_pause_in_a_backoff")),
    Duty("pynsq, test_rdy: redistribution, also in a backoff.",
         _unit("flow", "the_idle_hand_on", "who_keeps_its_ready_and_for_how_long",
               "turns_in_a_backoff")),
    Duty("pynsq, test_reader: bad arguments.", _unit("subscription", "bad_arguments")),
    Duty("pynsq, test_reader: options, order of upgrades, hundreds of messages over each layer.",
         _client("every_layer", "producer_and_consumer_over_all_of_it")),
    Duty("pynsq, test_reader: heartbeats.", _guide("who_is_busy_for_long_keeps_the_connection")),
    Duty("pynsq, test_reader: nsqlookupd.", _guide("what_all_nsqlookupds_know_together")),
    Duty("pynsq, test_reader: auth.", _client("auth", "auth_refused")),
    Duty("pynsq, test_writer.",
         _unit("producer", "options_are_checked", "what_no_node_would_take_is_not_sent")
         + _publishing("every_way_to_publish")),
)
# fmt: on

SECTIONS: dict[str, tuple[Duty, ...]] = {
    "The protocol": _PROTOCOL,
    "Configuration": _CONFIGURATION,
    "Discovery": _DISCOVERY,
    "Connections": _CONNECTIONS,
    "Negotiation": _NEGOTIATION,
    "Data flow and heartbeats": _DATA_FLOW,
    "Messages": _MESSAGES,
    "RDY": _READY,
    "Backoff": _BACKOFF,
    "Encryption and compression": _LAYERS,
    "Producers": _PRODUCERS,
    "What go-nsq and pynsq do besides": _OPTIONS,
    "Their own tests": _ORIGINAL_TESTS,
}
DUTIES = tuple(duty for duties in SECTIONS.values() for duty in duties)

_INTRODUCTION = """\
# What a client of NSQ owes

NSQ's guide to client libraries asks much of one. Here is all of it, with what go-nsq and pynsq do
and test besides, and the tests below `tests` that show that [ours](../client.md) does it. Written
by `make pages`. Those of `conformance` run real nodes: ours, and Go's where `PENSTOCK_GO_NSQ`
names the folder of its programs.
"""


def page() -> str:
    """The page of the documentation."""
    parts = [_INTRODUCTION]
    for heading, duties in SECTIONS.items():
        rows = ["| Duty | Test |", "|---|---|", *map(_row, duties)]
        parts.append(f"## {heading}\n\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _row(duty: Duty) -> str:
    asks = f"{duty.asks} *{duty.note}*" if duty.note else duty.asks
    return f"| {asks} | {'<br>'.join(f'`{test}`' for test in duty.tests)} |"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
