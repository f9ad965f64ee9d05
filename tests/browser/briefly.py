"""Which browser tests run with every `make test`: each page, each action, what is hostile.

All of them together take longer than the rest of the tests; `make browser` runs them.
"""

from __future__ import annotations

from typing import Final

BRIEFLY: Final[dict[str, tuple[str, ...]]] = {
    "test_accessibility": ("test_every_page",),
    "test_actions": (
        "test_a_page_does_not_ask_for_what_it_deletes",
        "test_alice_may_and_bob_may_not",
        "test_creating_a_channel_on_its_topics_page",
        "test_damage_is_shown_until_it_is_accepted",
        "test_deleting_a_channel",
        "test_deleting_a_topic_with_messages_wants_its_name",
        "test_emptying_a_channel",
        "test_emptying_a_topic",
        "test_pausing_and_unpausing_a_channel",
        "test_pausing_and_unpausing_a_topic",
        "test_tombstoning",
    ),
    "test_channel": ("test_what_is_there",),
    "test_charts": ("test_charts_grow_with_the_events", "test_what_is_not_known_is_a_gap"),
    "test_components": (
        "test_a_table_sorts_by_its_head_and_the_address_bar_says_how",
        "test_the_palette_goes_to_a_channel_by_keyboard",
    ),
    "test_counter": ("test_it_counts_what_the_channels_get",),
    "test_deadletters": ("test_exporting", "test_looking_at_letters", "test_resending_some"),
    "test_deferred": ("test_cancelling_names_what_is_lost", "test_delivering_some_now"),
    "test_dom": (
        "test_text_is_never_markup",
        "test_the_focus_stays_while_others_come_go_and_move_around_it",
    ),
    "test_finding": (
        "test_a_search_finds_over_all_nodes_and_says_how_far_it_looked",
        "test_messages_of_all_nodes_come_by_time",
        "test_publishing_a_message",
        "test_replaying_all_that_match_counts_them_first",
        "test_rewinding_a_channel_shows_what_comes_again",
        "test_who_may_only_look_searches_and_changes_nothing",
    ),
    "test_format": ("test_figures",),
    "test_groups": (
        "test_a_group_that_nobody_moves_is_warned_of",
        "test_all_groups",
        "test_the_pipeline_behind_a_group",
        "test_the_verdict_is_that_of_the_overview",
    ),
    "test_hostile": (
        "test_a_channel",
        "test_a_pipeline",
        "test_lists",
        "test_the_question_before_an_action",
    ),
    "test_lost": (
        "test_a_page_that_is_open_meanwhile_shows_no_dip",
        "test_no_sum_falls_as_if_drained",
    ),
    "test_lookup": ("test_creating_checks_names_while_one_types",),
    "test_messages": (
        "test_each_kind_of_body_is_shown_as_what_it_is",
        "test_hostile_bodies_stay_text",
    ),
    "test_node": ("test_the_tree_from_topics_to_consumers",),
    "test_nodes": ("test_a_node_killed_while_one_looks", "test_the_machines_under_the_nodes"),
    "test_other_sites": (
        "test_a_page_of_a_site_that_is_allowed_has",
        "test_a_page_of_another_site_has_no_effect",
        "test_behind_a_proxy_with_a_prefix_and_another_name",
    ),
    "test_overview": ("test_what_wants_attention_is_told_and_linked",),
    "test_pipelines": ("test_all_pipelines", "test_one_pipeline"),
    "test_rocketmq": (
        "test_a_group_is_made_changed_and_deleted",
        "test_a_topic_is_made_changed_and_deleted",
        "test_a_topic_with_readers_of_both_dialects",
        "test_accounts_without_secrets",
        "test_deleting_counts_what_is_lost_and_wants_the_name",
        "test_every_page_is_accessible",
        "test_letters_open_and_are_sent_again",
        "test_offsets_are_reset_after_a_preview",
        "test_the_settings_of_a_broker",
        "test_topics_groups_and_servers",
        "test_what_became_of_a_message_and_consuming_it_directly",
        "test_what_wants_attention_by_rocketmqs_rule",
    ),
    "test_shell": (
        "test_dark_and_light_follow_the_system",
        "test_every_path_has_a_page",
        "test_the_base_path",
        "test_the_policy_lets_nothing_in_from_outside",
    ),
    "test_topic": ("test_sort_tab_and_back_are_in_the_address", "test_what_is_there"),
    "test_topics": ("test_every_topic_with_its_figures",),
    "test_watching": ("test_a_good_page_has_none_and_expected_ones_do_not_count",),
}
"""By module; a module or test that is not there is an error."""


def is_brief(module: str, test: str) -> bool:
    """Whether this test (`test_x` of `test_x[parameters]`) is one of them."""
    return test.partition("[")[0] in BRIEFLY.get(module, ())
