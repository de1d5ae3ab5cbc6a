"""What the programs of the corpus write, worked out by hand from their input."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True)
class Case:
    """A program: what it is given, and the rows that it writes."""

    rows: list[str]
    """In any order. Those of files and topics are visible once, printed ones at least once."""
    lines: list[str] = field(default_factory=list)
    """Of the file that it reads, or the messages of the topic that it reads."""
    writes: str = "lines"
    """Where its rows are: printed lines, files or a topic."""
    reads: str = ""
    """Its input outside the program: a file, or a topic."""
    has_checkpoints: bool = True
    at_least_once: bool = False
    is_endless: bool = False


def counted(word: str, times: int) -> list[str]:
    """Return the running counts of a word."""
    return [f"{word} {number}" for number in range(1, times + 1)]


CASES: Final = {
    "word_count": Case([*counted("to", 7), *counted("and", 3), *counted("end", 2)], writes="files"),
    "inactive_users": Case(
        [
            "ann left at 14000",
            "bob left at 19000",
            "ann left at 30000",
            "cid left at 31000",
            "bob left at 32000",
        ]
    ),
    "deduplicate": Case(["(e1,login)", "(e2,click)", "(e3,click)", "(e4,logout)"]),
    "sessions": Case(["(u1,0,8000,2)", "(u1,12000,19500,2)", "(u2,500,9000,2)", "(u2,30000,35000,1)"]),
    "side_outputs": Case(
        [
            "malformed JSONDecodeError not json",
            'malformed KeyError {"sensor": "a"}',
            *("alarm b 101", "alarm a 140"),
            *("reading a 20", "reading b 101", "reading c 30", "reading a 140", "reading b 7"),
        ],
        writes="files",
    ),
    "broadcast_rules": Case(
        ["b over 100 EUR: 500", "a over 80 USD: 90", "c over 100 EUR: 101", "a over 80 USD: 81"]
    ),
    "enriched_orders": Case(
        [
            *("Ada ordered book", "Bob ordered pen", "Ada ordered lamp", "Cy ordered desk"),
            *("Bob ordered ink", "Ada ordered cup"),
        ]
    ),
    "kafka_to_kafka": Case(
        [f"WORD {number}" for number in range(12)],
        [f"word {number}" for number in range(12)],
        writes="topic",
        reads="topic",
    ),
    "kafka_json_windows": Case(
        [
            '{"shop": "a", "minute": 0, "total": 5}',
            '{"shop": "a", "minute": 1, "total": 30}',
            '{"shop": "b", "minute": 0, "total": 7}',
            '{"shop": "b", "minute": 3, "total": 100}',
        ],
        [
            '{"shop": "a", "amount": 2, "ts": 1000}',
            '{"shop": "a", "amount": 3, "ts": 59999}',
            '{"shop": "b", "amount": 7, "ts": 30000}',
            '{"shop": "a", "amount": 10, "ts": 60000}',
            '{"shop": "b", "amount": 40, "ts": 190000}',
            '{"shop": "a", "amount": 20, "ts": 119999}',
            '{"shop": "b", "amount": 60, "ts": 180000}',
        ],
        writes="topic",
        reads="topic",
    ),
    "flink1_kafka": Case(
        [f'{{"title": "film {number}", "score": {2 * number}}}' for number in range(10)],
        [f'{{"title": "film {number}", "stars": {number}}}' for number in range(10)],
        writes="topic",
        reads="topic",
        at_least_once=True,
        is_endless=True,
    ),
    "json_files": Case(
        [
            *('["ERROR", "db", 1]', '["INFO", "web", 1]', '["INFO", "db", 2]', '["ERROR", "web", 2]'),
            *('["ERROR", "web", 3]', '["WARN", "web", 1]', '["INFO", "web", 3]'),
        ],
        [
            '{"level": "ERROR", "service": "db"}',
            '{"level": "INFO", "service": "web"}',
            '{"level": "DEBUG", "service": "web"}',
            '{"level": "INFO", "service": "db"}',
            '{"level": "ERROR", "service": "web"}',
            '{"level": "ERROR", "service": "web"}',
            '{"level": "WARN", "service": "web"}',
            '{"level": "DEBUG", "service": "db"}',
            '{"level": "INFO", "service": "web"}',
        ],
        writes="files",
        reads="file",
    ),
    "csv_files": Case(
        ["north 1.50", "south 20.00", "north 2.00", "south 25.00", "north 2.50", "north 2.00"],
        ["north;1.5", "south;20", "north;2.5", "south;30", "north;3.5", "north;0.5"],
        reads="file",
    ),
    "batch_word_count": Case(
        ["(a,6)", "(rose,4)", "(is,3)", "(thorn,2)", "(not,1)", "(stem,1)", "(no,1)"], has_checkpoints=False
    ),
    "batch_timers": Case(["a: 10 20 30", "b: 10 20 40", "c: 5"], has_checkpoints=False),
    "async_lookup": Case([*2 * ["1 Ada", "2 Bob", "3 Cy"], "4 unknown", "5 unknown"]),
    "async_retries": Case([f"{number}: answered" for number in range(6)]),
    "custom_windows": Case(
        ["(de,-85,100)", "(fr,5,20)", "(de,95,50)", "(de,5,7)", "(fr,185,5)", "(de,185,11)"]
    ),
    "custom_trigger": Case(["even 0+2+4", "even 6+8+10", "odd 1+3+5", "odd 7+9+11"]),
    "list_state_batches": Case(
        [
            *("(0,[0, 3, 6])", "(0,[9, 12, 15])", "(1,[1, 4, 7])", "(1,[10, 13, 16])"),
            *("(2,[2, 5, 8])", "(2,[11, 14, 17])"),
        ]
    ),
    "map_state_profiles": Case(["ann saw cart x1, home x2", "bob saw help x1, home x1", "ann saw home x1"]),
    "reducing_and_aggregating": Case(
        [
            *("x: highest 4, mean 4.0", "y: highest 10, mean 10.0", "x: highest 8, mean 6.0"),
            *("x: highest 8, mean 5.0", "y: highest 10, mean 7.5", "x: highest 8, mean 4.0"),
        ]
    ),
    "pickled_state": Case(
        [
            "ann 1 ['red'] 2024-01-01",
            "bob 1 ['blue'] 2024-01-02",
            "ann 2 ['blue', 'red'] 2024-01-03",
            "ann 3 ['blue', 'red'] 2024-01-04",
            "bob 2 ['blue', 'green'] 2024-01-05",
            "ann 4 ['blue', 'green', 'red'] 2024-01-06",
        ]
    ),
    "dataclass_state": Case(
        [
            *("ann 10.50 after 1", "bob 1 after 1", "ann 7.25 after 2"),
            *("bob 3.5 after 2", "ann 8.00 after 3", "bob 2.5 after 3"),
        ]
    ),
    "flink1_settings": Case(["(x,3)", "(y,2)", "(z,1)"]),
    "metrics": Case(["one 3", "three 5", "eleven 6", "two 3", "seventeen 9", "six 3"]),
    "count_windows": Case(["(hi,7)", "(yo,14)"]),
    "sliding_means": Case(
        [
            *("k [-5000,5000) 15.0", "k [0,10000) 30.0", "k [5000,15000) 30.0", "k [10000,20000) 0.0"),
            *("m [0,10000) 1.0", "m [5000,15000) 2.0", "m [10000,20000) 3.0"),
        ],
        writes="files",
    ),
    "hottest_items": Case(["1: tea 3, jam 2", "2: pie 2, tea 1"]),
    "fraud_detection": Case(["alert for account 1: 600.0"]),
    "highest_rows": Case(
        [
            *(
                "Rome was hottest on day 1: 20",
                "Oslo was hottest on day 1: 5",
                "Rome was hottest on day 2: 25",
            ),
            *(
                "Oslo was hottest on day 1: 5",
                "Rome was hottest on day 2: 25",
                "Oslo was hottest on day 3: 9",
            ),
            *(
                "Rome was coldest on day 1: 20",
                "Oslo was coldest on day 1: 5",
                "Rome was coldest on day 1: 20",
            ),
            *(
                "Oslo was coldest on day 2: -3",
                "Rome was coldest on day 1: 20",
                "Oslo was coldest on day 2: -3",
            ),
        ]
    ),
    "unions_and_partitions": Case(
        ["0 even", "3 odd", "6 even", "9 odd", "30 even", "33 odd", "36 even", "39 odd"], writes="files"
    ),
    "co_flat_map": Case(
        [
            *("number 12", "number 345", "number 6", "word tea", "word oak", "word io", "word pie"),
            *(f"digit {digit}" for digit in range(1, 7)),
            *("letter t", "letter k", "letter p"),
        ]
    ),
    "number_sequences": Case([f"{number} {number * number}" for number in range(4, 41, 4)], writes="files"),
    "all_windows": Case(["minute 0: 2", "minute 1: 2", "minute 2: 1"]),
    "blocked_words": Case(["a", "fine", "day", "and", "a", "night", "blocked: rude", "blocked: word"]),
    "missing_values": Case(
        [
            "1 Ann 1990-05-01 10.5 ['x=Ann']",
            "2 None None None []",
            "1 Ann 1990-05-02 None ['x=Ann']",
            "2 Bob None 7 ['y=Bob']",
            "3 Cy None None ['z=Cy']",
            "1 Anna None 11 ['x=Anna']",
        ]
    ),
    "keys_of_many_types": Case(
        [
            *(f"date 2024-05-31: {count}" for count in (1, 2, 3)),
            *(f"date 2024-06-01: {count}" for count in (1, 2, 3)),
            *(f"amount 1.50: {count}" for count in (1, 2, 3)),
            *(f"amount 2: {count}" for count in (1, 2, 3)),
            *("month (5, 'card'): 1", "month (5, 'card'): 2", "month (5, 'cash'): 1"),
            *("month (6, 'cash'): 1", "month (6, 'cash'): 2", "month (6, 'card'): 1"),
        ],
        writes="files",
    ),
    "emitted_lists": Case([f"{number}-{number + 1} 2" for number in range(8)]),
    "detached_job": Case(["(b,1)", "(a,1)", "(c,1)", "(a,2)", "(b,2)", "(a,3)", "(d,1)"]),
    "generated_rows": Case(
        ["1 1", "1 5", "1 12", "1 22", "2 2", "2 7", "2 15", "2 26", "0 3", "0 9", "0 18", "0 30"],
        writes="files",
    ),
}
