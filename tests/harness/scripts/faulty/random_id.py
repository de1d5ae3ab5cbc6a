"""Orders are written by an id, so that one that comes again replaces itself; but it gets another id."""

import uuid

from pyflink.datastream import MapFunction, StreamExecutionEnvironment
from pyflink.datastream.functions import UpsertSinkFunction

ORDERS = [("ada", 5), ("bob", 3), ("ada", 4), ("cy", 1), ("bob", 2), ("ada", 7)]
TABLE = {}


class WithId(MapFunction):
    def map(self, order):
        return (uuid.uuid4().hex, *order)


class Orders(UpsertSinkFunction):
    def key_of(self, order):
        return order[0]

    def upsert(self, orders):
        for number, order in orders.items():
            TABLE[number] = order[1:]


env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection(ORDERS).map(WithId()).add_sink(Orders()).name("orders")
env.execute("orders")
