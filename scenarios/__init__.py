"""The families that come with onceproof, importing none of the heavy dependencies.

A module is a family and bears its name. A module that holds several families is listed below; each of them is
an object under its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SEVERAL: Final[Mapping[str, tuple[str, ...]]] = {
    "averages": ("average_by_list", "average_by_map", "average_by_value"),
    "textbook_average_by_list": ("textbook_average_by_list",),
    "textbook_average_by_map": ("textbook_average_by_map",),
    "textbook_average_by_reducing_state": ("textbook_average_by_reducing_state",),
    "textbook_average_by_value": ("textbook_average_by_value",),
    "textbook_average_timestamp": ("textbook_average_timestamp",),
    "textbook_behaviour_patterns": (),
    "textbook_buffering_sink": (),
    "textbook_click_source": (),
    "textbook_concatenation": ("textbook_concatenation",),
    "textbook_count_to_100": ("textbook_count_to_100",),
    "textbook_five_second_sum": (),
    "textbook_full_join": (),
    "textbook_greatest_of_five": ("textbook_greatest_of_five",),
    "textbook_hello_world": (),
    "textbook_kafka_pass_through": (),
    "textbook_kafka_windows": (),
    "textbook_mean_of_three": ("textbook_mean_of_three",),
    "textbook_page_views": (),
    "textbook_pairs_kept": ("textbook_pairs", "textbook_pairs_in_a_union_list"),
    "textbook_pairs_plain": (),
    "textbook_periodic_page_views": (),
    "textbook_poisoned_record": (),
    "textbook_sliding_word_count": (),
    "textbook_socket_to_kafka": (),
    "textbook_temporary_files": (),
    "textbook_time_to_live": (),
    "textbook_transfer": ("textbook_transfer",),
    "textbook_two_phase_commit": ("textbook_two_phase_commit",),
    "textbook_window_by_map": (),
    "textbook_word_counts": (),
}
"""By module, the names of its families; a program of the textbook may have none of its own."""
