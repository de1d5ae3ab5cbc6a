import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/** Running totals by key, from topic to topic: BROKER INPUT OUTPUT GUARANTEE. */
public class Totals {
    public static void main(String[] args) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        KafkaSource<String> records = KafkaSource.<String>builder()
                .setBootstrapServers(args[0])
                .setTopics(args[1])
                .setGroupId("totals")
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setValueOnlyDeserializer(new SimpleStringSchema())
                .build();
        KafkaSink<String> totals = KafkaSink.<String>builder()
                .setBootstrapServers(args[0])
                .setRecordSerializer(KafkaRecordSerializationSchema.builder()
                        .setTopic(args[2])
                        .setValueSerializationSchema(new SimpleStringSchema())
                        .build())
                .setDeliveryGuarantee(DeliveryGuarantee.valueOf(args[3]))
                .setTransactionalIdPrefix(args[2])
                .setProperty("transaction.timeout.ms", "600000")
                .build();
        env.fromSource(records, WatermarkStrategy.noWatermarks(), "records").uid("records")
                .keyBy(line -> new ObjectMapper().readTree(line).get("key").asText())
                .process(new Total()).uid("totals")
                .sinkTo(totals).uid("output");
        env.execute("totals");
    }

    static class Total extends KeyedProcessFunction<String, String, String> {
        private transient ObjectMapper json;
        private transient ValueState<Long> sum;

        @Override
        public void processElement(String line, Context context, Collector<String> rows) throws Exception {
            if (sum == null) {
                json = new ObjectMapper();
                sum = getRuntimeContext().getState(new ValueStateDescriptor<>("sum", Long.class));
            }
            JsonNode record = json.readTree(line);
            long total = record.get("amount").asLong() + (sum.value() == null ? 0 : sum.value());
            sum.update(total);
            rows.collect("[\"" + context.getCurrentKey() + "\", " + total + "]");
        }
    }
}
