package dev.starling.kafka;

import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;

/** The names of the record headers that Starling writes; all values are UTF-8 text. */
public final class StreamHeaders {
    /** On a result: the name of the model that scored it. */
    public static final String MODEL = "starling.model";
    /** On a result: the version of the model that scored it. */
    public static final String VERSION = "starling.version";
    /** On a dead letter: why the record cannot be used. */
    public static final String ERROR = "starling.error";
    /** On a dead letter: the topic of the record. */
    public static final String TOPIC = "starling.topic";
    /** On a dead letter: the partition of the record. */
    public static final String PARTITION = "starling.partition";
    /** On a dead letter: the offset of the record. */
    public static final String OFFSET = "starling.offset";

    /** On a dead letter: the parts of the record that are omitted because it is too large, for example the value. */
    public static final String OMITTED = "starling.omitted";
    /** Upper bound of the bytes that Kafka adds to a record. */
    private static final int OVERHEAD = 128;
    /** Upper bound of the bytes that Kafka adds to a header. */
    private static final int HEADER_OVERHEAD = 10;

    private StreamHeaders() {
    }

    /** Returns the last value of a header, or {@code null} if the record has none of that name. */
    public static String text(Headers headers, String name) {
        Header header = headers.lastHeader(name);
        return header == null || header.value() == null ? null : new String(header.value(), StandardCharsets.UTF_8);
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** Returns an upper bound of the size of headers in bytes. */
    static long bytes(Headers headers) {
        long bytes = 0;
        for (Header header : headers) {
            bytes += HEADER_OVERHEAD + bytes(header.key()).length
                    + (header.value() == null ? 0 : header.value().length);
        }
        return bytes;
    }

    /** Returns an upper bound of the uncompressed size of a record in bytes. */
    static long bytes(byte[] key, byte[] value, Headers headers) {
        return OVERHEAD + (key == null ? 0 : key.length) + (value == null ? 0L : value.length) + bytes(headers);
    }

    static void put(Headers headers, String name, String text) {
        headers.add(name, bytes(text));
    }

    /** Adds the headers of a result: the name and version of its model. */
    static void scored(Headers headers, ModelVersion version) {
        put(headers, MODEL, version.name());
        put(headers, VERSION, Long.toString(version.version()));
    }

    /** Adds the headers of a dead letter: the error and where the record comes from. */
    static void dead(Headers headers, String error, String topic, int partition, long offset) {
        put(headers, ERROR, error);
        put(headers, TOPIC, topic);
        put(headers, PARTITION, Integer.toString(partition));
        put(headers, OFFSET, Long.toString(offset));
    }
}
