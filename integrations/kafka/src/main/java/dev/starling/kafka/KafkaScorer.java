package dev.starling.kafka;

import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;

/**
 * Scores the records of a topic, each exactly once: a batch of records, one model, one forward pass, one transaction
 * that holds results, dead letters and offsets. The model is swapped between two batches, never within one. After a
 * crash, another scorer of the same {@link Builder#instance} takes the place of the one that is gone at once.
 *
 * <pre>{@code
 * try (KafkaScorer scorer = KafkaScorer.of(KafkaCluster.at("localhost:9092"), RowCodec.floats(16))
 *         .from("payments").to("scores").deadLetters("payments.dead").model(ModelTopic.of("models", "fraud")).open()) {
 *     scorer.run();
 * }
 * }</pre>
 *
 * <p>One thread runs it; {@link #close} and {@link #counts} may be called by any.
 */
public final class KafkaScorer implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger("dev.starling.kafka");
    private static final Duration IDLE = Duration.ofMillis(100);
    private static final int ATTEMPTS = 5;

    private final Builder how;
    private final LiveModel live = new LiveModel();
    private final Queue<DeadLetter> refusals = new ConcurrentLinkedQueue<>();
    private final List<ConsumerRecord<byte[], byte[]>> pending = new ArrayList<>();
    /** Held by the thread that works. */
    private final ReentrantLock working = new ReentrantLock();
    private Consumer<byte[], byte[]> consumer;
    private Producer<byte[], byte[]> producer;
    private ModelWatch watch;
    private long answeredNs;
    private int failures;
    private volatile boolean closed;
    private volatile ScorerCounts counts = new ScorerCounts(0, 0, 0, 0, 0);

    private KafkaScorer(Builder how) {
        this.how = how;
        try {
            consumer = how.cluster.consumer(Map.of("group.id", how.group, "group.instance.id", how.instance,
                    "max.poll.records", how.batch));
            how.cluster.partitions(consumer, how.from);
            how.cluster.partitions(consumer, how.to);
            how.cluster.partitions(consumer, how.deadLetters);
            watch = new ModelWatch(how.cluster, how.model, how.codec.columns(), live, refusals::add);
            watch.requireModel(refusals);
            producer = how.cluster.producer(Map.of("transactional.id", how.group + "-" + how.instance,
                    "transaction.timeout.ms", (int) how.cluster.deadline().toMillis(),
                    "compression.type", how.compression, "linger.ms", 5));
            producer.initTransactions();
            consumer.subscribe(List.of(how.from), new Revoked());
            answeredNs = System.nanoTime();
        } catch (TimeoutException e) {
            release();
            throw how.cluster.away("the scorer " + how.instance, e);
        } catch (RuntimeException e) {
            release();
            throw e;
        }
    }

    /** Begins a scorer of records that a codec decodes; the same codec encodes results. */
    public static Builder of(KafkaCluster cluster, RowCodec codec) {
        return new Builder(cluster, codec);
    }

    /** Drops records of partitions that others read from now on: those score them. */
    private final class Revoked implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            pending.removeIf(r -> partitions.contains(new TopicPartition(r.topic(), r.partition())));
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            // Their committed offsets are where this scorer begins.
        }
    }

    /**
     * Scores until {@link #close} is called.
     *
     * @throws StreamException if the brokers do not answer within the deadline, or another scorer has taken this one's
     *     place; every record is then scored once by the scorer that comes next
     */
    public void run() {
        while (!closed) {
            step();
        }
    }

    /**
     * Waits up to 100 ms for records, collects more for as long as the latency allows, and scores them.
     *
     * @return how many records were scored or sent to the dead letters
     */
    public int step() {
        working.lock();
        try {
            if (closed) {
                return 0;
            }
            collect();
            if (pending.isEmpty() && refusals.isEmpty()) {
                if (System.nanoTime() - answeredNs > how.cluster.deadline().toNanos() / 3) {
                    how.cluster.requireAnswer(consumer, how.from);
                    answeredNs = System.nanoTime();
                }
                return 0;
            }
            ServedModel model = live.hold();
            try {
                return transact(model);
            } finally {
                model.drop();
            }
        } catch (KafkaException e) {
            throw new StreamException("the scorer " + how.instance + " of group " + how.group + " has to end: "
                    + e.getMessage(), e);
        } finally {
            working.unlock();
        }
    }

    private void collect() {
        long first = 0;
        Duration wait = IDLE;
        while (pending.size() < how.batch && !wait.isNegative()) {
            consumer.poll(wait).forEach(pending::add);
            if (pending.isEmpty()) {
                return;
            }
            first = first == 0 ? System.nanoTime() : first;
            wait = how.latency.minusNanos(System.nanoTime() - first);
        }
    }

    private int transact(ServedModel model) {
        try {
            producer.beginTransaction();
            int dead = send(model);
            int refused = sendRefusals();
            if (!pending.isEmpty()) {
                producer.sendOffsetsToTransaction(offsets(), consumer.groupMetadata());
            }
            producer.commitTransaction();
            int done = pending.size();
            pending.clear();
            for (int i = 0; i < refused; i++) {
                refusals.remove();
            }
            counts = new ScorerCounts(counts.scored() + done - dead, counts.dead() + dead,
                    counts.refused() + refused, counts.batches() + 1, counts.aborted());
            answeredNs = System.nanoTime();
            failures = 0;
            return done;
        } catch (ProducerFencedException | InvalidProducerEpochException | AuthorizationException
                | AuthenticationException e) {
            throw new StreamException("the scorer " + how.instance + " of group " + how.group + " has to end: "
                    + e.getMessage() + "; another of the same instance runs, or it lacks permission", e);
        } catch (KafkaException e) {
            retry(e);
            return 0;
        }
    }

    /** Aborts what failed and goes back to the last committed offsets, a few times. */
    private void retry(KafkaException reason) {
        LOG.log(Level.WARNING, "the scorer {0} aborts a batch of {1} records and begins it again: {2}", how.instance,
                pending.size(), reason.getMessage());
        counts = new ScorerCounts(counts.scored(), counts.dead(), counts.refused(), counts.batches(),
                counts.aborted() + 1);
        try {
            producer.abortTransaction();
            pending.clear();
            consumer.committed(consumer.assignment(), how.cluster.deadline()).forEach((partition, offset) -> {
                if (offset == null) {
                    consumer.seekToBeginning(List.of(partition));
                } else {
                    consumer.seek(partition, offset);
                }
            });
        } catch (KafkaException | IllegalStateException e) {
            reason.addSuppressed(e);
            failures = ATTEMPTS;
        }
        if (++failures >= ATTEMPTS) {
            throw reason instanceof TimeoutException ? how.cluster.away("the scorer " + how.instance, reason)
                    : new StreamException("the scorer " + how.instance + " cannot commit to " + how.cluster + ": "
                    + reason.getMessage(), reason);
        }
    }

    /** Scores what is pending and sends results and dead letters; returns the number of the latter. */
    private int send(ServedModel model) {
        BatchScores scores = BatchScores.of(model, how.codec, pending.stream().map(ConsumerRecord::value).toList());
        for (int i = 0; i < pending.size(); i++) {
            ConsumerRecord<byte[], byte[]> source = pending.get(i);
            if (scores.error(i) != null) {
                producer.send(new DeadLetter(source, scores.error(i)).toTopic(how.deadLetters));
            } else {
                Long time = source.timestamp() < 0 ? null : Long.valueOf(source.timestamp());
                ProducerRecord<byte[], byte[]> result = new ProducerRecord<>(how.to, null, time, source.key(),
                        scores.result(i), source.headers());
                StreamHeaders.scored(result.headers(), model.version());
                producer.send(result);
            }
        }
        return scores.failed();
    }

    /** Sends what is wrong with models; they are removed from the queue when the transaction is committed. */
    private int sendRefusals() {
        int sent = 0;
        for (DeadLetter refusal : refusals) {
            producer.send(refusal.toTopic(how.deadLetters));
            sent++;
        }
        return sent;
    }

    private Map<TopicPartition, OffsetAndMetadata> offsets() {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (ConsumerRecord<byte[], byte[]> r : pending) {
            offsets.put(new TopicPartition(r.topic(), r.partition()),
                    new OffsetAndMetadata(r.offset() + 1, r.leaderEpoch(), ""));
        }
        return offsets;
    }

    /** Returns what was done so far. */
    public ScorerCounts counts() {
        return counts;
    }

    /** Returns the version that serves now. */
    public ModelVersion serving() {
        return live.version();
    }

    /** Lets the batch under way come to its end, then closes; waits for that at most as long as the deadline. */
    @Override
    public void close() {
        closed = true;
        boolean idle = false;
        try {
            idle = working.tryLock(how.cluster.deadline().toMillis() * 2, TimeUnit.MILLISECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        if (!idle) {
            LOG.log(Level.WARNING, "the scorer {0} is still waiting for the brokers; it is left to its thread",
                    how.instance);
            return;
        }
        try {
            release();
        } finally {
            working.unlock();
        }
    }

    private void release() {
        closed = true;
        if (watch != null) {
            watch.close();
            watch = null;
        }
        if (producer != null) {
            producer.close(Duration.ofSeconds(2));
            producer = null;
        }
        if (consumer != null) {
            KafkaCluster.close(consumer);
            consumer = null;
        }
        live.close();
    }

    /** Describes a scorer. */
    public static final class Builder {
        private final KafkaCluster cluster;
        private final RowCodec codec;
        private String from;
        private String to;
        private String deadLetters;
        private ModelTopic model;
        private String group = "starling-scorer";
        private String instance = "1";
        private int batch = 1024;
        private Duration latency = Duration.ofMillis(20);
        private String compression = "lz4";

        private Builder(KafkaCluster cluster, RowCodec codec) {
            this.cluster = cluster;
            this.codec = codec;
        }

        /** Sets the topic of records to score. */
        public Builder from(String topic) {
            from = topic;
            return this;
        }

        /** Sets the topic of results: the record's key, timestamp and headers, and the model's name and version. */
        public Builder to(String topic) {
            to = topic;
            return this;
        }

        /** Sets the topic of records that cannot be scored and of models that cannot be served. */
        public Builder deadLetters(String topic) {
            deadLetters = topic;
            return this;
        }

        /** Sets the model to serve, and the topic on which its versions are announced. */
        public Builder model(ModelTopic announced) {
            model = announced;
            return this;
        }

        /** Sets the group that shares the topic's partitions; {@code starling-scorer} by default. */
        public Builder group(String id) {
            group = id;
            return this;
        }

        /** Sets which scorer of the group this is: the same name after a restart; {@code 1} by default. */
        public Builder instance(String id) {
            instance = id;
            return this;
        }

        /** Sets how many records a batch takes at most, and how long the first of them waits for others. */
        public Builder batch(int records, Duration longest) {
            if (records < 1 || longest.isNegative()) {
                throw new StreamException("a batch must have 1 record or more and a latency of 0 or more, got "
                        + records + " and " + longest);
            }
            batch = records;
            latency = longest;
            return this;
        }

        /** Sets how results are compressed: none, lz4 (default), snappy, gzip or zstd. */
        public Builder compression(String type) {
            compression = type;
            return this;
        }

        /**
         * Connects and takes over the announced model.
         *
         * @throws StreamException if a topic or a broker is missing, or no announced version can be served
         */
        public KafkaScorer open() {
            if (from == null || to == null || deadLetters == null || model == null) {
                throw new StreamException("a scorer must have from, to, deadLetters and model, got " + from + ", "
                        + to + ", " + deadLetters + " and " + model);
            }
            return new KafkaScorer(this);
        }
    }
}
