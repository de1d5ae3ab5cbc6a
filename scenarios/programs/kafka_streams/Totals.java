import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KafkaStreams.State;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/** Running totals of amounts by key, with the guarantee that the environment names. */
public final class Totals {
    public static void main(String[] words) throws InterruptedException {
        String servers = words[0], from = words[1], to = words[2], folder = words[3];
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(from, Consumed.with(Serdes.String(), Serdes.String()))
                .mapValues(line -> Long.parseLong(line.split(",")[1]))
                .groupByKey(Grouped.with(Serdes.String(), Serdes.Long()))
                .reduce(Long::sum, Materialized.with(Serdes.String(), Serdes.Long()))
                .toStream()
                .map((key, total) -> new org.apache.kafka.streams.KeyValue<>(key, key + "," + total))
                .to(to, Produced.with(Serdes.String(), Serdes.String()));
        Properties settings = new Properties();
        settings.put("application.id", to);
        settings.put("bootstrap.servers", servers);
        settings.put("state.dir", folder + "/state");
        settings.put("processing.guarantee", System.getenv("GUARANTEE"));
        // Each total is a row, and none waits for a later one of its key.
        settings.put("statestore.cache.max.bytes", "0");
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setStateListener((now, before) -> {
            System.out.println("state " + now);
            if (now == State.ERROR) {
                Runtime.getRuntime().halt(1);
            }
        });
        CountDownLatch ended = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close(java.time.Duration.ofSeconds(5));
            ended.countDown();
        }));
        streams.start();
        ended.await();
    }
}
