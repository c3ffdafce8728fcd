package dev.starling.kafka;

import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/**
 * Follows the topic of models on a thread of its own and swaps each announced version in once it is loaded and checked.
 * A version that cannot be served is logged and handed to the caller; the one before it keeps serving.
 */
final class ModelWatch implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger("dev.starling.kafka");
    private static final Duration NAP = Duration.ofMillis(100);
    /** How many announcements are tried at the start; of a topic that is not compacted yet, the latest. */
    private static final int MAX_TRIED = 1000;
    private static final int LARGEST = 256 * 1024;

    private final KafkaCluster cluster;
    private final String topic;
    private final String name;
    private final ModelLoader loader;
    private final LiveModel live;
    private final Consumer<DeadLetter> refusals;
    private final org.apache.kafka.clients.consumer.Consumer<byte[], byte[]> consumer;
    private final Thread thread;
    private final CountDownLatch closed = new CountDownLatch(1);
    /** The greatest number among all versions announced, served or refused; -1 before the first. */
    private volatile long greatest = -1;

    /**
     * Loads the last announced version that can be served, then watches.
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
        } catch (KafkaException e) {
            KafkaCluster.close(consumer);
            throw cluster.failure("the topic of models " + topic, e);
        } catch (RuntimeException e) {
            KafkaCluster.close(consumer);
            throw e;
        }
        thread = Thread.ofPlatform().daemon().name("starling-models-" + name).unstarted(this::watch);
        thread.start();
    }

    /** Reads all announcements so far, and serves the last version that can be served. */
    private void catchUp() {
        List<TopicPartition> partitions = cluster.partitions(consumer, topic);
        consumer.assign(partitions);
        consumer.seekToBeginning(partitions);
        Deque<ConsumerRecord<byte[], byte[]>> announced = new ArrayDeque<>();
        long end = System.nanoTime() + cluster.deadline().toNanos();
        Map<TopicPartition, Long> ends = consumer.endOffsets(partitions, cluster.deadline());
        while (ends.entrySet().stream().anyMatch(e -> consumer.position(e.getKey()) < e.getValue())) {
            if (System.nanoTime() > end) {
                throw cluster.away("topic " + topic, null);
            }
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(NAP)) {
                announced.add(record);
                if (announced.size() > MAX_TRIED) {
                    note(announced.remove());
                }
            }
        }
        boolean serves = false;
        while (!announced.isEmpty()) {
            ConsumerRecord<byte[], byte[]> record = announced.removeLast();
            if (serves) {
                note(record);
            } else {
                serves = take(record);
            }
        }
    }

    /** Throws if no version serves. */
    void requireModel(Queue<DeadLetter> refused) {
        if (live.version() == null) {
            String reason = refused.isEmpty() ? "none is announced" : refused.peek().error();
            throw new StreamException("no version of " + name + " on topic " + topic + " at " + cluster
                    + " can be served: " + reason + "; announce one with ModelPublisher");
        }
    }

    private void watch() {
        String problem = "";
        try {
            while (closed.getCount() > 0) {
                try {
                    for (ConsumerRecord<byte[], byte[]> record : consumer.poll(NAP)) {
                        if (closed.getCount() > 0) {
                            take(record);
                        }
                    }
                } catch (KafkaException e) {
                    if (!problem.equals(e.toString())) {
                        LOG.log(Level.ERROR, "topic " + topic + " at " + cluster + " cannot be read, " + live.version()
                                + " keeps serving: " + e.getMessage(), e);
                        problem = e.toString();
                    }
                    closed.await(1, TimeUnit.SECONDS);
                }
            }
        } catch (InterruptedException e) {
            LOG.log(Level.WARNING, "topic {0} is not watched any more: the thread was interrupted", topic);
        } finally {
            KafkaCluster.close(consumer);
        }
    }

    /** Notes the number of a version that a later one has replaced already. */
    private void note(ConsumerRecord<byte[], byte[]> record) {
        try {
            if (record.value() != null) {
                note(version(record));
            }
        } catch (StreamException e) {
            LOG.log(Level.DEBUG, "a malformed announcement is ignored, since a later one serves", e);
        }
    }

    private void note(ModelVersion version) {
        if (version.name().equals(name)) {
            greatest = Math.max(greatest, version.version());
        }
    }

    private static ModelVersion version(ConsumerRecord<byte[], byte[]> record) {
        if (record.value().length > LARGEST) {
            throw new StreamException("an announcement must have at most " + LARGEST + " bytes, got "
                    + record.value().length);
        }
        return ModelVersion.ofJson(record.value());
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
            ModelVersion version = version(record);
            if (!version.name().equals(name)) {
                return false;
            }
            note(version);
            if (!version.equals(live.version())) {
                live.swap(loader.load(version));
                LOG.log(Level.INFO, "{0} from {1} serves now", version, version.uri());
            }
            return true;
        } catch (RuntimeException | LinkageError | OutOfMemoryError e) {
            // Errors too: a model that lacks a class or memory must not end the watching of later ones.
            String reason = e.getMessage() == null || e instanceof Error ? e.toString() : e.getMessage();
            ModelVersion old = live.version();
            LOG.log(Level.ERROR, "topic " + topic + ", partition " + record.partition() + ", offset "
                    + record.offset() + ": " + reason + "; "
                    + (old == null ? "no version serves yet" : old + " keeps serving"));
            refusals.accept(DeadLetter.of(record, reason));
            return false;
        }
    }

    /** Stops the thread; the model that serves stays. */
    @Override
    public void close() {
        closed.countDown();
        try {
            // Longer than a poll and the closing of the consumer; a slow store may take longer to read a file.
            thread.join(cluster.deadline().plusSeconds(3));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
