"""The first call of each caller, who is forgotten after a minute: a family with a time to live."""

from collections import Counter

from onceproof import Chance, FamilyOptions, Workload
from onceproof.engine import (
    FlatMapFunction,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)

name = "lately"
generator_version = 1
options = FamilyOptions(declares=True)
tasks = {"calls": "source", "first": "keyed", "table": "sink"}
record_schema = "caller STRING"
row_schema = "caller STRING"
oracle_sql = "SELECT scenario_id, caller FROM declared"
CALLERS = ("ida", "jon", "kim")
MINUTE_MS = 60_000


def generate(random):
    chance = Chance(random)
    calls = [(at, chance.choice(CALLERS)) for at in range(chance.integer(5, 25))]
    return Workload({"calls": calls})


class First(FlatMapFunction):
    def open(self, runtime_context):
        descriptor = ValueStateDescriptor("seen", Types.BOOLEAN())
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(MINUTE_MS)).build())
        self.seen = runtime_context.get_state(descriptor)

    def flat_map(self, caller):
        if not self.seen.value():
            yield (caller,)
        self.seen.update(True)


def job(env, io):
    calls = env.from_source(io.source("calls"), None, "calls").uid("calls")
    by_caller = calls.set_parallelism(io.source_parallelism).key_by(lambda caller: caller, Types.STRING())
    first = by_caller.flat_map(First(), Types.TUPLE([Types.STRING()])).name("first").uid("first")
    rows = first.set_parallelism(io.parallelism).key_by(lambda row: row[0], Types.STRING())
    rows.add_sink(io.sink("table")).name("table").uid("table").set_parallelism(io.sink_parallelism)


def expected(records, declared):
    calls = Counter((caller,) for _at, caller in records["calls"])
    # One row for each caller, and as many more as time may have passed between calls.
    rows = Counter(declared.rows)
    return [row for row, number in calls.items() for _ in range(min(number, max(1, rows[row])))]
