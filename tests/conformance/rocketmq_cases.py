"""What the behavioural tests of the Java broker assert, and what shows the same here.

Numbers and contents are those of RocketMQ spec 9: tests of whole brokers first, then the names of
unit tests that have cases of their own. References as in `references.py`; flows of third-party
clients are named with the flow, as in `test_flow[orderly]`.
"""

from __future__ import annotations

from typing import NamedTuple

from tools.pages.references import tests_of

_CLIENTS = "interop/test_rocketmq_clients.py::test_flow"
_ALI_ONS = "interop/test_ali_ons.py::test_flow"
_JAVA = "interop/test_rocketmq_java.py::test_flow"
_GO = "interop/test_rocketmq_go.py::test_flow"


class Case(NamedTuple):
    """One row: its number, what it asserts, the tests that show it."""

    number: int
    asserts: str
    tests: tuple[str, ...]


def _here(*functions: str) -> tuple[str, ...]:
    return tuple(f"conformance/test_rocketmq_cases.py::test_{name}" for name in functions)


def _surprises(*functions: str) -> tuple[str, ...]:
    return tuple(f"conformance/test_rocketmq_surprises.py::test_{name}" for name in functions)


def _broker(file: str, *functions: str) -> tuple[str, ...]:
    return _unit(f"rocketmq/broker/{file}", *functions)


def _unit(file: str, *functions: str) -> tuple[str, ...]:
    folder, slash, name = file.rpartition("/")
    return tests_of(f"{folder}{slash}test_{name}.py", *(f"test_{each}" for each in functions))


def _dialects(file: str, *functions: str) -> tuple[str, ...]:
    return tuple(f"dialects/test_{file}.py::test_{name}" for name in functions)


def is_optional(test: str) -> bool:
    """Whether it needs what has to be installed first."""
    return test.startswith((_JAVA, _GO, "interop/test_rocketmq_pop.py", "interop/test_mqadmin.py"))


CASES: tuple[Case, ...] = (
    Case(
        1,
        "What is sent to each queue is received once, and offsets say so afterwards.",
        _here("01_all_is_received_once_and_offsets_tell_so"),
    ),
    Case(
        2,
        "Each queue's order is kept, whichever queues messages are sent to.",
        (*_here("02_each_queue_keeps_its_order"),
         f"{_CLIENTS}[orderly]", f"{_JAVA}[orderly]", f"{_GO}[orderly]"),
    ),
    Case(
        3,
        "Two and four orderly consumers share evenly, and the order is kept.",
        _here("03_orderly_consumers_share_evenly_and_keep_the_order"),
    ),
    Case(
        4,
        "The order survives orderly consumers that join and leave.",
        _here("04_the_order_survives_members_that_join_and_leave")
        + _broker("clients/groups", "locking_and_giving_back"),
    ),
    Case(5, "Order and tags together.", _here("05_order_and_tags")),
    Case(
        6,
        "Of 120 transactions with all kinds of outcomes exactly the committed ones arrive.",
        (*_here("06_of_many_transactions_the_committed_ones_arrive"),
         "crash/test_transactions.py::test_transactions_and_delays_survive_kills",
         f"{_JAVA}[transaction]", f"{_GO}[transaction]"),
    ),
    Case(
        7,
        "Each of a hundred messages of a batch has ids of its own and can be viewed.",
        (*_here("07_a_batch_gives_each_message_its_ids"),
         *_broker("send/sending", "a_batch_is_stored_as_messages_of_its_queue"), f"{_JAVA}[batch]"),
    ),
    Case(
        8,
        "A message is viewed by the id that its send was answered with.",
        (*_broker("admin/queries", "a_message_is_viewed_by_its_id"),
         *_surprises("14_ids_name_the_advertised_address"), f"{_JAVA}[query]"),
    ),
    Case(
        9,
        "Bad ids find nothing, at once.",
        _broker("admin/queries", "a_message_is_viewed_by_its_id")
        + _broker("answers", "no_request_is_met_with_silence",
                  "fields_that_make_no_sense_are_told")
        + _unit("rocketmq/protocol/ids", "what_is_no_id"),
    ),
    Case(
        10,
        "A query by key finds all, no more than 64, and nothing of another topic or key that "
        "has the same hash.",
        (*_here("10_queries_by_key",
                "10_neither_topics_nor_keys_of_one_hash_are_mixed_up"),
         *_broker("admin/queries", "a_search_gives_64_at_most_and_32_for_unique_keys"),
         *_broker("store/keys", "keys_of_one_hash_are_told_apart"), f"{_JAVA}[query]"),
    ),
    Case(
        11,
        "Bodies that are too large and topics with bad names are refused. That a body is not "
        "empty is for clients to see to.",
        _broker("send/sending", "what_is_refused", "an_empty_body_and_a_large_one"),
    ),
    Case(
        12,
        "Properties of 10,240 Chinese characters are stored, of 32,769 refused.",
        _here("12_and_13_properties_of_users")
        + _surprises("15_widths_and_signs_in_stored_messages"),
    ),
    Case(
        13,
        "Properties of users arrive as they were sent.",
        (*_here("12_and_13_properties_of_users"), f"{_CLIENTS}[send]", f"{_JAVA}[send]"),
    ),
    Case(
        14,
        "Producers of one group and of different names are there side by side.",
        _here("14_producers_of_a_group_are_told_apart_by_their_names")
        + _broker("state/clients", "producers_are_found_by_their_id"),
    ),
    Case(
        15,
        "Asynchronous sends are all answered, and go to the chosen queue.",
        (*_here("15_a_send_need_not_wait_for_the_last_one"),
         *_unit("rocketmq/remoting", "pipelined_requests_are_all_answered"),
         f"{_CLIENTS}[send]", f"{_JAVA}[send]"),
    ),
    Case(
        16,
        "One-way messages arrive, in the chosen queue.",
        (*_here("16_one_way_messages_go_to_the_chosen_queue"),
         f"{_CLIENTS}[send]", f"{_JAVA}[send]"),
    ),
    Case(
        17,
        "Delayed messages come after their delay and before the next one.",
        (*_here("17_delayed_messages_come_neither_early_nor_a_level_late"),
         *_broker("delays/schedule", "a_message_is_not_early_and_late_by_nothing"),
         f"{_CLIENTS}[send]", f"{_JAVA}[send]"),
    ),
    Case(
        18,
        "Each broadcast consumer of a group gets everything.",
        (*_here("18_to_20_who_broadcasts_gets_everything_whatever_the_others_do"),
         f"{_JAVA}[broadcast]", f"{_GO}[broadcast]"),
    ),
    Case(
        19,
        "When a broadcast consumer crashes, the others go on.",
        _here("18_to_20_who_broadcasts_gets_everything_whatever_the_others_do"),
    ),
    Case(
        20,
        "A broadcast consumer that fails does not hinder the others.",
        _here("18_to_20_who_broadcasts_gets_everything_whatever_the_others_do"),
    ),
    Case(
        21,
        "Who joins a broadcast late gets what is new, and nothing comes twice.",
        _here("21_who_joins_a_broadcast_late_gets_what_is_new"),
    ),
    Case(
        22,
        "All broadcast consumers see the same order of a queue.",
        _here("22_the_order_of_a_queue_is_the_same_for_all"),
    ),
    Case(23, "Tags in a broadcast.", _here("23_tags_in_a_broadcast")),
    Case(
        24,
        "Nothing is lost while consumers join and crash.",
        (*_here("24_nothing_is_lost_while_members_join_and_crash"), f"{_CLIENTS}[resume]"),
    ),
    Case(
        25,
        "Queues are shared evenly, and shared anew after a crash, of which members are told.",
        (*_here("25_queues_are_shared_evenly"),
         *_broker(
             "clients/groups", "all_members_hear_of_a_new_one_and_so_does_it",
             "the_rest_hears_of_who_leaves"
         ),
         f"{_CLIENTS}[share]", f"{_JAVA}[share]", f"{_GO}[share]"),
    ),
    Case(
        26,
        "Subscriptions to one tag, to several and to all, of one group and of several.",
        (*_here("26_tags_of_several_groups",
                "26_members_of_one_group_share_what_has_its_tags"),
         *_broker("state/clients", "subscriptions_to_tags"),
         f"{_CLIENTS}[filter]", f"{_JAVA}[filter]"),
    ),
    Case(
        27,
        "A group consumes several topics, with different tags.",
        _here("27_several_topics_each_with_its_tags"),
    ),
    Case(
        28,
        "SQL92 lets exactly the two of three through that it describes, pushed and pulled.",
        (*_here("28_sql92_lets_two_of_three_pass"), f"{_ALI_ONS}[sql]", f"{_JAVA}[sql]"),
    ),
    Case(
        29,
        "That a group has no offset is something else than an error; told so, a client that "
        "wants the first message begins with it.",
        _here("29_a_group_without_offsets_may_be_told_so")
        + _surprises("08_a_new_group_begins_at_0_of_a_young_queue")
        + _broker("pull/pulling", "a_queue_that_has_lost_messages_is_not_young"),
    ),
    Case(
        30,
        "After a reset of one queue, of all, or to a time, exactly so many come again.",
        (*_here("30_after_a_reset_exactly_so_many_come_again"),
         *_surprises("16_a_reset_has_the_form_of_its_administrator"), f"{_JAVA}[reset]"),
    ),
    Case(
        31,
        "Lag is what has not been consumed, even if it has been pulled; what of it is in flight "
        "is told from 5.x on.",
        _here("31_lag_counts_what_is_not_yet_consumed")
        + _broker("admin/groups", "offsets_of_a_group")
        + _broker("clients/groups", "lag_and_members"),
    ),
    Case(
        32,
        "A topic's route names the brokers that have it.",
        _here("32_a_topic_is_routed_to_the_brokers_that_have_it")
        + _broker("registration", "changes_are_known_when_registered_returns")
        + _unit("rocketmq/namesrv/routes", "topics_change_only_with_their_version"),
    ),
    Case(
        33,
        "Replication. There are masters only: a slave does not start. The name server knows slaves "
        "of other brokers, and what slaves ask a master for is answered.",
        _broker("settings", "roles")
        + _unit("rocketmq/namesrv/processor", "masters_and_slaves")
        + _unit("rocketmq/namesrv/routes", "only_masters_tell_of_topics")
        + _broker("pull/pulling", "all_offsets_at_once")
        + _broker("delays/schedule", "offsets_are_told_as_java_tells_them")
        + _broker("admin/tables", "making_and_changing"),
    ),
    Case(
        34,
        "Popping, acknowledgements of several at once, notices; in order, too. Delays of "
        "any length; taking a message back is refused.",
        (*_dialects("popping", "popped_messages_are_hidden_until_they_are_acknowledged",
                    "what_is_not_acknowledged_comes_again",
                    "what_failed_too_often_goes_to_the_dead_letters",
                    "a_notice_that_there_is_something"),
         *_broker("pop/popping", "several_are_acknowledged"),
         *_broker("pop/popping", "in_order_nothing_is_there_while_a_batch_is_out"),
         *_dialects("popping_in_order", "one_batch_at_a_time",
                    "what_is_not_acknowledged_in_time_comes_again_in_order"),
         *_broker("delays/timers", "a_message_is_recalled_by_the_handle_of_its_answer"),
         "interop/test_rocketmq_pop.py::test_a_java_consumer_pops",
         "interop/test_rocketmq_pop.py::test_a_java_client_pops_in_order"),
    ),
)  # fmt: skip

UNIT_TESTS: dict[str, tuple[str, ...]] = {
    # remoting and common
    "RemotingCommandTest": (
        *_unit("rocketmq/protocol/header_json", "fields_are_coerced_to_texts"),
        *_unit("rocketmq/protocol/command", "answers_echo_opaque_and_serialisation"),
    ),
    "RocketMQSerializableTest": _unit(
        "rocketmq/protocol/header_binary", "empty_and_missing_read_alike", "every_cut_is_noticed"
    ),
    "RegisterBrokerBodyTest": _unit("rocketmq/protocol/registration", "plain", "compressed"),
    "FilterAPITest": _broker(
        "state/clients", "subscriptions_to_tags", "subscriptions_to_all", "subscriptions_by_sql"
    ),
    "MessageDecoderTest": _unit("rocketmq/protocol/messages/message",
                                "golden_record", "round_trips"),
    "TopicValidatorTest": _broker("names", "names_of_topics"),
    # the name server
    "RouteInfoManagerNewTest": _unit(
        "rocketmq/namesrv/routes", "topics_change_only_with_their_version", "an_address_has_one_id"
    ),
    "RequestProcessorTest": _unit(
        "rocketmq/namesrv/processor", "registration_and_route", "topic_lists", "write_permission"
    ),
    "KVConfigManagerTest": _unit("rocketmq/namesrv/kv_config", "they_survive"),
    # the broker
    "SendMessageProcessorTest": (
        *_broker(
            "send/sending",
            "what_is_refused",
            "a_broker_without_permission_refuses_messages_of_ordered_topics",
        ),
        *_broker("send/sending", "dead_letters", "what_cannot_be_sent_back"),
    ),
    "PullMessageProcessorTest": _broker(
        "pull/pulling", "the_codes_when_there_is_nothing", "who_may_not_pull_is_told_why"
    ),
    "ConsumerManageProcessorTest": _broker("pull/pulling", "committing"),
    "EndTransactionProcessorTest": _broker(
        "transactions/ending", "what_is_not_the_producers_is_refused", "the_first_outcome_wins"
    ),
    "AdminBrokerProcessorTest": (
        *_broker("admin/tables", "making_and_changing", "topics_that_are_refused"),
        *_broker("admin/tables", "what_is_refused_changes_nothing"),
    ),
    "RebalanceLockManagerTest": _broker(
        "state/clients", "one_client_of_a_group_at_a_time_until_it_lapses"
    ),
    "PullRequestHoldServiceTest": _broker(
        "pull/pulling", "all_who_wait_get_the_message",
        "what_is_filtered_moves_the_offset_of_who_waits"
    ),
    "ScheduleMessageServiceTest": _broker(
        "delays/schedule", "a_restart_goes_on_where_it_was",
        "offsets_beyond_the_topic_are_set_right",
    ),
    "TransactionalMessageServiceImplTest": _broker(
        "transactions/checks", "after_so_many_checks_it_is_given_up",
        "what_has_ended_is_not_asked_for",
    ),
    # filters and the store
    "ExpressionTest": _broker(
        "state/clients", "what_an_expression_passes", "what_it_does_not", "errors_say_where"
    ),
    "DefaultMessageStoreTest": _broker(
        "store/message_store", "offsets_are_dense_in_each_queue", "offsets_by_time"
    ),
    "IndexFileTest": _broker(
        "store/keys", "keys_of_one_hash_are_told_apart", "what_is_found_is_what_a_list_would_hold"
    ),
    "ConsumeQueueTest": _unit(
        "storage/queues/queue_model", "queues_do_what_their_model_does",
    ),
    "MappedFileQueueTest": (
        *_unit("storage/log", "segments_are_rotated_before_they_grow_too_large"),
        *_unit("storage/log_model", "a_log_does_what_its_model_does"),
    ),
}  # fmt: skip
