"""A machine gets one alarm, a millisecond after its first signal, unless its input has ended before."""

from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor

SIGNALS = [("m1", 1), ("m2", 1), ("m3", 1), ("m4", 1), ("m5", 1), ("m6", 1), ("m7", 1), ("m8", 1)]


class Alarm(KeyedProcessFunction):
    def open(self, runtime_context):
        self.known = runtime_context.get_state(ValueStateDescriptor("known", Types.BOOLEAN()))

    def process_element(self, signal, ctx):
        machine = signal[0]
        if not self.known.value():
            self.known.update(True)
            due = ctx.timer_service().current_processing_time() + 1
            ctx.timer_service().register_processing_time_timer(due)
            yield machine, "watched"

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), "alarm"


env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection(SIGNALS).key_by(lambda signal: signal[0], Types.STRING()).process(Alarm()).print()
env.execute("alarms")
