package dev.starling.kafka;

import dev.starling.nn.Layer;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.train.Metric;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;

/** Configures a {@link KafkaLearner}; changes after {@link #open} have no effect on learners opened before. */
public final class LearnerSettings implements Cloneable {
    final KafkaCluster cluster;
    final String topic;
    final RowCodec codec;
    Layer model;
    Loss loss;
    Optimizer optimizer;
    int batch = 64;
    long seed;
    /** One record in so many is held out; 0 for none. */
    int holdOut = 10;
    /** Capacity of the window of held-out rows. */
    int window = 1000;
    /** The model is measured once the window has so many rows. */
    int minMeasuredRows = 100;
    double margin;
    Path checkpoints;
    /** A checkpoint is due after so many records... */
    long checkpointRecords = 10_000;
    /** ...or, if there was a record, after so long. */
    Duration checkpointInterval = Duration.ofSeconds(30);
    /** {@code null} if records that cannot be decoded are logged. */
    String deadLetters;
    List<Metric> metrics = List.of();
    /** {@code null} if no versions are published. */
    ModelTopic published;
    /** The directory of published files; {@code null} if no versions are published. */
    Path files;
    Map<String, String> metadata = Map.of();
    private int targets = 1;
    private int classes;

    LearnerSettings(KafkaCluster cluster, String topic, RowCodec codec) {
        this.cluster = cluster;
        this.topic = topic;
        this.codec = codec;
    }

    RowSplit split() {
        return new RowSplit(codec.columns(), targets, classes);
    }

    /** Sets the model to train, its loss and its optimiser. */
    public LearnerSettings model(Layer trained, Loss lossToMinimise, Optimizer itsOptimizer) {
        model = trained;
        loss = lossToMinimise;
        optimizer = itsOptimizer;
        return this;
    }

    /** Makes the last {@code count} numbers of a row the target, {@code [N, count]}; 1 by default. */
    public LearnerSettings targets(int count) {
        targets = count;
        classes = 0;
        return this;
    }

    /** Makes the last number of a row a class from 0 to below {@code count}: the target is {@code [N]} in i64. */
    public LearnerSettings classes(int count) {
        if (count < 1) {
            throw new StreamException("there must be 1 class or more, got " + count);
        }
        targets = 1;
        classes = count;
        return this;
    }

    /** Sets the number of records in a step; a step has fewer when none arrives for 100 ms. 64 by default. */
    public LearnerSettings batch(int records) {
        batch = records;
        return this;
    }

    /** Sets the seed of random numbers in layers. */
    public LearnerSettings seed(long value) {
        seed = value;
        return this;
    }

    /**
     * Holds one record in {@code every} out of training. The model is measured on the last {@code rows} of them, once
     * there are {@code atLeast}. Defaults: 10, 1,000 and 100. If {@code every} is 0, none is held out and no version is
     * published.
     */
    public LearnerSettings holdOut(int every, int rows, int atLeast) {
        holdOut = every;
        window = rows;
        minMeasuredRows = atLeast;
        return this;
    }

    /** Sets the metrics to measure on held-out rows besides the loss. */
    public LearnerSettings metrics(Metric... measured) {
        metrics = List.of(measured);
        return this;
    }

    /** Sets where checkpoints are kept; a learner that finds one there resumes from it. */
    public LearnerSettings checkpoints(Path directory) {
        checkpoints = directory;
        return this;
    }

    /** Saves, measures and publishes after so many records or so much time; 10,000 and 30 s by default. */
    public LearnerSettings checkpointEvery(long records, Duration time) {
        checkpointRecords = records;
        checkpointInterval = time;
        return this;
    }

    /** Sets the topic of records that cannot be decoded; without one they are logged. */
    public LearnerSettings deadLetters(String to) {
        deadLetters = to;
        return this;
    }

    /**
     * Publishes a version when its held-out loss is below that of the version that serves.
     *
     * @param directory for files, under a path that scorers have too
     * @param texts for the files, for example of {@link dev.starling.nn.model.ModelDescription#metadata}
     */
    public LearnerSettings publish(ModelTopic to, Path directory, Map<String, String> texts) {
        published = to;
        files = directory;
        metadata = Map.copyOf(texts);
        return this;
    }

    /**
     * Publishes a version only if its loss is below the served loss by more than {@code share} of the latter's absolute
     * value; 0 by default.
     */
    public LearnerSettings margin(double share) {
        margin = share;
        return this;
    }

    /** Returns whether a loss is below the served one by more than the margin; a likelihood's loss may be negative. */
    boolean improves(double loss, double served) {
        return loss < served * (served < 0 ? 1 + margin : 1 - margin);
    }

    /**
     * Connects, and resumes from the latest checkpoint if there is one.
     *
     * @throws StreamException if a topic, a broker or a setting is missing, the name of the published model cannot
     *     begin the name of a file, records that follow the checkpoint are deleted, or the topic is not the one that
     *     the checkpoint is of
     * @throws dev.starling.nn.checkpoint.CheckpointException if the checkpoint is damaged or does not fit
     */
    public KafkaLearner open() {
        if (model == null || checkpoints == null) {
            throw new StreamException("a learner must have a model and a directory of checkpoints");
        }
        if (batch < 1 || holdOut < 0 || window < 1 || minMeasuredRows < 1 || minMeasuredRows > window
                || checkpointRecords < 1) {
            throw new StreamException("a learner must have batch >= 1, records between checkpoints >= 1, holdOut >= 0 "
                    + "and 1 <= atLeast <= rows of the window, got " + batch + ", " + checkpointRecords + ", " + holdOut
                    + ", " + minMeasuredRows + " and " + window);
        }
        if (published != null) {
            ModelPublisher.requireFileName(published.name());
        }
        return new KafkaLearner(copy());
    }

    /** Returns a copy that later changes of this do not affect. */
    LearnerSettings copy() {
        try {
            return (LearnerSettings) clone();
        } catch (CloneNotSupportedException e) {
            throw new AssertionError("settings are cloneable", e);
        }
    }
}
