package dev.starling.nn.train;

import dev.starling.nn.Layer;
import dev.starling.nn.Precision;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import java.nio.file.Path;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** The settings of a {@link Trainer}, copied from its builder, which explains them. */
final class TrainerConfig {
    final Layer model;
    final Loss loss;
    final Optimizer optimizer;
    final List<TrainingListener> listeners;
    final DataLoader data;
    /** {@code null} if epochs are not evaluated. */
    final @Nullable DataLoader heldOut;
    final int epochs;
    /** Batches in a step. */
    final int accumulate;
    final boolean captured;
    final Precision precision;
    final long seed;
    final List<Metric> metrics;
    final DistributionStrategy strategy;
    /** Where checkpoints are saved; {@code null} for none. */
    final @Nullable Path directory;
    /** Steps between checkpoints; 0 for one after each epoch. */
    final long everySteps;
    /** Number of checkpoints to keep. */
    final int keep;
    final boolean resume;

    TrainerConfig(Trainer.Builder builder) {
        model = builder.model;
        loss = builder.loss;
        optimizer = builder.optimizer;
        listeners = List.copyOf(builder.listeners);
        data = builder.data;
        heldOut = builder.heldOut;
        epochs = builder.epochs;
        accumulate = builder.accumulate;
        captured = builder.captured;
        precision = builder.precision;
        seed = builder.seed;
        metrics = builder.metrics;
        strategy = builder.strategy;
        directory = builder.directory;
        everySteps = builder.everySteps;
        keep = builder.keep;
        resume = builder.resume;
    }
}
