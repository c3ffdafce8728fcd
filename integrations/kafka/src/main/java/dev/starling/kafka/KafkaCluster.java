package dev.starling.kafka;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The addresses of the brokers, the settings of Kafka's clients, and how long a request may take. Immutable. {@link
 * #toString} contains no settings, which may be secret.
 */
public final class KafkaCluster {
    private final String servers;
    private final Duration deadline;
    private final Map<String, String> settings;

    private KafkaCluster(String servers, Duration deadline, Map<String, String> settings) {
        this.servers = servers;
        this.deadline = deadline;
        this.settings = Map.copyOf(settings);
    }

    /**
     * Names the brokers; a request waits at most 30 s for an answer.
     *
     * @param servers as in {@code bootstrap.servers}: {@code host:port,host:port}
     */
    public static KafkaCluster at(String servers) {
        return new KafkaCluster(servers, Duration.ofSeconds(30), Map.of());
    }

    /** Returns these brokers with another deadline, of 1 s to 1 hour. */
    public KafkaCluster deadline(Duration limit) {
        if (limit.compareTo(Duration.ofSeconds(1)) < 0 || limit.compareTo(Duration.ofHours(1)) > 0) {
            throw new StreamException("the deadline must be 1 s to 1 hour, got " + limit);
        }
        return new KafkaCluster(servers, limit, settings);
    }

    /** Returns these brokers with a setting of Kafka's clients, for example {@code security.protocol}. */
    public KafkaCluster with(String name, String value) {
        Map<String, String> more = new HashMap<>(settings);
        more.put(name, value);
        return new KafkaCluster(servers, deadline, more);
    }

    /** Returns how long a request may take. */
    public Duration deadline() {
        return deadline;
    }

    /** Returns how long a transaction may take: the deadline, but at most 15 minutes, the default limit of brokers. */
    int transactionTimeoutMs() {
        return (int) Math.min(deadline.toMillis(), Duration.ofMinutes(15).toMillis());
    }

    /** Returns the size of the largest record that a producer sends, in bytes. */
    long maxRecordBytes() {
        try {
            return Long.parseLong(settings.getOrDefault("max.request.size", "1048576"));
        } catch (NumberFormatException e) {
            throw new StreamException("max.request.size must be a whole number of bytes, got "
                    + settings.get("max.request.size"), e);
        }
    }

    /** Returns the settings that all clients have in common. */
    Map<String, Object> settings() {
        Map<String, Object> all = new HashMap<>();
        long deadlineMs = deadline.toMillis();
        all.put("bootstrap.servers", servers);
        // Kafka's clients send metrics to brokers that ask for them.
        all.put("enable.metrics.push", "false");
        all.put("request.timeout.ms", (int) Math.min(30_000, deadlineMs * 3 / 4));
        all.putAll(settings);
        return all;
    }

    /** Creates a consumer that reads committed records only and commits no offsets. The caller closes it. */
    Consumer<byte[], byte[]> consumer(Map<String, Object> own) {
        Map<String, Object> all = settings();
        all.put("enable.auto.commit", "false");
        all.put("isolation.level", "read_committed");
        all.put("auto.offset.reset", "earliest");
        all.put("allow.auto.create.topics", "false");
        all.put("default.api.timeout.ms", (int) deadline.toMillis());
        all.putAll(own);
        try {
            return new KafkaConsumer<>(all, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        } catch (KafkaException e) {
            throw creationFailure("a consumer", e);
        }
    }

    /** Creates an idempotent producer whose records arrive or fail within the deadline. The caller closes it. */
    Producer<byte[], byte[]> producer(Map<String, Object> own) {
        Map<String, Object> all = settings();
        all.put("enable.idempotence", "true");
        all.put("acks", "all");
        all.put("max.block.ms", deadline.toMillis());
        all.put("delivery.timeout.ms", (int) deadline.toMillis());
        all.putAll(own);
        try {
            return new KafkaProducer<>(all, new ByteArraySerializer(), new ByteArraySerializer());
        } catch (KafkaException e) {
            throw creationFailure("a producer", e);
        }
    }

    private StreamException creationFailure(String client, KafkaException e) {
        Throwable reason = e.getCause() == null ? e : e.getCause();
        return new StreamException(client + " of " + this + " cannot be created: " + reason.getMessage()
                + "; correct the address or the settings", e);
    }

    /** Returns the partitions of a topic; throws if there is no such topic. */
    List<TopicPartition> partitions(Consumer<byte[], byte[]> consumer, String topic) {
        List<PartitionInfo> found;
        try {
            found = consumer.partitionsFor(topic, deadline);
        } catch (TimeoutException e) {
            throw noAnswer("topic " + topic, e);
        } catch (KafkaException e) {
            throw new StreamException("topic " + topic + " at " + this + " cannot be read: " + e.getMessage(), e);
        }
        if (found == null || found.isEmpty()) {
            throw new StreamException("there is no topic " + topic + " at " + this + "; create it first");
        }
        return found.stream().map(p -> new TopicPartition(topic, p.partition())).toList();
    }

    /** Returns the id of a topic, which no deleted topic of its name and no topic of other brokers has. */
    String topicId(String topic) {
        Map<String, Object> all = settings();
        all.put("default.api.timeout.ms", (int) deadline.toMillis());
        try (Admin admin = Admin.create(all)) {
            return admin.describeTopics(List.of(topic)).topicNameValues().get(topic).get().topicId().toString();
        } catch (ExecutionException e) {
            if (e.getCause() instanceof TimeoutException) {
                throw noAnswer("topic " + topic, e);
            }
            throw new StreamException("topic " + topic + " at " + this + " cannot be described: "
                    + e.getCause().getMessage(), e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new StreamException("interrupted while topic " + topic + " at " + this + " was described", e);
        } catch (KafkaException e) {
            throw creationFailure("an admin client", e);
        }
    }

    /**
     * Sends a request to the brokers, which fails if none answers or the topic was deleted: detects lost brokers while
     * no record arrives.
     */
    void requireAnswer(Consumer<byte[], byte[]> consumer, String topic) {
        try {
            consumer.endOffsets(List.of(new TopicPartition(topic, 0)), deadline);
        } catch (TimeoutException e) {
            // The client waits as long for a topic that was deleted, of which it has no partitions then.
            partitions(consumer, topic);
            throw e;
        }
    }

    /** Returns the exception to throw when Kafka's clients report a failure. */
    StreamException failure(String what, KafkaException e) {
        // A transaction that timed out fails with "in an error state"; the reason is the cause.
        if (timeout(e) != null) {
            return noAnswer(what, e);
        }
        Throwable root = e;
        while (root.getCause() != null) {
            root = root.getCause();
        }
        return new StreamException(what + " must stop: " + this + " or their client report: " + e.getMessage()
                + (root == e ? "" : " (" + root.getMessage() + ")"), e);
    }

    /** Returns the first timeout in a chain of causes, or {@code null}. */
    private static TimeoutException timeout(Throwable e) {
        for (Throwable cause = e; cause != null; cause = cause.getCause()) {
            if (cause instanceof TimeoutException timeout) {
                return timeout;
            }
        }
        return null;
    }

    /** Returns the exception to throw when the brokers have not answered within the deadline. */
    StreamException noAnswer(String what, Throwable cause) {
        // The client's message names a topic that it did not find.
        TimeoutException timeout = timeout(cause);
        return new StreamException(what + ": the brokers at " + servers + " have not answered within "
                + deadline.toMillis() / 1000.0 + " s" + (timeout == null ? "" : " (" + timeout.getMessage() + ")")
                + "; check the address, the network, that a broker runs and that the topics exist", cause);
    }

    /** Closes a consumer, within 2 s. */
    static void close(Consumer<byte[], byte[]> consumer) {
        consumer.close(CloseOptions.timeout(Duration.ofSeconds(2)));
    }

    @Override
    public String toString() {
        return "the brokers at " + servers;
    }
}
