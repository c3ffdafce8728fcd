package dev.starling.kafka;

import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;

/** The names of the record headers that Starling writes; all values are texts in UTF-8. */
public final class StreamHeaders {
    /** On a result: the name of the model that scored it. */
    public static final String MODEL = "starling.model";
    /** On a result: the version of the model that scored it. */
    public static final String VERSION = "starling.version";
    /** On a dead letter: what is wrong. */
    public static final String ERROR = "starling.error";
    /** On a dead letter: the topic that it comes from. */
    public static final String TOPIC = "starling.topic";
    /** On a dead letter: the partition that it comes from. */
    public static final String PARTITION = "starling.partition";
    /** On a dead letter: the offset that it comes from. */
    public static final String OFFSET = "starling.offset";

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

    static void put(Headers headers, String name, String text) {
        headers.add(name, bytes(text));
    }

    /** Adds what a result says of its model. */
    static void scored(Headers headers, ModelVersion version) {
        put(headers, MODEL, version.name());
        put(headers, VERSION, Long.toString(version.version()));
    }

    /** Adds what a dead letter says of its origin. */
    static void dead(Headers headers, String error, String topic, int partition, long offset) {
        put(headers, ERROR, error);
        put(headers, TOPIC, topic);
        put(headers, PARTITION, Integer.toString(partition));
        put(headers, OFFSET, Long.toString(offset));
    }
}
