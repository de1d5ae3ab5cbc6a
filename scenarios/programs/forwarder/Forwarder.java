import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Forwards each record of a topic to another one.
 *
 * <p>With the word "transactions" the offsets of what was read are part of the transaction that writes.
 * Without it the client commits them by itself from time to time: killed in between, it forwards records twice.
 */
public final class Forwarder {
    private static final String GROUP = "forwarder";

    public static void main(String[] words) {
        String servers = words[0], from = words[1], to = words[2];
        boolean inTransactions = words.length > 3 && words[3].equals("transactions");
        Properties reads = new Properties();
        reads.put("bootstrap.servers", servers);
        reads.put("group.id", GROUP);
        reads.put("isolation.level", "read_committed");
        reads.put("enable.auto.commit", inTransactions ? "false" : "true");
        // Longer than a trial: what is forwarded before a kill has not been committed, on a slow machine as well.
        reads.put("auto.commit.interval.ms", "60000");
        reads.put("auto.offset.reset", "earliest");
        Properties writes = new Properties();
        writes.put("bootstrap.servers", servers);
        writes.put("enable.idempotence", "true");
        if (inTransactions) {
            writes.put("transactional.id", GROUP);
            writes.put("transaction.timeout.ms", "10000");
        }
        try (KafkaConsumer<String, String> consumer =
                        new KafkaConsumer<>(reads, new StringDeserializer(), new StringDeserializer());
                KafkaProducer<String, String> producer =
                        new KafkaProducer<>(writes, new StringSerializer(), new StringSerializer())) {
            if (inTransactions) {
                // Ends what a start before this one has left open, and fences it.
                producer.initTransactions();
            }
            Set<TopicPartition> partitions = consumer.partitionsFor(from).stream()
                    .map(each -> new TopicPartition(from, each.partition()))
                    .collect(Collectors.toSet());
            // Assigned by hand: a group would wait for the session of the one that was killed.
            consumer.assign(partitions);
            System.out.println("ready");
            while (true) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(20));
                if (!records.isEmpty()) {
                    forward(records, to, consumer, producer, inTransactions);
                }
            }
        }
    }

    private static void forward(
            ConsumerRecords<String, String> records,
            String to,
            KafkaConsumer<String, String> consumer,
            KafkaProducer<String, String> producer,
            boolean inTransactions) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (TopicPartition partition : records.partitions()) {
            List<ConsumerRecord<String, String>> read = records.records(partition);
            offsets.put(partition, new OffsetAndMetadata(read.get(read.size() - 1).offset() + 1));
        }
        if (inTransactions) {
            producer.beginTransaction();
        }
        for (ConsumerRecord<String, String> record : records) {
            producer.send(new ProducerRecord<>(to, record.key(), record.value()));
        }
        if (inTransactions) {
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            try {
                producer.commitTransaction();
            } catch (KafkaException failed) {
                // Whether it took place is not known. The next start finds out from the offsets.
                System.out.println("ends: " + failed);
                Runtime.getRuntime().halt(1);
            }
        } else {
            producer.flush();
        }
        System.out.println("forwarded " + records.count());
    }
}
