package dev.starling.kafka;

import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.function.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;

/**
 * Follows the topic of models on a thread of its own and swaps each announced version in, once it is whole. A version
 * that cannot be served is logged and handed to the caller; the one before it goes on.
 */
final class ModelWatch implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger("dev.starling.kafka");
    private static final Duration NAP = Duration.ofMillis(100);

    private final KafkaCluster cluster;
    private final String topic;
    private final String name;
    private final ModelLoader loader;
    private final LiveModel live;
    private final Consumer<DeadLetter> refusals;
    private final org.apache.kafka.clients.consumer.Consumer<byte[], byte[]> consumer;
    private final Thread thread;
    private volatile boolean closed;
    /** The greatest number among all versions announced, served or refused; -1 before the first. */
    private volatile long greatest = -1;

    /**
     * Takes over the last announced version that can be served, then watches.
     *
     * @param columns of the rows that the model takes
     * @param refusals takes announcements that are refused, with the reason; on this thread and on the watching one
     * @throws StreamException if the topic cannot be read within the cluster's deadline
     */
    ModelWatch(KafkaCluster cluster, ModelTopic source, int columns, LiveModel live, Consumer<DeadLetter> refusals) {
        this.cluster = cluster;
        topic = source.topic();
        name = source.name();
        loader = new ModelLoader(source, columns);
        this.live = live;
        this.refusals = refusals;
        consumer = cluster.consumer(Map.of());
        try {
            catchUp();
        } catch (RuntimeException e) {
            KafkaCluster.close(consumer);
            throw e;
        }
        thread = Thread.ofPlatform().daemon().name("starling-models-" + name).unstarted(this::watch);
        thread.start();
    }

    /** Reads all that was announced so far, and serves the last version that can be. */
    private void catchUp() {
        List<TopicPartition> partitions = cluster.partitions(consumer, topic);
        consumer.assign(partitions);
        consumer.seekToBeginning(partitions);
        List<ConsumerRecord<byte[], byte[]>> announced = new ArrayList<>();
        long end = System.nanoTime() + cluster.deadline().toNanos();
        try {
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions, cluster.deadline());
            while (ends.entrySet().stream().anyMatch(e -> consumer.position(e.getKey()) < e.getValue())) {
                if (System.nanoTime() > end) {
                    throw cluster.away("topic " + topic, null);
                }
                consumer.poll(NAP).forEach(announced::add);
            }
        } catch (TimeoutException e) {
            throw cluster.away("topic " + topic, e);
        }
        boolean serves = false;
        for (ConsumerRecord<byte[], byte[]> record : announced.reversed()) {
            serves = serves ? note(record) : take(record);
        }
    }

    /** Throws if no version serves. */
    void requireModel(Queue<DeadLetter> refused) {
        if (live.version() == null) {
            String reason = refused.isEmpty() ? "none is announced" : refused.peek().error();
            close();
            throw new StreamException("no version of " + name + " on topic " + topic + " can be served: " + reason
                    + "; announce one with ModelPublisher");
        }
    }

    private void watch() {
        while (!closed) {
            try {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(NAP)) {
                    take(record);
                }
            } catch (KafkaException e) {
                LOG.log(Level.ERROR, "topic " + topic + " cannot be read; " + live.version() + " goes on", e);
                pause();
            }
        }
        KafkaCluster.close(consumer);
    }

    private void pause() {
        try {
            Thread.sleep(1000);
        } catch (InterruptedException e) {
            closed = true;
        }
    }

    /** Takes notice of a version that another has replaced already. */
    private boolean note(ConsumerRecord<byte[], byte[]> record) {
        try {
            if (record.value() != null) {
                note(ModelVersion.ofJson(record.value()));
            }
        } catch (StreamException e) {
            LOG.log(Level.DEBUG, "a malformed announcement is passed over, since a later one serves", e);
        }
        return true;
    }

    private void note(ModelVersion version) {
        if (version.name().equals(name)) {
            greatest = Math.max(greatest, version.version());
        }
    }

    /** Returns the greatest number among all versions announced, whether served or refused; -1 if there is none. */
    long greatest() {
        return greatest;
    }

    /** Swaps in what a record announces; returns false if it is of another model or is refused. */
    private boolean take(ConsumerRecord<byte[], byte[]> record) {
        if (record.value() == null) {
            return false;
        }
        try {
            ModelVersion version = ModelVersion.ofJson(record.value());
            if (!version.name().equals(name)) {
                return false;
            }
            note(version);
            if (!version.equals(live.version())) {
                live.swap(loader.load(version));
                LOG.log(Level.INFO, "{0} from {1} serves now", version, version.uri());
            }
            return true;
        } catch (RuntimeException e) {
            ModelVersion old = live.version();
            LOG.log(Level.ERROR, "topic " + topic + ", partition " + record.partition() + ", offset "
                    + record.offset() + ": " + e.getMessage() + "; "
                    + (old == null ? "no version serves yet" : old + " goes on"));
            refusals.accept(new DeadLetter(record, e.getMessage()));
            return false;
        }
    }

    /** Stops the thread; the model that serves stays. */
    @Override
    public void close() {
        closed = true;
        try {
            // Longer than a poll and the closing of the consumer; a slow store may take longer to read a file.
            thread.join(cluster.deadline().plusSeconds(3));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
