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
 * Follows the topic of models on its own thread; serves each announced version once it is loaded and checked. A version
 * that cannot be served is logged and reported to the caller; the version before it stays in service.
 */
final class ModelWatch implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger("dev.starling.kafka");
    private static final Duration POLL_INTERVAL = Duration.ofMillis(100);
    /** Maximum number of this model's announcements tried at the start: the latest, if the topic is not compacted. */
    private static final int MAX_TRIED = 1000;

    private final KafkaCluster cluster;
    private final String topic;
    private final String name;
    private final ModelLoader loader;
    private final LiveModel live;
    private final Consumer<DeadLetter> refusals;
    private final org.apache.kafka.clients.consumer.Consumer<byte[], byte[]> consumer;
    private final Thread thread;
    private final CountDownLatch closed = new CountDownLatch(1);
    /** The highest version number announced, served or refused; -1 before the first. */
    private volatile long maxVersion = -1;

    /**
     * Loads the last announced version that can be served, then watches.
     *
     * @param columns of the rows that the model scores
     * @param refusals receives refused announcements with the reason; called on this thread and on the watch's own
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
                throw cluster.noAnswer("topic " + topic, null);
            }
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL_INTERVAL)) {
                if (concernsModel(record)) {
                    announced.add(record);
                }
                if (announced.size() > MAX_TRIED) {
                    recordVersion(announced.remove());
                }
            }
        }
        boolean serves = false;
        while (!announced.isEmpty()) {
            ConsumerRecord<byte[], byte[]> record = announced.removeLast();
            if (serves) {
                recordVersion(record);
            } else {
                serves = receive(record);
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
                    for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL_INTERVAL)) {
                        if (closed.getCount() > 0 && concernsModel(record)) {
                            receive(record);
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

    /** Returns whether a record announces this model or is malformed; its key is not read, since it may be absent. */
    private boolean concernsModel(ConsumerRecord<byte[], byte[]> record) {
        try {
            return record.value() != null && ModelVersion.ofJson(record.value()).name().equals(name);
        } catch (StreamException e) {
            return true;
        }
    }

    /** Records the number of a version that a later one has replaced. */
    private void recordVersion(ConsumerRecord<byte[], byte[]> record) {
        try {
            recordVersion(ModelVersion.ofJson(record.value()));
        } catch (StreamException e) {
            LOG.log(Level.DEBUG, "a malformed announcement is ignored, since a later one serves", e);
        }
    }

    private void recordVersion(ModelVersion version) {
        maxVersion = Math.max(maxVersion, version.version());
    }

    /** Returns the highest version number announced, served or refused; -1 if there is none. */
    long maxVersion() {
        return maxVersion;
    }

    /** Serves the version that a record announces; returns false if it is refused. */
    private boolean receive(ConsumerRecord<byte[], byte[]> record) {
        try {
            ModelVersion version = ModelVersion.ofJson(record.value());
            recordVersion(version);
            if (!version.equals(live.version())) {
                live.swap(loader.load(version));
                LOG.log(Level.INFO, "{0} from {1} serves now", version, version.uri());
            }
            return true;
        } catch (RuntimeException | Error e) {
            // Errors too: a factory that lacks a class or memory, or asserts, must not end the watch, which later
            // models need.
            String reason = e.getMessage() == null || e instanceof Error ? e.toString() : e.getMessage();
            ModelVersion old = live.version();
            LOG.log(Level.ERROR, "topic " + topic + ", partition " + record.partition() + ", offset "
                    + record.offset() + ": " + reason + "; "
                    + (old == null ? "no version serves yet" : old + " keeps serving"));
            refusals.accept(DeadLetter.of(record, reason, cluster.maxRecordBytes()));
            return false;
        }
    }

    /** Stops the thread; the served model stays open. */
    @Override
    public void close() {
        closed.countDown();
        try {
            // Longer than a poll and closing the consumer; only reading a file from a slow store may take longer.
            thread.join(cluster.deadline().plusSeconds(3));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
