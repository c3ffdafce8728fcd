package dev.starling.kafka;

import dev.starling.nn.Parameter;
import dev.starling.nn.checkpoint.CheckpointException;
import dev.starling.nn.checkpoint.SafeTensors;
import java.io.ByteArrayOutputStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.zip.CRC32C;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * The weights of a site at one step, with their mass: a safetensors file, cut into parts that are smaller than a
 * broker's default limit. The key of all parts is the site, so that they lie in order in one partition; each has the
 * checksum of the file in a header.
 */
record SiteUpdate(String site, double mass, long timestamp, SafeTensors weights) implements AutoCloseable {
    /** Number of the publication, index of the part, count of parts, CRC-32C of the file. */
    private static final String PART = "starling.part";
    private static final String MASS = "starling.mass";
    private static final int PART_BYTES = 512 * 1024;

    /** Returns the records that publish weights, one for each part. */
    static List<ProducerRecord<byte[], byte[]>> parts(String topic, String site, long number, double mass,
            Map<String, Parameter> weights) {
        byte[] file = SafeTensors.bytes(weights, Map.of(MASS, Double.toString(mass)));
        int count = Math.max(1, Math.ceilDiv(file.length, PART_BYTES));
        String checksum = checksum(file);
        List<ProducerRecord<byte[], byte[]>> parts = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            int from = i * PART_BYTES;
            byte[] part = Arrays.copyOfRange(file, from, Math.min(file.length, from + PART_BYTES));
            ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, StreamHeaders.bytes(site), part);
            StreamHeaders.put(record.headers(), PART, number + " " + i + " " + count + " " + checksum);
            parts.add(record);
        }
        return parts;
    }

    private static String checksum(byte[] file) {
        CRC32C crc = new CRC32C();
        crc.update(file);
        return Long.toHexString(crc.getValue());
    }

    @Override
    public void close() {
        weights.close();
    }

    /** Assembles the parts of one site. A publication of which a part is missing is discarded. */
    static final class Assembly {
        private final String site;
        private final long maxBytes;
        private final ByteArrayOutputStream file = new ByteArrayOutputStream();
        /** The header of the first part without the index; empty if no part was received. */
        private String begun = "";
        private int next;
        private long receivedNs = System.nanoTime();

        /**
         * Creates an assembly.
         *
         * @param maxBytes the largest size of a file
         */
        Assembly(String site, long maxBytes) {
            this.site = site;
            this.maxBytes = maxBytes;
        }

        /** Returns when the last part was received, by {@link System#nanoTime}. */
        long receivedNs() {
            return receivedNs;
        }

        /**
         * Adds a part; returns the update that it completes, or {@code null}.
         *
         * @throws StreamException if the part, or the file that it completes, is malformed or too large
         */
        SiteUpdate add(ConsumerRecord<byte[], byte[]> record) {
            receivedNs = System.nanoTime();
            String part = StreamHeaders.text(record.headers(), PART);
            if (part == null || !part.matches("\\d{1,18} \\d{1,4} \\d{1,4} [0-9a-f]{1,8}") || record.value() == null) {
                throw new StreamException("the record is no part of a site's weights");
            }
            String[] fields = part.split(" ");
            int index = Integer.parseInt(fields[1]);
            int count = Integer.parseInt(fields[2]);
            String publication = fields[0] + " " + fields[2] + " " + fields[3];
            if (index == 0) {
                begun = publication;
                next = 0;
                file.reset();
            }
            if (!begun.equals(publication) || index != next) {
                reset();
                return null;
            }
            if (record.value().length > PART_BYTES || file.size() + (long) record.value().length > maxBytes) {
                reset();
                throw new StreamException("the weights are too large: part " + index + " of " + count + " has "
                        + record.value().length + " bytes, at most " + PART_BYTES + " and in all " + maxBytes
                        + " are accepted for this model");
            }
            file.writeBytes(record.value());
            next++;
            if (next < count) {
                return null;
            }
            byte[] whole = file.toByteArray();
            reset();
            if (!checksum(whole).equals(fields[3])) {
                throw new StreamException("the weights have the CRC-32C " + checksum(whole) + ", their header says "
                        + fields[3]);
            }
            return update(record.timestamp(), whole);
        }

        private void reset() {
            begun = "";
            file.reset();
        }

        private SiteUpdate update(long timestamp, byte[] whole) {
            try {
                SafeTensors weights = SafeTensors.of(whole);
                double mass = Double.parseDouble(weights.metadata().getOrDefault(MASS, ""));
                if (!(mass > 0 && mass < 1e9)) {
                    throw new StreamException("the mass must be above 0 and below 1e9, got " + mass);
                }
                return new SiteUpdate(site, mass, timestamp, weights);
            } catch (CheckpointException | NumberFormatException e) {
                throw new StreamException("the weights are malformed: " + e.getMessage(), e);
            }
        }
    }
}
