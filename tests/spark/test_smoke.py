"""One test of each main path of Spark's side: what `make test` runs, beside the tutorial."""

from tests.spark.programs.test_demo import test_from_start_to_proof
from tests.spark.test_archive import test_a_killed_query_and_one_with_another_checkpoint_go_on
from tests.spark.test_exactly_once import (
    test_a_task_that_is_tried_again_with_rows_in_another_order,
)
from tests.spark.test_pipeline_files import test_tests_and_validation_from_the_command_line
from tests.spark.test_rocketmq_sink import brokers, test_rows_out_are_rows_in_and_are_forwarded
from tests.spark.test_sink import start, test_rows_out_are_rows_in
from tests.spark.test_source import test_batch_read_gives_every_column

__all__ = [
    "brokers",
    "start",
    "test_a_killed_query_and_one_with_another_checkpoint_go_on",
    "test_a_task_that_is_tried_again_with_rows_in_another_order",
    "test_batch_read_gives_every_column",
    "test_from_start_to_proof",
    "test_rows_out_are_rows_in",
    "test_rows_out_are_rows_in_and_are_forwarded",
    "test_tests_and_validation_from_the_command_line",
]
