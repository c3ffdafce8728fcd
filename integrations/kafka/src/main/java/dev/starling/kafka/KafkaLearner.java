package dev.starling.kafka;

import dev.starling.errors.StarlingException;
import dev.starling.nn.checkpoint.Checkpoint;
import dev.starling.nn.train.Metric;
import dev.starling.nn.train.TrainingState;
import dev.starling.nn.train.TrainingStep;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.lang.System.Logger.Level;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/**
 * Trains a model on the records of a topic. A checkpoint contains the offsets beside the weights and the optimiser's
 * state, so that each record changes the weights exactly once, also after a crash. A fixed subset of the records is
 * held out of training; on the most recent of these the model is compared with the version that serves, and is
 * published if it is better.
 *
 * <pre>{@code
 * try (KafkaLearner learner = KafkaLearner.of(cluster, "payments.labelled", RowCodec.floats(17))
 *         .model(model, Loss.crossEntropy(), Adam.over(model).build()).classes(2)
 *         .checkpoints(Path.of("learner")).publish(ModelTopic.of("models", "fraud"), Path.of("models"), metadata)
 *         .open()) {
 *     learner.run();
 * }
 * }</pre>
 *
 * <p>One thread runs the learner; any thread may call {@link #close} and {@link #report}. A directory of checkpoints
 * belongs to one learner at a time. The caller closes model and optimiser, after the learner.
 */
public final class KafkaLearner implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger("dev.starling.kafka");
    private static final Duration IDLE = Duration.ofMillis(100);
    private static final String ANNOUNCE = "kafka.announce";
    private static final String ANNOUNCED = "kafka.announced";

    private final LearnerSettings config;
    private final Work work;
    private final RowSplit split;
    private final LearnerProgress progress;
    private final HeldOutWindow window;
    private final TrainingState state;
    private final Generator generator = Generator.seeded(0);
    private final TrainingStep step;
    private final LiveModel live = new LiveModel();
    /** The rows of the next batch, of which the first {@code pending} are filled. */
    private final float[] rows;
    private int pending;
    private long savedRecords;
    private long savedNs = System.nanoTime();
    private long answeredNs = System.nanoTime();
    private ModelVersion announced;
    /** Whether the brokers have {@code announced}, or a later version. */
    private boolean acknowledged;
    /** The version that the brokers had before this start; compaction may have deleted it. -1 if there is none. */
    private long acknowledgedBefore = -1;
    private final Consumer<byte[], byte[]> consumer;
    /** {@code null} without a topic of dead letters. */
    private final Producer<byte[], byte[]> deadLetters;
    /** The failure of a dead letter that did not reach its topic, or {@code null}. */
    private volatile Exception undelivered;
    /** {@code null} if no versions are published. */
    private final ModelWatch watch;
    /** {@code null} if no versions are published. */
    private final ModelPublisher publisher;
    /** Whether a step has failed within a batch: weights and counts in memory may then disagree and are not saved. */
    private boolean failed;
    /** The counts and measurements that the next checkpoint makes the report. */
    private LearnerReport measured;
    private volatile LearnerReport report;

    KafkaLearner(LearnerSettings config) {
        this.config = config;
        split = config.split();
        work = new Work(name());
        window = work.keep(new HeldOutWindow(config.window, split), HeldOutWindow::close);
        rows = new float[Math.multiplyExact(config.batch, split.columns())];
        state = TrainingState.of(config.model, config.optimizer);
        state.keep("window", window.rows());
        step = work.keep(new TrainingStep(config.model, config.loss, config.optimizer, generator), TrainingStep::close);
        work.keep(live, LiveModel::close);
        measured = new LearnerReport(0, 0, 0, 0, 0, Double.NaN, Map.of(), Double.NaN, -1);
        try {
            consumer = work.keep(config.cluster.consumer(Map.of("auto.offset.reset", "none", "max.poll.records", 1024)),
                    KafkaCluster::close);
            List<TopicPartition> partitions = config.cluster.partitions(consumer, config.topic);
            progress = new LearnerProgress(config.topic, config.cluster.topicId(config.topic));
            Optional<Checkpoint> latest = Checkpoint.latest(config.checkpoints);
            latest.ifPresent(this::resume);
            consumer.assign(partitions);
            seek(partitions);
            if (config.deadLetters != null) {
                config.cluster.partitions(consumer, config.deadLetters);
            }
            deadLetters = config.deadLetters == null ? null
                    : work.keep(config.cluster.producer(Map.of()), p -> p.close(Duration.ofSeconds(2)));
            watch = config.published == null ? null
                    : work.keep(new ModelWatch(config.cluster, config.published, split.inputs(), live, refusal -> { }),
                    ModelWatch::close);
            publisher = config.published == null ? null
                    : work.keep(ModelPublisher.of(config.cluster, config.published.topic(), config.files),
                    ModelPublisher::close);
            announceAgain();
            if (latest.isEmpty()) {
                // A failure before the first checkpoint would else leave a model that was trained already.
                write();
            }
            measured(Double.NaN, Map.of(), Double.NaN);
            report = measured;
        } catch (KafkaException e) {
            work.release();
            throw config.cluster.failure(name(), e);
        } catch (RuntimeException e) {
            work.release();
            throw e;
        }
    }

    /** Returns the learner's name for messages. */
    private String name() {
        return "the learner of topic " + config.topic;
    }

    /**
     * Returns the settings of a new learner.
     *
     * @param codec decodes a record into a row: the model's input, then the target
     */
    public static LearnerSettings of(KafkaCluster cluster, String topic, RowCodec codec) {
        return new LearnerSettings(cluster, topic, codec);
    }

    private void resume(Checkpoint checkpoint) {
        Map<String, String> notes = checkpoint.notes();
        state.restore(notes);
        checkpoint.into(state.tensors());
        progress.restore(notes);
        window.resume(progress.heldOut);
        savedRecords = progress.records();
        String announcement = notes.get(ANNOUNCE);
        announced = announcement == null ? null
                : ModelVersion.ofJson(announcement.getBytes(StandardCharsets.UTF_8));
        acknowledged = announced != null && notes.containsKey(ANNOUNCED);
        acknowledgedBefore = acknowledged ? announced.version() : -1;
        LOG.log(Level.INFO, "the learner resumes with {0}", progress.place());
    }

    /** Starts each partition at the checkpoint's offset, or at its first record if the checkpoint has none. */
    private void seek(List<TopicPartition> partitions) {
        Map<TopicPartition, Long> starts = consumer.beginningOffsets(partitions, config.cluster.deadline());
        Map<TopicPartition, Long> ends = consumer.endOffsets(partitions, config.cluster.deadline());
        for (TopicPartition partition : partitions) {
            long start = starts.get(partition);
            long end = ends.get(partition);
            long at = progress.offset(partition) == null ? start : progress.offset(partition);
            if (at < start || at > end) {
                throw new StreamException(name() + " cannot resume: the checkpoint in " + config.checkpoints
                        + " ends before offset " + at + " of partition " + partition.partition()
                        + ", the topic holds offsets " + start + " to " + (end - 1) + ": "
                        + (at < start ? "records were deleted before they were learned" : "it was created again")
                        + "; choose another directory of checkpoints");
            }
            consumer.seek(partition, at);
        }
    }

    /** Announces a version that was written but not announced before a crash, unless a later one was announced. */
    private void announceAgain() {
        if (publisher == null || announced == null || acknowledged) {
            return;
        }
        if (watch.maxVersion() < announced.version()) {
            publisher.announce(announced);
        }
        acknowledge();
    }

    /**
     * Saves that the brokers have the version, or a later one: a restart that announced it again would undo a return to
     * an older version.
     */
    private void acknowledge() {
        acknowledged = true;
        write();
    }

    /**
     * Learns until {@link #close} is called.
     *
     * @throws StreamException if the brokers do not answer within the deadline, a step fails, a dead letter cannot be
     *     delivered, or records were deleted before they were learned
     */
    public void run() {
        while (!work.isClosed()) {
            step();
        }
    }

    /**
     * Waits up to 100 ms for records and trains on them; saves, measures and publishes when that is due.
     *
     * @return the number of records received
     * @throws StreamException as {@link #run} does; after that, and after any other exception, the learner must be
     *     closed, and the next one resumes from the last checkpoint
     */
    public int step() {
        return work.step(() -> {
            if (failed) {
                throw new StreamException(name() + " has failed before; close it and open a new one");
            }
            // After an exception from here on, counts and weights may disagree.
            failed = true;
            int received = poll();
            failed = false;
            return received;
        });
    }

    private int poll() {
        try {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(IDLE);
            records.forEach(this::receive);
            if (records.isEmpty()) {
                train();
                requireAnswer();
            } else {
                answeredNs = System.nanoTime();
            }
            boolean late = System.nanoTime() - savedNs > TimeUnit.NANOSECONDS.convert(config.checkpointInterval);
            long fresh = progress.records() - savedRecords;
            if (fresh >= config.checkpointRecords || fresh > 0 && late) {
                save();
            } else if (late && follow()) {
                write();
            }
            return records.count();
        } catch (OffsetOutOfRangeException e) {
            throw new StreamException("records of " + progress.place() + " were deleted before they were learned: "
                    + e.getMessage() + "; retain them longer, and choose another directory of checkpoints", e);
        } catch (KafkaException e) {
            throw config.cluster.failure(name(), e);
        }
    }

    private void requireAnswer() {
        if (System.nanoTime() - answeredNs > config.cluster.deadline().toNanos() / 3) {
            config.cluster.requireAnswer(consumer, config.topic);
            answeredNs = System.nanoTime();
        }
    }

    private void receive(ConsumerRecord<byte[], byte[]> record) {
        int at = pending * split.columns();
        String error = BatchScores.decode(config.codec, record.value(), rows, at);
        if (error == null) {
            error = split.error(rows, at);
        }
        progress.count(record);
        if (error != null) {
            progress.refused++;
            reject(record, error);
        } else if (LearnerProgress.isHeldOut(record, config.holdOut)) {
            progress.heldOut++;
            window.add(rows, at);
        } else {
            progress.trained++;
            if (++pending == config.batch) {
                train();
            }
        }
    }

    /** Sends a record that cannot be learned to the dead letters, or logs it if there is no topic for them. */
    private void reject(ConsumerRecord<byte[], byte[]> record, String error) {
        if (deadLetters != null) {
            deadLetters.send(DeadLetter.of(record, error, config.cluster.maxRecordBytes())
                    .toTopic(config.deadLetters), (place, e) -> {
                        // A success is not written: another thread may report a failure at the same time.
                        if (e != null) {
                            undelivered = e;
                        }
                    });
            // Checked after each send: without brokers, every further send would wait for the deadline.
            requireDelivered();
        } else {
            LOG.log(Level.WARNING, "topic {0}, partition {1}, offset {2}: {3}", record.topic(), record.partition(),
                    record.offset(), error);
        }
    }

    private void train() {
        if (pending == 0) {
            return;
        }
        // Random numbers depend on the place in the topic only, not on how often the learner was restarted.
        generator.restore(Generator.seeded(config.seed).split(progress.trained).state());
        try (Scope scope = Scope.open("learn")) {
            step.run(split.input(rows, pending).to(config.model.device()),
                    split.target(rows, pending).to(config.model.device()));
        } catch (StarlingException e) {
            throw new StreamException("a step over " + pending + " records of " + progress.place() + " failed: "
                    + e.getMessage(), e);
        }
        pending = 0;
    }

    /** Trains on the pending rows, measures, writes the checkpoint, and then announces the version if it is better. */
    private void save() {
        train();
        deliver();
        ModelVersion better = measure();
        if (better != null) {
            announced = better;
            acknowledged = false;
        }
        write();
        if (better != null) {
            publisher.announce(better);
            measured(measured.loss(), measured.metrics(), measured.servedLoss());
            LOG.log(Level.INFO, "{0} is announced: held-out loss {1}, served {2}", better, measured.loss(),
                    measured.servedLoss());
            acknowledge();
        }
    }

    /**
     * Takes the consumer's positions: without them, records that expire before a partition is read were lost silently,
     * and markers of transactions that expire after the last record would look like a loss.
     *
     * @return whether one is new
     */
    private boolean follow() {
        boolean moved = false;
        for (TopicPartition partition : consumer.assignment()) {
            moved |= progress.reach(partition, consumer.position(partition, config.cluster.deadline()));
        }
        return moved;
    }

    private void write() {
        follow();
        Map<String, String> notes = new LinkedHashMap<>(state.notes());
        progress.save(notes);
        if (announced != null) {
            notes.put(ANNOUNCE, new String(announced.toJson(), StandardCharsets.UTF_8));
        }
        if (acknowledged) {
            notes.put(ANNOUNCED, "true");
        }
        Checkpoint.save(config.checkpoints, progress.records(), state.tensors(), notes);
        Checkpoint.prune(config.checkpoints, 2, progress.records());
        savedRecords = progress.records();
        savedNs = System.nanoTime();
        report = measured;
    }

    /** Waits until all dead letters have arrived: a checkpoint must not count a record whose dead letter is lost. */
    private void deliver() {
        if (deadLetters != null) {
            deadLetters.flush();
            requireDelivered();
        }
    }

    private void requireDelivered() {
        if (undelivered != null) {
            throw config.cluster.failure(name() + ", which sends dead letters to topic " + config.deadLetters + ",",
                    new KafkaException(undelivered.getMessage(), undelivered));
        }
    }

    /** Measures the model and the served one; if the model is better, writes and returns a new version. */
    private ModelVersion measure() {
        if (window.filled() < config.minMeasuredRows) {
            measured(Double.NaN, Map.of(), Double.NaN);
            return null;
        }
        double loss = window.measure(config.model, this::loss);
        Map<String, Double> metrics = new HashMap<>();
        for (Metric metric : config.metrics) {
            metrics.put(metric.name(), window.measure(config.model, metric::sumOver) / window.filled());
        }
        Double served = servedLoss();
        measured(loss, metrics, served == null ? Double.NaN : served);
        // A checkpoint of a run that held records out may have filled the window.
        if (publisher == null || config.holdOut == 0) {
            return null;
        }
        long latest = Math.max(watch.maxVersion(), acknowledgedBefore);
        boolean pending = announced != null && announced.version() > latest;
        boolean better = served == null || config.improves(loss, served);
        return pending || !better || !Double.isFinite(loss) ? null
                : publisher.write(config.published.name(), latest + 1, config.model, config.metadata);
    }

    /** Returns the loss of a result; NaN if no target counts. */
    private double loss(Tensor result, Tensor target) {
        return config.loss.divisor(result, target) == 0 ? Double.NaN : config.loss.of(result, target).item();
    }

    /** Returns the served version's loss: {@code null} if none is served, NaN if this loss cannot measure it. */
    private Double servedLoss() {
        ServedModel served = live.acquire();
        if (served == null) {
            return null;
        }
        try {
            return window.measure(served.model(), this::loss);
        } catch (StarlingException e) {
            // Another process announced this version: the learner continues to train, and does not replace it.
            LOG.log(Level.WARNING, "{0} publishes nothing while {1} serves, which cannot be measured on held-out "
                    + "rows: {2}", name(), served.version(), e.getMessage());
            return Double.NaN;
        } finally {
            served.release();
        }
    }

    private void measured(double loss, Map<String, Double> metrics, double servedLoss) {
        measured = new LearnerReport(progress.records(), progress.trained, progress.heldOut, progress.refused,
                progress.checksum(), loss, Map.copyOf(metrics), servedLoss,
                announced == null ? -1 : announced.version());
    }

    /** Returns the counts and measurements of the last checkpoint. */
    public LearnerReport report() {
        return report;
    }

    /**
     * Saves a checkpoint and closes the learner. Waits for the current step for up to twice the deadline; if the step
     * takes longer, nothing is saved, and the thread that runs the learner closes it when the step ends.
     */
    @Override
    public void close() {
        work.close(config.cluster.deadline().multipliedBy(2), () -> {
            if (!failed && progress.records() > savedRecords) {
                save();
            } else if (!failed && follow()) {
                write();
            }
        });
    }
}
