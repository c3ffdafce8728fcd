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
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.header.Headers;

/**
 * Scores the records of a topic, each exactly once: a batch of records, one model, one forward pass, one transaction
 * that holds results, dead letters and offsets. The model is replaced between two batches, never within one. After a
 * crash, the next scorer with the same {@link Builder#instance} name continues where the last transaction ended,
 * without waiting for a rebalance.
 *
 * <pre>{@code
 * try (KafkaScorer scorer = KafkaScorer.of(KafkaCluster.at("localhost:9092"), RowCodec.floats(16))
 *         .from("payments").to("scores").deadLetters("payments.dead").model(ModelTopic.of("models", "fraud")).open()) {
 *     scorer.run();
 * }
 * }</pre>
 *
 * <p>One thread runs the scorer; any thread may call {@link #close} and {@link #counts}.
 */
public final class KafkaScorer implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger("dev.starling.kafka");
    private static final Duration IDLE = Duration.ofMillis(100);
    private static final int MAX_ATTEMPTS = 5;

    private final Builder config;
    private final Work work;
    private final LiveModel live = new LiveModel();
    private final Queue<DeadLetter> refusals = new ConcurrentLinkedQueue<>();
    private final List<ConsumerRecord<byte[], byte[]>> pending = new ArrayList<>();
    private final Consumer<byte[], byte[]> consumer;
    private final Producer<byte[], byte[]> producer;
    private long answeredNs;
    private int failures;
    /** Whether only a new scorer can continue: a transaction failed beyond recovery, or another has this name. */
    private boolean ended;
    private volatile ScorerCounts counts = new ScorerCounts(0, 0, 0, 0, 0);

    private KafkaScorer(Builder config) {
        this.config = config;
        work = new Work(name());
        work.keep(live, LiveModel::close);
        try {
            consumer = work.keep(config.cluster.consumer(Map.of("group.id", config.group,
                    "group.instance.id", config.instance, "max.poll.records", config.batch)), KafkaCluster::close);
            config.cluster.partitions(consumer, config.from);
            config.cluster.partitions(consumer, config.to);
            config.cluster.partitions(consumer, config.deadLetters);
            ModelWatch watch = work.keep(new ModelWatch(config.cluster, config.model, config.codec.columns(), live,
                    refusals::add), ModelWatch::close);
            watch.requireModel(refusals);
            producer = work.keep(config.cluster.producer(Map.of(
                    "transactional.id", config.transactionalId(),
                    "transaction.timeout.ms", config.cluster.transactionTimeoutMs(),
                    "compression.type", config.compression, "linger.ms", 5)), p -> p.close(Duration.ofSeconds(2)));
            producer.initTransactions();
            consumer.subscribe(List.of(config.from), new Revoked());
            answeredNs = System.nanoTime();
        } catch (KafkaException e) {
            work.release();
            throw config.cluster.failure(name(), e);
        } catch (RuntimeException e) {
            work.release();
            throw e;
        }
    }

    /** Returns the scorer's name for messages. */
    private String name() {
        return "the scorer " + config.instance + " of group " + config.group + " on topic " + config.from;
    }

    /** Returns a builder; the codec decodes records and encodes results. */
    public static Builder of(KafkaCluster cluster, RowCodec codec) {
        return new Builder(cluster, codec);
    }

    /** Drops pending records of partitions that are assigned to another scorer, which scores them. */
    private final class Revoked implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            pending.removeIf(r -> partitions.contains(new TopicPartition(r.topic(), r.partition())));
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            // The scorer starts at the committed offsets, which the consumer fetches.
        }
    }

    /**
     * Scores until {@link #close} is called.
     *
     * @throws StreamException if the brokers do not answer within the deadline or refuse a record five times, the model
     *     fails on a batch, a transaction is open for longer than the deadline, or another scorer with the same
     *     instance name has started; the next scorer then scores each record that is left, once
     */
    public void run() {
        while (!work.isClosed()) {
            step();
        }
    }

    /**
     * Waits up to 100 ms for records, collects more for as long as the latency allows, and scores them.
     *
     * @return how many records were scored or sent to the dead letters
     * @throws StreamException as {@link #run} does; where the model fails on a batch, nothing of that batch is sent,
     *     and the next call tries it again
     */
    public int step() {
        return work.step(() -> {
            if (ended) {
                throw new StreamException(name() + " has ended before; close it and open a new one");
            }
            try {
                collect();
                if (pending.isEmpty() && refusals.isEmpty()) {
                    requireAnswer();
                    return 0;
                }
                return transact();
            } catch (FencedInstanceIdException e) {
                throw fenced(e);
            } catch (KafkaException e) {
                throw config.cluster.failure(name(), e);
            }
        });
    }

    /** Ends the scorer; returns the exception to throw when the brokers accept nothing from it any more. */
    private StreamException fenced(KafkaException e) {
        ended = true;
        // Kafka reports the same if it has ended a transaction that was open for too long.
        String other = e instanceof FencedInstanceIdException ? "" : ", or because a transaction was open for longer "
                + "than " + config.cluster.transactionTimeoutMs() + " ms";
        return new StreamException(name() + " must stop, because another process has started with the same instance "
                + "name" + other + ": " + e.getMessage() + "; give each process its own with instance(name)"
                + (other.isEmpty() ? "" : ", or start this one again"), e);
    }

    private void requireAnswer() {
        if (System.nanoTime() - answeredNs > config.cluster.deadline().toNanos() / 3) {
            config.cluster.requireAnswer(consumer, config.from);
            answeredNs = System.nanoTime();
        }
    }

    private void collect() {
        // Records for which the last batch had no room have waited already.
        boolean late = !pending.isEmpty();
        long first = 0;
        Duration wait = late ? Duration.ZERO : IDLE;
        while (pending.size() < config.batch && !wait.isNegative() && !work.isClosed()) {
            // In short polls, between which close() ends the wait; a poll cannot be longer than 2^63 - 1 ms.
            consumer.poll(wait.compareTo(IDLE) > 0 ? IDLE : wait).forEach(pending::add);
            if (late || pending.isEmpty()) {
                return;
            }
            first = first == 0 ? System.nanoTime() : first;
            wait = config.latency.minusNanos(System.nanoTime() - first);
        }
    }

    private int transact() {
        // A poll may return more records than the batch has room for; the others are in the next one.
        List<ConsumerRecord<byte[], byte[]>> batch = pending.subList(0, Math.min(config.batch, pending.size()));
        int done = batch.size();
        // Scored before the transaction begins, so that there is none to abort if the model fails.
        BatchScores scores = score(batch);
        try {
            producer.beginTransaction();
            int dead = send(batch, scores);
            int refused = sendRefusals();
            if (done > 0) {
                producer.sendOffsetsToTransaction(offsets(batch), consumer.groupMetadata());
            }
            producer.commitTransaction();
            batch.clear();
            for (int i = 0; i < refused; i++) {
                refusals.remove();
            }
            counts = new ScorerCounts(counts.scored() + done - dead, counts.dead() + dead,
                    counts.refused() + refused, counts.batches() + 1, counts.aborted());
            answeredNs = System.nanoTime();
            failures = 0;
            return done;
        } catch (ProducerFencedException | InvalidProducerEpochException | FencedInstanceIdException e) {
            throw fenced(e);
        } catch (AuthorizationException | AuthenticationException e) {
            ended = true;
            throw config.cluster.failure(name(), e);
        } catch (KafkaException e) {
            retry(e, done);
            return 0;
        }
    }

    /** Scores a batch with one version of the model. */
    private BatchScores score(List<ConsumerRecord<byte[], byte[]>> batch) {
        ServedModel model = live.acquire();
        try {
            return BatchScores.of(model, config.codec, batch.stream().map(ConsumerRecord::value).toList());
        } catch (StreamException e) {
            throw new StreamException(name() + " cannot score its batch before the offsets " + offsets(batch)
                    .entrySet().stream().map(o -> o.getKey() + ": " + o.getValue().offset()).toList() + ": "
                    + e.getMessage() + "; announce a version that can, then start the scorer again", e);
        } finally {
            model.release();
        }
    }

    /** Aborts the transaction and seeks to the committed offsets; gives up after {@link #MAX_ATTEMPTS} failures. */
    private void retry(KafkaException reason, int records) {
        LOG.log(Level.WARNING, "{0} aborts a batch of {1} records and retries it: {2}", name(), records,
                reason.getMessage());
        counts = new ScorerCounts(counts.scored(), counts.dead(), counts.refused(), counts.batches(),
                counts.aborted() + 1);
        try {
            producer.abortTransaction();
            pending.clear();
            consumer.committed(consumer.assignment(), config.cluster.deadline()).forEach((partition, offset) -> {
                if (offset == null) {
                    consumer.seekToBeginning(List.of(partition));
                } else {
                    consumer.seek(partition, offset);
                }
            });
        } catch (KafkaException | IllegalStateException e) {
            // Also after a commit without an answer: only the next process of this instance can find out its outcome.
            reason.addSuppressed(e);
            failures = MAX_ATTEMPTS;
        }
        if (++failures >= MAX_ATTEMPTS) {
            ended = true;
            throw config.cluster.failure(name(), reason);
        }
    }

    /** Sends the results and dead letters of a batch; returns the number of dead letters. */
    private int send(List<ConsumerRecord<byte[], byte[]>> batch, BatchScores scores) {
        int dead = 0;
        for (int i = 0; i < batch.size(); i++) {
            ConsumerRecord<byte[], byte[]> source = batch.get(i);
            Headers headers = scores.headers(i, source.key(), source.headers(), config.cluster.maxRecordBytes());
            if (headers == null) {
                send(DeadLetter.of(source, scores.error(i), config.cluster.maxRecordBytes())
                        .toTopic(config.deadLetters));
                dead++;
            } else {
                Long time = source.timestamp() < 0 ? null : Long.valueOf(source.timestamp());
                send(new ProducerRecord<>(config.to, null, time, source.key(), scores.result(i), headers));
            }
        }
        return dead;
    }

    /** Sends a record. Throws if it cannot be queued: else each record of the batch would wait for the deadline. */
    private void send(ProducerRecord<byte[], byte[]> record) {
        Future<RecordMetadata> sent = producer.send(record);
        if (sent.state() == Future.State.FAILED) {
            throw sent.exceptionNow() instanceof KafkaException e ? e : new KafkaException(sent.exceptionNow());
        }
    }

    /** Sends the dead letters of refused models; they stay in the queue until the transaction is committed. */
    private int sendRefusals() {
        int sent = 0;
        for (DeadLetter refusal : refusals) {
            send(refusal.toTopic(config.deadLetters));
            sent++;
        }
        return sent;
    }

    private static Map<TopicPartition, OffsetAndMetadata> offsets(List<ConsumerRecord<byte[], byte[]>> batch) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (ConsumerRecord<byte[], byte[]> r : batch) {
            offsets.put(new TopicPartition(r.topic(), r.partition()),
                    new OffsetAndMetadata(r.offset() + 1, r.leaderEpoch(), ""));
        }
        return offsets;
    }

    /** Returns the counts of all committed work. */
    public ScorerCounts counts() {
        return counts;
    }

    /** Returns the version that scores the next batch. */
    public ModelVersion serving() {
        return live.version();
    }

    /**
     * Closes the scorer after the current batch. Waits for it for up to twice the deadline; if the batch takes longer,
     * the thread that runs the scorer closes it when the batch ends.
     */
    @Override
    public void close() {
        work.close(config.cluster.deadline().multipliedBy(2), () -> { });
    }

    /** Configures a scorer. Changes after {@link #open} have no effect on scorers that were opened before. */
    public static final class Builder implements Cloneable {
        final KafkaCluster cluster;
        final RowCodec codec;
        String from;
        String to;
        String deadLetters;
        ModelTopic model;
        String group = "starling-scorer";
        String instance = "1";
        int batch = 1024;
        Duration latency = Duration.ofMillis(20);
        String compression = "lz4";

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

        /** Sets the name of this scorer within its group, to be kept over restarts; {@code 1} by default. */
        public Builder instance(String id) {
            instance = id;
            return this;
        }

        /** Sets the maximum number of records in a batch, and how long the first record waits for others. */
        public Builder batch(int records, Duration maxWait) {
            if (records < 1 || maxWait.isNegative()) {
                throw new StreamException("a batch must have 1 record or more and a latency of 0 or more, got "
                        + records + " and " + maxWait);
            }
            batch = records;
            latency = maxWait;
            return this;
        }

        /** Sets the compression of results: none, lz4 (default), snappy, gzip or zstd. */
        public Builder compression(String type) {
            compression = type;
            return this;
        }

        /**
         * Connects and loads the announced model.
         *
         * @throws StreamException if a topic or a broker is missing, or no announced version can be served
         */
        public KafkaScorer open() {
            if (from == null || to == null || deadLetters == null || model == null) {
                throw new StreamException("a scorer must have from, to, deadLetters and model, got " + from + ", "
                        + to + ", " + deadLetters + " and " + model);
            }
            return new KafkaScorer(copy());
        }

        /** Returns the name of this scorer among all producers; Kafka allows no slash in the name of an instance. */
        String transactionalId() {
            return group + "/" + instance;
        }

        /** Returns a copy that later changes of this do not affect. */
        Builder copy() {
            try {
                return (Builder) clone();
            } catch (CloneNotSupportedException e) {
                throw new AssertionError("builders are cloneable", e);
            }
        }
    }
}
