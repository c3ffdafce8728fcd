package dev.starling.kafka;

import dev.starling.errors.StarlingException;
import dev.starling.nn.checkpoint.Checkpoint;
import dev.starling.nn.train.Metric;
import dev.starling.nn.train.TrainingState;
import dev.starling.nn.train.TrainingStep;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.TensorException;
import java.lang.System.Logger.Level;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;

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
 * <p>One thread runs it; {@link #close} and {@link #report} may be called by any. A directory of checkpoints belongs to
 * one learner at a time. Model and optimiser stay the caller's to close.
 */
public final class KafkaLearner implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger("dev.starling.kafka");
    private static final Duration IDLE = Duration.ofMillis(100);
    private static final String ANNOUNCE = "kafka.announce";

    private final LearnerSettings how;
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
    private final ReentrantLock working = new ReentrantLock();
    private Consumer<byte[], byte[]> consumer;
    /** {@code null} without a topic of dead letters. */
    private Producer<byte[], byte[]> deadLetters;
    /** These two are {@code null} if nothing is published. */
    private ModelWatch watch;
    private ModelPublisher publisher;
    /** Whether a step has failed in the midst of a batch: then what is in memory is not to be saved. */
    private boolean failed;
    private volatile boolean closed;
    private volatile LearnerReport report;

    KafkaLearner(LearnerSettings how) {
        this.how = how;
        split = how.split();
        progress = new LearnerProgress(how.topic);
        window = new HeldOutWindow(how.window, split);
        rows = new float[how.batch * split.columns()];
        state = TrainingState.of(how.model, how.optimizer);
        state.keep("window", window.rows());
        step = new TrainingStep(how.model, how.loss, how.optimizer, generator);
        report = new LearnerReport(0, 0, 0, 0, 0, Double.NaN, Map.of(), Double.NaN, -1);
        try {
            consumer = how.cluster.consumer(Map.of("auto.offset.reset", "none", "max.poll.records", 1024));
            List<TopicPartition> partitions = how.cluster.partitions(consumer, how.topic);
            Checkpoint.latest(how.checkpoints).ifPresent(this::resume);
            consumer.assign(partitions);
            Map<TopicPartition, Long> starts = consumer.beginningOffsets(partitions, how.cluster.deadline());
            partitions.forEach(p -> consumer.seek(p,
                    progress.offset(p) == null ? starts.get(p) : progress.offset(p)));
            if (how.deadLetters != null) {
                how.cluster.partitions(consumer, how.deadLetters);
                deadLetters = how.cluster.producer(Map.of());
            }
            if (how.published != null) {
                watch = new ModelWatch(how.cluster, how.published, split.inputs(), live, refusal -> { });
                publisher = ModelPublisher.of(how.cluster, how.published.topic(), how.files);
                announceAgain();
            }
            tell(report.loss(), Map.of(), Double.NaN);
        } catch (TimeoutException e) {
            release();
            throw how.cluster.away("the learner of topic " + how.topic, e);
        } catch (RuntimeException e) {
            release();
            throw e;
        }
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
        LOG.log(Level.INFO, "goes on with {0}", progress.place());
    }

    /** Announces what was written before a crash, unless it or a later version was announced. */
    private void announceAgain() {
        if (announced != null && watch.greatest() < announced.version()) {
            publisher.announce(announced);
        }
    }

    /**
     * Learns until {@link #close} is called.
     *
     * @throws StreamException if the brokers do not answer within the deadline, a step fails, or records were deleted
     *     before they were learned
     */
    public void run() {
        while (!closed) {
            step();
        }
    }

    /**
     * Waits up to 100 ms for records and learns them; saves, measures and publishes when that is due.
     *
     * @return how many records were taken
     */
    public int step() {
        working.lock();
        try {
            if (closed) {
                return 0;
            }
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
        } catch (StarlingException e) {
            failed = true;
            throw e;
        } catch (OffsetOutOfRangeException e) {
            failed = true;
            throw new StreamException("records of " + progress.place() + " were deleted before they were learned: "
                    + e.getMessage() + "; keep them longer, or begin with another directory of checkpoints", e);
        } catch (KafkaException e) {
            failed = true;
            throw new StreamException("the learner of topic " + how.topic + " has to end: " + e.getMessage(), e);
        } finally {
            working.unlock();
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
            deadLetters.send(new DeadLetter(record, error).toTopic(how.deadLetters));
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
        } catch (TensorException e) {
            throw new StreamException("a step over " + waiting + " records of " + progress.place() + " failed: "
                    + e.getMessage(), e);
        }
        waiting = 0;
    }

    /** Trains on what waits, measures, and writes the checkpoint; a version that is better is announced after that. */
    private void save() {
        train();
        if (deadLetters != null) {
            deadLetters.flush();
        }
        ModelVersion better = measure();
        Map<String, String> notes = new LinkedHashMap<>(state.notes());
        progress.save(notes);
        if (better != null) {
            announced = better;
            notes.put(ANNOUNCE, new String(announced.toJson(), StandardCharsets.UTF_8));
        }
        Checkpoint.save(how.checkpoints, progress.records(), state.tensors(), notes);
        Checkpoint.prune(how.checkpoints, 2);
        savedRecords = progress.records();
        savedNs = System.nanoTime();
        if (better != null) {
            publisher.announce(better);
            tell(report.loss(), report.metrics(), report.servedLoss());
            LOG.log(Level.INFO, "{0} is announced: held-out loss {1}, served {2}", better, report.loss(),
                    report.servedLoss());
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
        ServedModel served = live.hold();
        double servedLoss = Double.NaN;
        if (served != null) {
            try {
                servedLoss = window.measure(served.model(), (result, target) -> how.loss.of(result, target).item());
            } finally {
                served.drop();
            }
        }
        tell(loss, metrics, servedLoss);
        if (publisher == null) {
            return null;
        }
        boolean pending = announced != null && announced.version() > watch.greatest();
        boolean better = served == null || loss < servedLoss * (1 - how.margin);
        return pending || !better || !Double.isFinite(loss) ? null
                : publisher.write(how.published.name(), watch.greatest() + 1, how.model, how.metadata);
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

    /** Saves what was learned, then closes; waits for a step under way at most as long as the deadline. */
    @Override
    public void close() {
        boolean first = !closed;
        closed = true;
        boolean idle = false;
        try {
            idle = working.tryLock(how.cluster.deadline().toMillis() * 2, TimeUnit.MILLISECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        if (!idle) {
            LOG.log(Level.WARNING, "the learner of topic {0} is still waiting for the brokers; it is left to its "
                    + "thread", how.topic);
            return;
        }
        try {
            if (first && !failed && consumer != null && progress.records() > savedRecords) {
                save();
            }
        } finally {
            release();
            working.unlock();
        }
    }

    private void release() {
        closed = true;
        if (watch != null) {
            watch.close();
            watch = null;
        }
        if (publisher != null) {
            publisher.close();
            publisher = null;
        }
        if (deadLetters != null) {
            deadLetters.close(Duration.ofSeconds(2));
            deadLetters = null;
        }
        if (consumer != null) {
            KafkaCluster.close(consumer);
            consumer = null;
            step.close();
            window.close();
        }
        live.close();
    }
}
