package dev.starling.kafka;

import dev.starling.errors.StarlingException;
import dev.starling.nn.checkpoint.Checkpoint;
import dev.starling.nn.train.Metric;
import dev.starling.nn.train.TrainingState;
import dev.starling.nn.train.TrainingStep;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import java.lang.System.Logger.Level;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/**
 * Trains a model on the records of a topic. Offsets lie in the checkpoint, beside weights and the optimiser's state, so
 * that after a crash each record has changed the weights exactly once. Some records, always the same, are held out of
 * training; on the last of them the model is compared with the version that serves, and published when it is better.
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
 * <p>One thread runs it; any thread may call {@link #close} and {@link #report}. A directory of checkpoints belongs to
 * one learner at a time. The caller closes model and optimiser, after the learner.
 */
public final class KafkaLearner implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger("dev.starling.kafka");
    private static final Duration IDLE = Duration.ofMillis(100);
    private static final String ANNOUNCE = "kafka.announce";

    private final LearnerSettings how;
    private final Work work;
    private final RowSplit split;
    private final LearnerProgress progress;
    private final HeldOutWindow window;
    private final TrainingState state;
    private final Generator generator = Generator.seeded(0);
    private final TrainingStep step;
    private final LiveModel live = new LiveModel();
    /** Rows that wait for their batch. */
    private final float[] rows;
    private int waiting;
    private long savedRecords;
    private long savedNs = System.nanoTime();
    private long answeredNs = System.nanoTime();
    private ModelVersion announced;
    private final Consumer<byte[], byte[]> consumer;
    /** {@code null} without a topic of dead letters. */
    private final Producer<byte[], byte[]> deadLetters;
    /** Why a dead letter has not reached its topic, if one has not. */
    private volatile Exception undelivered;
    /** These two are {@code null} if nothing is published. */
    private final ModelWatch watch;
    private final ModelPublisher publisher;
    /** Whether a step has failed in the midst of a batch: then what is in memory is not to be saved. */
    private boolean failed;
    private volatile LearnerReport report;

    KafkaLearner(LearnerSettings how) {
        this.how = how;
        split = how.split();
        work = new Work(name());
        progress = new LearnerProgress(how.topic);
        window = work.keep(new HeldOutWindow(how.window, split), HeldOutWindow::close);
        rows = new float[Math.multiplyExact(how.batch, split.columns())];
        state = TrainingState.of(how.model, how.optimizer);
        state.keep("window", window.rows());
        step = work.keep(new TrainingStep(how.model, how.loss, how.optimizer, generator), TrainingStep::close);
        work.keep(live, LiveModel::close);
        report = new LearnerReport(0, 0, 0, 0, 0, Double.NaN, Map.of(), Double.NaN, -1);
        try {
            consumer = work.keep(how.cluster.consumer(Map.of("auto.offset.reset", "none", "max.poll.records", 1024)),
                    KafkaCluster::close);
            List<TopicPartition> partitions = how.cluster.partitions(consumer, how.topic);
            Optional<Checkpoint> latest = Checkpoint.latest(how.checkpoints);
            latest.ifPresent(this::resume);
            consumer.assign(partitions);
            seek(partitions);
            if (how.deadLetters != null) {
                how.cluster.partitions(consumer, how.deadLetters);
            }
            deadLetters = how.deadLetters == null ? null
                    : work.keep(how.cluster.producer(Map.of()), p -> p.close(Duration.ofSeconds(2)));
            watch = how.published == null ? null
                    : work.keep(new ModelWatch(how.cluster, how.published, split.inputs(), live, refusal -> { }),
                    ModelWatch::close);
            publisher = how.published == null ? null
                    : work.keep(ModelPublisher.of(how.cluster, how.published.topic(), how.files),
                    ModelPublisher::close);
            announceAgain();
            if (latest.isEmpty()) {
                // A learner that fails before its first checkpoint leaves a model that has learned already.
                write();
            }
            tell(report.loss(), Map.of(), Double.NaN);
        } catch (KafkaException e) {
            work.release();
            throw how.cluster.failure(name(), e);
        } catch (RuntimeException e) {
            work.release();
            throw e;
        }
    }

    /** Names the learner in messages. */
    private String name() {
        return "the learner of topic " + how.topic;
    }

    /**
     * Begins a learner.
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
        LOG.log(Level.INFO, "the learner resumes with {0}", progress.place());
    }

    /** Sets where reading starts: in each partition at the checkpoint's offset, else at the first record. */
    private void seek(List<TopicPartition> partitions) {
        Map<TopicPartition, Long> starts = consumer.beginningOffsets(partitions, how.cluster.deadline());
        Map<TopicPartition, Long> ends = consumer.endOffsets(partitions, how.cluster.deadline());
        for (TopicPartition partition : partitions) {
            long start = starts.get(partition);
            long end = ends.get(partition);
            long at = progress.offset(partition) == null ? start : progress.offset(partition);
            if (at < start || at > end) {
                throw new StreamException(name() + " cannot resume: the checkpoint in " + how.checkpoints
                        + " ends before offset " + at + " of partition " + partition.partition()
                        + ", the topic holds offsets " + start + " to " + (end - 1) + ": "
                        + (at < start ? "records were deleted before they were learned" : "it was made anew")
                        + "; choose another directory of checkpoints");
            }
            consumer.seek(partition, at);
        }
    }

    /** Announces the version that a crash left written but unannounced, unless a later one was announced. */
    private void announceAgain() {
        if (publisher != null && announced != null && watch.greatest() < announced.version()) {
            publisher.announce(announced);
        }
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
     * Waits up to 100 ms for records and learns them; saves, measures and publishes when that is due.
     *
     * @return how many records were taken
     * @throws StreamException as {@link #run} does; after that, and after any other exception, the learner must be
     *     closed, and the next one resumes from the last checkpoint
     */
    public int step() {
        return work.step(() -> {
            if (failed) {
                throw new StreamException(name() + " has failed before; close it and open it again");
            }
            // Whatever is thrown from here on, counts and weights may not belong together.
            failed = true;
            int taken = take();
            failed = false;
            return taken;
        });
    }

    private int take() {
        try {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(IDLE);
            records.forEach(this::take);
            if (records.isEmpty()) {
                train();
                requireAnswer();
            } else {
                answeredNs = System.nanoTime();
            }
            boolean late = System.nanoTime() - savedNs > how.interval.toNanos();
            long fresh = progress.records() - savedRecords;
            if (fresh >= how.every || fresh > 0 && late) {
                save();
            }
            return records.count();
        } catch (OffsetOutOfRangeException e) {
            throw new StreamException("records of " + progress.place() + " were deleted before they were learned: "
                    + e.getMessage() + "; retain them longer, and choose another directory of checkpoints", e);
        } catch (KafkaException e) {
            throw how.cluster.failure(name(), e);
        }
    }

    private void requireAnswer() {
        if (System.nanoTime() - answeredNs > how.cluster.deadline().toNanos() / 3) {
            how.cluster.requireAnswer(consumer, how.topic);
            answeredNs = System.nanoTime();
        }
    }

    private void take(ConsumerRecord<byte[], byte[]> record) {
        int at = waiting * split.columns();
        String error = BatchScores.decode(how.codec, record.value(), rows, at);
        if (error == null) {
            error = split.error(rows, at);
        }
        progress.take(record);
        if (error != null) {
            progress.refused++;
            refuse(record, error);
        } else if (LearnerProgress.isHeldOut(record, how.holdOut)) {
            progress.heldOut++;
            window.add(rows, at);
        } else {
            progress.trained++;
            if (++waiting == how.batch) {
                train();
            }
        }
    }

    private void refuse(ConsumerRecord<byte[], byte[]> record, String error) {
        if (deadLetters != null) {
            deadLetters.send(DeadLetter.of(record, error).toTopic(how.deadLetters), (place, e) ->
                    undelivered = e == null ? undelivered : e);
            // At once: where the brokers are away, each send waits for the deadline.
            requireDelivered();
        } else {
            LOG.log(Level.WARNING, "topic {0}, partition {1}, offset {2}: {3}", record.topic(), record.partition(),
                    record.offset(), error);
        }
    }

    private void train() {
        if (waiting == 0) {
            return;
        }
        // What layers draw depends on the place in the topic only, not on how often the learner was started.
        generator.restore(Generator.seeded(how.seed).split(progress.trained).state());
        try (Scope scope = Scope.open("learn")) {
            step.run(split.input(rows, waiting).to(how.model.device()),
                    split.target(rows, waiting).to(how.model.device()));
        } catch (StarlingException e) {
            throw new StreamException("a step over " + waiting + " records of " + progress.place() + " failed: "
                    + e.getMessage(), e);
        }
        waiting = 0;
    }

    /** Trains on what waits, measures, and writes the checkpoint; a version that is better is announced after that. */
    private void save() {
        train();
        deliver();
        ModelVersion better = measure();
        announced = better == null ? announced : better;
        write();
        if (better != null) {
            publisher.announce(better);
            tell(report.loss(), report.metrics(), report.servedLoss());
            LOG.log(Level.INFO, "{0} is announced: held-out loss {1}, served {2}", better, report.loss(),
                    report.servedLoss());
        }
    }

    private void write() {
        Map<String, String> notes = new LinkedHashMap<>(state.notes());
        progress.save(notes);
        if (announced != null) {
            notes.put(ANNOUNCE, new String(announced.toJson(), StandardCharsets.UTF_8));
        }
        Checkpoint.save(how.checkpoints, progress.records(), state.tensors(), notes);
        Checkpoint.prune(how.checkpoints, 2);
        savedRecords = progress.records();
        savedNs = System.nanoTime();
    }

    /** Waits until dead letters have arrived: a checkpoint must not count a record whose letter is lost. */
    private void deliver() {
        if (deadLetters != null) {
            deadLetters.flush();
            requireDelivered();
        }
    }

    private void requireDelivered() {
        if (undelivered != null) {
            throw how.cluster.failure(name() + ", which sends dead letters to topic " + how.deadLetters + ",",
                    new KafkaException(undelivered.getMessage(), undelivered));
        }
    }

    /** Measures the model and the served one; writes the file of a new version if it is better, and returns it. */
    private ModelVersion measure() {
        if (window.filled() < how.least) {
            tell(Double.NaN, Map.of(), Double.NaN);
            return null;
        }
        double loss = window.measure(how.model, (result, target) -> how.loss.of(result, target).item());
        Map<String, Double> metrics = new HashMap<>();
        for (Metric metric : how.metrics) {
            metrics.put(metric.name(), window.measure(how.model, metric::sumOver) / window.filled());
        }
        Double served = servedLoss();
        tell(loss, metrics, served == null ? Double.NaN : served);
        if (publisher == null) {
            return null;
        }
        boolean pending = announced != null && announced.version() > watch.greatest();
        boolean better = served == null || loss < served * (1 - how.margin);
        return pending || !better || !Double.isFinite(loss) ? null
                : publisher.write(how.published.name(), watch.greatest() + 1, how.model, how.metadata);
    }

    /** Returns the loss of the version that serves; {@code null} if none does, NaN if this loss cannot measure it. */
    private Double servedLoss() {
        ServedModel served = live.hold();
        if (served == null) {
            return null;
        }
        try {
            return window.measure(served.model(), (result, target) -> how.loss.of(result, target).item());
        } catch (StarlingException e) {
            // Announced by another process; the learner keeps learning, and publishes nothing over it.
            LOG.log(Level.WARNING, "{0} publishes nothing while {1} serves, which cannot be measured on held-out "
                    + "rows: {2}", name(), served.version(), e.getMessage());
            return Double.NaN;
        } finally {
            served.drop();
        }
    }

    private void tell(double loss, Map<String, Double> metrics, double servedLoss) {
        report = new LearnerReport(progress.records(), progress.trained, progress.heldOut, progress.refused,
                progress.checksum(), loss, Map.copyOf(metrics), servedLoss,
                announced == null ? -1 : announced.version());
    }

    /** Returns how far the learner was at its last checkpoint. */
    public LearnerReport report() {
        return report;
    }

    /**
     * Saves what was learned, then closes. Waits for the step under way twice as long as the deadline; if it takes
     * longer, nothing is saved, and the thread that runs the learner closes it when the step is done.
     */
    @Override
    public void close() {
        work.close(how.cluster.deadline().multipliedBy(2), () -> {
            if (!failed && progress.records() > savedRecords) {
                save();
            }
        });
    }
}
