package dev.starling.kafka;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;

/**
 * A record that cannot be used; headers hold the reason and where the record comes from. Key, headers and value are
 * copied from the record up to {@link #MAX_BYTES} bytes in all, and to half of the largest record that the producer
 * sends: a record of that size would not fit into a dead letter with further headers, and would stop the stream
 * permanently.
 */
record DeadLetter(byte[] key, byte[] value, Headers headers, long timestamp) {
    /** Half of what brokers and producers accept by default. */
    static final int MAX_BYTES = 512 * 1024;
    private static final int MAX_ERROR = 2000;

    /**
     * Creates a dead letter.
     *
     * @param maxRecordBytes the size of the largest record that the producer sends
     */
    static DeadLetter of(ConsumerRecord<byte[], byte[]> source, String error, long maxRecordBytes) {
        return of(source.key(), source.value(), source.headers(), source.timestamp(), error, source.topic(),
                source.partition(), source.offset(), maxRecordBytes);
    }

    static DeadLetter of(byte[] key, byte[] value, Headers headers, long timestamp, String error, String topic,
            int partition, long offset, long maxRecordBytes) {
        int room = (int) Math.min(MAX_BYTES, maxRecordBytes / 2);
        StringBuilder omitted = new StringBuilder();
        byte[] keptKey = kept("key", key, room, omitted);
        room -= keptKey == null ? 0 : keptKey.length;
        Headers keptHeaders = new RecordHeaders();
        long headerBytes = StreamHeaders.bytes(headers);
        if (headerBytes <= room) {
            headers.forEach(keptHeaders::add);
            room -= (int) headerBytes;
        } else {
            omit("headers", headerBytes, omitted);
        }
        byte[] keptValue = kept("value", value, room, omitted);
        StreamHeaders.dead(keptHeaders, error.length() > MAX_ERROR ? error.substring(0, MAX_ERROR) + "…"
                : error, topic, partition, offset);
        if (!omitted.isEmpty()) {
            StreamHeaders.put(keptHeaders, StreamHeaders.OMITTED, omitted.toString());
        }
        return new DeadLetter(keptKey, keptValue, keptHeaders, timestamp);
    }

    private static byte[] kept(String part, byte[] bytes, int room, StringBuilder omitted) {
        if (bytes == null || bytes.length <= room) {
            return bytes;
        }
        omit(part, bytes.length, omitted);
        return null;
    }

    private static void omit(String part, long bytes, StringBuilder omitted) {
        omitted.append(omitted.isEmpty() ? "" : ", ").append(part).append(" of ").append(bytes).append(" bytes");
    }

    String error() {
        return StreamHeaders.text(headers, StreamHeaders.ERROR);
    }

    /** Returns the record for the topic of dead letters. */
    ProducerRecord<byte[], byte[]> toTopic(String topic) {
        return new ProducerRecord<>(topic, null, null, key, value, headers);
    }
}
