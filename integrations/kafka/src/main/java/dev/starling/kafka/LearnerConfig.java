package dev.starling.kafka;

import dev.starling.nn.Layer;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.train.Metric;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;

/** The settings of a {@link KafkaLearner}, copied from its {@link LearnerSettings}, which explain them. */
final class LearnerConfig {
    final KafkaCluster cluster;
    final String topic;
    final RowCodec codec;
    final RowSplit split;
    final Layer model;
    final Loss loss;
    final Optimizer optimizer;
    final int batch;
    final long seed;
    /** One record in so many is held out; 0 for none. */
    final int holdOut;
    /** Capacity of the window of held-out rows. */
    final int window;
    /** The model is measured once the window has so many rows. */
    final int minMeasuredRows;
    final double margin;
    /** The directory of checkpoints. */
    final Path checkpoints;
    /** A checkpoint is due after so many records... */
    final long checkpointRecords;
    /** ...or, if there was a record, after so long. */
    final Duration checkpointInterval;
    /** {@code null} if records that cannot be decoded are logged. */
    final String deadLetters;
    final List<Metric> metrics;
    /** {@code null} if no versions are published. */
    final ModelTopic published;
    /** The directory of published files; {@code null} if no versions are published. */
    final Path files;
    final Map<String, String> metadata;

    LearnerConfig(LearnerSettings settings) {
        cluster = settings.cluster;
        topic = settings.topic;
        codec = settings.codec;
        split = settings.split();
        model = settings.model;
        loss = settings.loss;
        optimizer = settings.optimizer;
        batch = settings.batch;
        seed = settings.seed;
        holdOut = settings.holdOut;
        window = settings.window;
        minMeasuredRows = settings.minMeasuredRows;
        margin = settings.margin;
        checkpoints = settings.checkpoints;
        checkpointRecords = settings.checkpointRecords;
        checkpointInterval = settings.checkpointInterval;
        deadLetters = settings.deadLetters;
        metrics = settings.metrics;
        published = settings.published;
        files = settings.files;
        metadata = settings.metadata;
    }
}
