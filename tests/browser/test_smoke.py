"""Every page opens, one is acted on, and strangers' names stay text: what `make test` runs."""

from tests.browser.test_accessibility import test_every_page
from tests.browser.test_actions import test_pausing_and_unpausing_a_topic
from tests.browser.test_finding import orders, test_publishing_a_message
from tests.browser.test_messages import hostile, test_hostile_bodies_stay_text

__all__ = [
    "hostile",
    "orders",
    "test_every_page",
    "test_hostile_bodies_stay_text",
    "test_pausing_and_unpausing_a_topic",
    "test_publishing_a_message",
]
