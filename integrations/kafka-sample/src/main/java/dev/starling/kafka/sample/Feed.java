package dev.starling.kafka.sample;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Writes points at a constant rate: each point to the topic to score, and with its side to the labelled topic. */
final class Feed implements Runnable {
    static final String POINTS = "points";
    static final String LABELLED = "points.labelled";
    private static final long TICK_NS = 10_000_000;

    private final String servers;
    private final Points points;
    private final long records;
    private final int perSecond;
    private final AtomicLong written = new AtomicLong();
    private volatile boolean stopped;

    Feed(String servers, Points points, long records, int perSecond) {
        this.servers = servers;
        this.points = points;
        this.records = records;
        this.perSecond = perSecond;
    }

    @Override
    public void run() {
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(Map.of("bootstrap.servers", servers,
                "linger.ms", 5, "enable.metrics.push", "false"), new ByteArraySerializer(),
                new ByteArraySerializer())) {
            long start = System.nanoTime();
            while (!stopped && written.get() < records) {
                long due = Math.min(records, (System.nanoTime() - start) / 1000 * perSecond / 1_000_000);
                while (written.get() < due) {
                    send(producer, written.get());
                    written.incrementAndGet();
                }
                LockSupport.parkNanos(TICK_NS);
            }
        }
    }

    private void send(KafkaProducer<byte[], byte[]> producer, long id) {
        byte[] key = ByteBuffer.allocate(Long.BYTES).putLong(id).array();
        float[] place = Points.place(id);
        producer.send(new ProducerRecord<>(POINTS, key, row(place[0], place[1])));
        producer.send(new ProducerRecord<>(LABELLED, key, row(place[0], place[1], points.side(id))));
    }

    private static byte[] row(float... numbers) {
        ByteBuffer row = ByteBuffer.allocate(numbers.length * Float.BYTES).order(ByteOrder.LITTLE_ENDIAN);
        row.asFloatBuffer().put(numbers);
        return row.array();
    }

    long written() {
        return written.get();
    }

    boolean isDone() {
        return stopped || written.get() >= records;
    }

    void stop() {
        stopped = true;
    }
}
