package dev.starling.kafka.sample;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Reads results and compares them with the truth. */
final class Results implements AutoCloseable {
    private final Points points;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final BitSet seen = new BitSet();
    private long count;
    private long recent;
    private long recentCorrect;

    Results(String servers, String topic, Points points) {
        this.points = points;
        consumer = new KafkaConsumer<>(Map.of("bootstrap.servers", servers, "isolation.level", "read_committed",
                "auto.offset.reset", "earliest", "enable.metrics.push", "false"), new ByteArrayDeserializer(),
                new ByteArrayDeserializer());
        consumer.assign(List.of(new TopicPartition(topic, 0)));
    }

    /** Reads the results that have arrived; waits no longer than {@code wait}. */
    void read(Duration wait) {
        for (ConsumerRecord<byte[], byte[]> result : consumer.poll(wait)) {
            long id = ByteBuffer.wrap(result.key()).getLong();
            ByteBuffer logits = ByteBuffer.wrap(result.value()).order(ByteOrder.LITTLE_ENDIAN);
            seen.set((int) id);
            count++;
            recent++;
            recentCorrect += (logits.getFloat() < logits.getFloat() ? 1 : 0) == points.side(id) ? 1 : 0;
        }
    }

    long count() {
        return count;
    }

    /** Returns how many different records have a result. */
    long distinct() {
        return seen.cardinality();
    }

    /** Returns the share of correct results since the previous call. */
    double recentAccuracy() {
        double accuracy = recent == 0 ? Double.NaN : (double) recentCorrect / recent;
        recent = 0;
        recentCorrect = 0;
        return accuracy;
    }

    @Override
    public void close() {
        consumer.close();
    }
}
