"""What the textbook's programs are given, in their tests and by ``record_programs``: it imports nothing.

A click is (user, url, milliseconds).
"""

from __future__ import annotations

URLS = ("./home", "./cart", "./fav", "./prod?id=1", "./prod?id=2")

SIXTEEN_CLICKS = [
    ("Mary" if number % 3 else "Bob", URLS[number % len(URLS)], 1000 * number) for number in range(1, 17)
]
"""Sixteen clicks, a second apart. Every third is of Bob, the others are of Mary."""

VIEWS = [
    (user, "./home", 1000 * second)
    for user, second in [
        ("Mary", 1),
        ("Bob", 2),
        ("Mary", 5),
        ("Mary", 12),
        ("Mary", 13),
        ("Bob", 25),
        ("Cary", 60),
    ]
]
"""Mary's timers are due at 11 s, which the view at 12 s passes, and at 23 s. Bob's are due at 12 and 35 s."""

CLICKS_ON_TWO_URLS = [
    ("Mary", url, timestamp)
    for url, timestamp in [
        ("./home", 0),
        ("./cart", 4_000),
        ("./home", 9_999),
        ("./home", 10_000),
        ("./cart", 31_000),
    ]
]

NUMBERS_OF_WORDS = [f"spark {number}" for number in (1, 2, 3, 4, 5)] + [
    f"hello {number}" for number in (100, 90, 80, 70, 60, 10)
]
"""The sixth hello waits."""

ONE_TO_SIX = ["1", "2", "3", "4", "5", "6"]
LINES_OF_WORDS = ["hello world", "hello flink", "hello"]
