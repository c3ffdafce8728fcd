package dev.starling.kafka;

import dev.starling.nn.Parameter;
import dev.starling.nn.checkpoint.CheckpointException;
import dev.starling.nn.checkpoint.SafeTensors;
import java.io.ByteArrayOutputStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * The weights of a site at one time, with their mass: a safetensors file, cut into parts that fit a broker's default
 * limit. All parts have the site as their key, so that they lie in one partition, in order.
 */
record SiteNews(String site, double mass, long timestamp, SafeTensors weights) implements AutoCloseable {
    private static final String PART = "starling.part";
    private static final String MASS = "starling.mass";
    private static final int PART_BYTES = 512 * 1024;
    private static final int MAX_PARTS = 1 << 12;

    /** Cuts weights into records. */
    static List<ProducerRecord<byte[], byte[]>> parts(String topic, String site, long number, double mass,
            Map<String, Parameter> weights) {
        byte[] file = SafeTensors.bytes(weights, Map.of(MASS, Double.toString(mass)));
        int count = Math.max(1, Math.ceilDiv(file.length, PART_BYTES));
        List<ProducerRecord<byte[], byte[]>> parts = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            int from = i * PART_BYTES;
            byte[] part = Arrays.copyOfRange(file, from, Math.min(file.length, from + PART_BYTES));
            ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, StreamHeaders.bytes(site), part);
            StreamHeaders.put(record.headers(), PART, number + " " + i + " " + count);
            parts.add(record);
        }
        return parts;
    }

    @Override
    public void close() {
        weights.close();
    }

    /** Puts the parts of one site together again. A part that is missing costs the news it belongs to. */
    static final class Assembly {
        private final String site;
        private final ByteArrayOutputStream file = new ByteArrayOutputStream();
        private String number = "";
        private int next;

        Assembly(String site) {
            this.site = site;
        }

        /**
         * Takes a part; returns the news that it completes, or {@code null}.
         *
         * @throws StreamException if what was put together is malformed
         */
        SiteNews take(ConsumerRecord<byte[], byte[]> record) {
            String part = StreamHeaders.text(record.headers(), PART);
            if (part == null || !part.matches("\\d{1,18} \\d{1,4} \\d{1,4}") || record.value() == null) {
                throw new StreamException("is no part of a site's weights");
            }
            String[] fields = part.split(" ");
            int index = Integer.parseInt(fields[1]);
            int count = Integer.parseInt(fields[2]);
            if (index == 0) {
                number = fields[0];
                next = 0;
                file.reset();
            }
            if (!number.equals(fields[0]) || index != next || count > MAX_PARTS) {
                number = "";
                file.reset();
                return null;
            }
            file.writeBytes(record.value());
            next++;
            if (next < count) {
                return null;
            }
            number = "";
            byte[] whole = file.toByteArray();
            file.reset();
            return news(record.timestamp(), whole);
        }

        private SiteNews news(long timestamp, byte[] whole) {
            try {
                SafeTensors weights = SafeTensors.of(whole);
                double mass = Double.parseDouble(weights.metadata().getOrDefault(MASS, ""));
                if (!(mass > 0 && mass < 1e9)) {
                    throw new StreamException("the mass must be above 0, got " + mass);
                }
                return new SiteNews(site, mass, timestamp, weights);
            } catch (CheckpointException | NumberFormatException e) {
                throw new StreamException("the weights are malformed: " + e.getMessage(), e);
            }
        }
    }
}
