"""The highest price of each item, kept in an attribute of the class."""

from pyflink.datastream import MapFunction, StreamExecutionEnvironment


class Highest(MapFunction):
    prices = {}  # noqa: RUF012

    def map(self, offer):
        item, price = offer
        Highest.prices[item] = max(price, Highest.prices.get(item, 0))
        return item, Highest.prices[item]


env = StreamExecutionEnvironment.get_execution_environment()
offers = [("tea", 5), ("tea", 3), ("jam", 8), ("tea", 4), ("jam", 2), ("tea", 9), ("jam", 1)]
env.from_collection(offers).map(Highest()).print()
env.execute("highest prices")
