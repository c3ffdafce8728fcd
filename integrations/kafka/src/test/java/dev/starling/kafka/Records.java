package dev.starling.kafka;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Writes test records by id, and reads topics back. */
final class Records {
    private Records() {
    }

    static byte[] key(long id) {
        return ByteBuffer.allocate(Long.BYTES).putLong(id).array();
    }

    static long id(byte[] key) {
        return ByteBuffer.wrap(key).getLong();
    }

    /** Writes the rows of {@link SumModel} for the ids from {@code from} to below {@code to}. */
    static void write(KafkaCluster cluster, String topic, long from, long to) {
        RowCodec codec = RowCodec.floats(SumModel.COLUMNS);
        try (Producer<byte[], byte[]> producer = cluster.producer(Map.of("linger.ms", 20, "batch.size", 65536))) {
            for (long id = from; id < to; id++) {
                producer.send(new ProducerRecord<>(topic, key(id), codec.encode(SumModel.row(id), 0,
                        SumModel.COLUMNS)));
            }
        }
    }

    static void write(KafkaCluster cluster, String topic, long id, byte[] value) {
        try (Producer<byte[], byte[]> producer = cluster.producer(Map.of())) {
            producer.send(new ProducerRecord<>(topic, key(id), value));
        }
    }

    /** Reads committed records until {@code enough} returns true; fails after the deadline. */
    static List<ConsumerRecord<byte[], byte[]>> read(KafkaCluster cluster, String topic, Duration deadline,
            Predicate<List<ConsumerRecord<byte[], byte[]>>> enough) {
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        try (Consumer<byte[], byte[]> consumer = cluster.consumer(Map.of())) {
            consumer.assign(cluster.partitions(consumer, topic));
            consumer.seekToBeginning(consumer.assignment());
            long end = System.nanoTime() + deadline.toNanos();
            while (!enough.test(found)) {
                if (System.nanoTime() > end) {
                    throw new AssertionError(found.size() + " records on " + topic + " within " + deadline);
                }
                consumer.poll(Duration.ofMillis(50)).forEach(found::add);
            }
        }
        return found;
    }

    static List<ConsumerRecord<byte[], byte[]>> read(KafkaCluster cluster, String topic, int count) {
        return read(cluster, topic, Duration.ofSeconds(60), found -> found.size() >= count);
    }

    static String header(ConsumerRecord<byte[], byte[]> record, String name) {
        return StreamHeaders.text(record.headers(), name);
    }
}
