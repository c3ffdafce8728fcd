package dev.starling.nn.train;

import dev.starling.errors.StarlingException;
import dev.starling.nn.Layer;
import dev.starling.nn.Model;
import dev.starling.nn.Module;
import dev.starling.nn.Precision;
import dev.starling.nn.checkpoint.CheckpointWriter;
import dev.starling.nn.data.Batch;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.Share;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.loss.Objective;
import dev.starling.nn.optim.Optimizer;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.program.Explanation;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Trains a model in epochs of steps, evaluates each epoch on held-out data, and saves checkpoints from which a run
 * resumes bit for bit.
 *
 * <pre>{@code
 * History history = Trainer.of(model, Loss.crossEntropy(), Adam.over(model).build())
 *         .data(train).heldOut(test).epochs(3).seed(7).metrics(Metric.accuracy())
 *         .listeners(ProgressBar.onStandardError()).checkpoints(directory).build().run();
 * }</pre>
 *
 * <p>The caller closes model, optimiser, loaders and strategy. Confined to one thread.
 */
public final class Trainer {
    private final Builder config;
    private final DistributionStrategy strategy;
    private final Collective collective;
    private final Concludes ending;
    private final DataLoader data;
    private final Task task;
    private final Averages averages;
    private final Progress progress;
    private final TrainingState state;
    private final TrainingStep step;
    private Optional<Explanation> explanation = Optional.empty();
    /** {@code null} if no checkpoints are saved. */
    private final @Nullable CheckpointWriter writer;

    private Trainer(Builder config, DataLoader data) {
        this.config = config;
        this.data = data;
        strategy = config.strategy;
        collective = Collective.of(strategy);
        ending = Concludes.of(strategy);
        task = config.task();
        task.require(data);
        if (config.heldOut != null) {
            task.require(config.heldOut);
        }
        averages = task.averages();
        progress = new Progress(config.epochs, averages, strategy);
        progress.setEpochSize(data.batches(), data.examples());
        LossScale scale = config.precision.scalesLoss() ? new LossScale() : null;
        state = new TrainingState(config.model, config.optimizer, data, config.seed, progress, scale);
        if (strategy.share().isOwn()) {
            state.ownData();
        }
        state.listeners(config.listeners);
        state.settings(() -> CommonSettings.of(config, data));
        state.resumeFrom(config.resume ? config.directory : null, config.skipDamaged);
        writer = config.directory == null ? null : new CheckpointWriter(config.directory, config.keep);
        step = new TrainingStep(task, config.optimizer, Generator.seeded(config.seed), strategy)
                .precision(config.precision, scale);
        if (config.captured) {
            step.captured();
        }
    }

    /** Returns a builder of a trainer. */
    public static Builder of(Layer model, Loss loss, Optimizer optimizer) {
        return new Builder(model, metrics -> Task.of(model, loss, metrics), optimizer);
    }

    /**
     * Returns a builder of a trainer of a model with several inputs or results. Inputs and targets are the fields of
     * the data that have the names of the model's inputs and results. If the objective has several losses, the mean of
     * each is reported as a metric: that of {@code price} as {@code price loss}.
     */
    public static Builder of(Model<?, ?> model, Objective objective, Optimizer optimizer) {
        return new Builder(model, metrics -> Task.of(model, objective, metrics), optimizer);
    }

    /** Returns the progress of the run, which can also be used to stop it. */
    public Progress progress() {
        return progress;
    }

    /** Returns {@link TrainingStep#explain} of the run's steps, also when the run has ended. */
    public Optional<Explanation> explain() {
        explanation = step.explain().or(() -> explanation);
        return explanation;
    }

    /**
     * Trains until all epochs are done or {@link Progress#stop} is called.
     *
     * @throws RunEndedException if the strategy is that of several processes, for whatever ends the run; any other
     *     exception of this library is its cause. What the caller's own code throws passes unchanged
     * @throws SettingsMismatchException in that case, on all of them, if their settings differ
     * @throws dev.starling.tensor.TensorException if there is no batch, or a step fails, for example because the loss
     *     is not finite
     * @throws dev.starling.nn.data.LoadException if a batch cannot be prepared
     * @throws dev.starling.nn.checkpoint.CheckpointException if a checkpoint cannot be read or written, or does not
     *     match the run
     */
    public History run() {
        boolean several = strategy.world() > 1;
        try {
            return runToEnd();
        } catch (StarlingException e) {
            throw !several || e instanceof RunEndedException ? e : new RunEndedException(strategy.rank(),
                    "the run ended on rank " + strategy.rank() + ": " + e.getMessage(), e);
        }
    }

    private History runToEnd() {
        if (strategy.rank() == 0) {
            state.resume();
        }
        strategy.start(state);
        if (config.directory != null && strategy.savesCheckpoints()) {
            TrainingState.requireWritable(config.directory);
        }
        if (!state.hasSharedSettings() && state.step() == 0 && strategy.share().isSynchronous()) {
            CommonSettings.compare(state.settings(), strategy, collective);
        }
        History history = new History();
        Device before = data.device();
        Share shareBefore = data.share();
        data.device(config.model.device());
        try (Ending ended = Ending.of(config.listeners, progress);
                Ending asBefore = () -> data.device(before).share(shareBefore);
                Ending written = writer == null ? () -> { } : writer::close; TrainingStep running = step;
                Ending explained = this::explain) {
            notifyListeners(l -> l.started(progress));
            do {
                // If the state was restored, all ranks continue from here, wherever they were before.
                state.clearRestored();
            } while (train(history) == Outcome.RESTORED);
            ending.finish();
            reportSaved();
            progress.over = true;
        }
        return history;
    }

    /** Trains from the current position until the run ends or the state is restored. Saves the state at the end. */
    private Outcome train(History history) {
        Outcome outcome = progress.epoch < config.epochs ? agreeOnStart() : Outcome.TAKEN;
        while (outcome == Outcome.TAKEN && progress.epoch < config.epochs) {
            outcome = epoch();
            if (outcome == Outcome.TAKEN) {
                outcome = endEpoch(history);
            }
        }
        return outcome == Outcome.RESTORED ? outcome : save();
    }

    /** Trains on the rest of an epoch. */
    private Outcome epoch() {
        notifyListeners(l -> l.epochStarted(progress));
        progress.startClock();
        Iterator<Batch> batches = open();
        Outcome outcome = Outcome.TAKEN;
        while (outcome == Outcome.TAKEN && progress.batch < data.batches()) {
            if (data.share().equals(strategy.share())) {
                outcome = step(batches);
            } else {
                // The new share may have fewer batches in this epoch.
                batches = open();
            }
        }
        return outcome;
    }

    /** Opens the data at the current position of the run, for the current share of this process. */
    private Iterator<Batch> open() {
        // A rank without rows of its own has no batches, while other ranks train.
        boolean mayBeEmpty = strategy.world() > 1 && strategy.share().isOwn();
        if (config.heldOut != null && measuresHeldOut() && !mayBeEmpty) {
            Averages.requireExamples(config.heldOut.share(Share.whole()).batches());
        }
        data.share(strategy.share());
        progress.setEpochSize(data.batches(), data.examples());
        if (data.batches() == 0 && !mayBeEmpty) {
            throw TensorException.argument("trainer", "there is no batch to train on: the data has " + data.size()
                    + " examples, and a batch " + data.batchSize(), "check the data set, use a smaller batch, or leave "
                    + "out dropLast()");
        }
        return data.epoch(progress.epoch, progress.batch).iterator();
    }

    /** Takes a step, reports it, saves the state if it is time, and agrees with the other ranks on going further. */
    private Outcome step(Iterator<Batch> batches) {
        int count = Math.min(config.accumulate, data.batches() - progress.batch);
        long rows = data.rows(progress.batch, count);
        Outcome outcome = step.run(batches, count, rows, state, averages);
        if (outcome != Outcome.TAKEN) {
            return outcome;
        }
        progress.onStep(rows);
        progress.skipped = step.skipped();
        if (writer != null && writer.isDone()) {
            reportSaved();
        }
        for (int i = 0; i < config.listeners.size(); i++) {
            config.listeners.get(i).stepEnded(progress);
        }
        outcome = outcome();
        if (outcome == Outcome.TAKEN && config.everySteps > 0 && progress.step % config.everySteps == 0) {
            outcome = save();
        }
        return outcome == Outcome.TAKEN ? agreeOnEnd() : outcome;
    }

    /** Returns what has become of the run after calls of the strategy, each of which may have restored the state. */
    private Outcome outcome() {
        return state.isRestored() ? Outcome.RESTORED : Outcome.TAKEN;
    }

    /** Agrees with the other ranks on whether the run ends before its next step. */
    private Outcome agreeOnStart() {
        double[] stops = {progress.isStopped() ? 1 : 0};
        Outcome outcome = sumOverRanks(stops);
        return stops[0] > 0 && outcome == Outcome.TAKEN ? Outcome.STOPPED : outcome;
    }

    /** Agrees with the other ranks on whether the run ends here. */
    private Outcome agreeOnEnd() {
        boolean stops = collective.stops(progress.isStopped());
        Outcome outcome = outcome();
        return stops && outcome == Outcome.TAKEN ? Outcome.STOPPED : outcome;
    }

    /** Evaluates the model and reports the epoch. */
    private Outcome endEpoch(History history) {
        if (progress.epoch + 1 == config.epochs) {
            ending.conclude();
        }
        strategy.settle();
        double[] sums = averages.sums();
        Outcome outcome = sumOverRanks(sums);
        Scores heldOut = null;
        if (outcome == Outcome.TAKEN && measuresHeldOut()) {
            double[] heldOutSums = evaluate();
            outcome = sumOverRanks(heldOutSums);
            heldOut = outcome == Outcome.RESTORED ? null : averages.evaluated(heldOutSums);
        }
        if (outcome == Outcome.RESTORED) {
            return outcome;
        }
        EpochReport report = progress.report(averages.scores(sums), heldOut);
        history.add(report);
        notifyListeners(l -> l.epochEnded(progress, report));
        progress.epoch++;
        progress.batch = 0;
        averages.reset();
        outcome = agreeOnEnd();
        boolean saves = config.everySteps == 0 && progress.epoch < config.epochs;
        return saves && outcome == Outcome.TAKEN ? save() : outcome;
    }

    /** Returns whether this rank evaluates epochs: if ranks do not wait for each other, rank 0 evaluates all data. */
    private boolean measuresHeldOut() {
        return config.heldOut != null && (strategy.share().isSynchronous() || strategy.rank() == 0);
    }

    /** Returns the sums over this rank's part of the held-out data. */
    private double[] evaluate() {
        DataLoader heldOut = Objects.requireNonNull(config.heldOut);
        heldOut.share(strategy.share().ofHeldOut());
        try {
            return config.precision.run(() -> Scores.sums(task, heldOut, task.averages()));
        } finally {
            heldOut.share(Share.whole());
        }
    }

    /** Adds up sums over ranks that are at the same step, unless the state was restored before. */
    private Outcome sumOverRanks(double[] sums) {
        if (outcome() == Outcome.TAKEN && strategy.share().isSynchronous()) {
            collective.sum(sums);
        }
        return outcome();
    }

    /** Saves the state of the run if checkpoints are configured. */
    private Outcome save() {
        if (writer == null) {
            return Outcome.TAKEN;
        }
        strategy.settle();
        double[] sums = averages.sums();
        Outcome outcome = sumOverRanks(sums);
        if (outcome == Outcome.TAKEN && strategy.savesCheckpoints()) {
            Map<String, String> notes = state.notes();
            averages.save(notes, sums);
            reportSaved();
            writer.save(progress.step, state.tensors(), notes,
                    StepsElsewhere.of(strategy).saveParts(Objects.requireNonNull(config.directory)));
        }
        return outcome;
    }

    /** Waits for a checkpoint in progress and reports it to the listeners. */
    private void reportSaved() {
        if (writer != null) {
            writer.await().ifPresent(manifest -> notifyListeners(l -> l.checkpointSaved(progress, manifest)));
        }
    }

    private void notifyListeners(Consumer<TrainingListener> notification) {
        config.listeners.forEach(notification);
    }

    /** Collects the settings of a trainer. */
    public static final class Builder implements Cloneable {
        final Module model;
        private final Function<List<Metric>, Task> task;
        final Optimizer optimizer;
        List<TrainingListener> listeners = List.of();
        private @Nullable DataLoader data;
        /** {@code null} if epochs are not evaluated. */
        @Nullable DataLoader heldOut;
        int epochs = 1;
        int accumulate = 1;
        private boolean captured;
        Precision precision = Precision.of(DType.F32);
        long seed;
        List<Metric> metrics = List.of();
        DistributionStrategy strategy = new SingleProcess();
        /** Where checkpoints are saved; {@code null} for none. */
        @Nullable Path directory;
        /** Steps between checkpoints; 0 for one after each epoch. */
        long everySteps;
        private int keep = 2;
        private boolean resume;
        private boolean skipDamaged;

        private Builder(Module model, Function<List<Metric>, Task> task, Optimizer optimizer) {
            this.model = model;
            this.task = task;
            this.optimizer = optimizer;
        }

        /** Returns what the trainer computes of a batch. */
        Task task() {
            return task.apply(metrics);
        }

        /** Sets the training data. */
        public Builder data(DataLoader batches) {
            data = batches;
            return this;
        }

        /** Sets the held-out data on which each epoch is evaluated. */
        public Builder heldOut(DataLoader batches) {
            heldOut = batches;
            return this;
        }

        /** Sets the number of passes over the data; default 1. */
        public Builder epochs(int count) {
            if (count < 0) {
                throw TensorException.argument("trainer", "epochs must be >= 0, got " + count, "use 1 or more");
            }
            epochs = count;
            return this;
        }

        /**
         * Sets the number of batches whose mean gradient each step uses, with the memory of one batch; default 1. The
         * loss must be a mean over rows.
         */
        public Builder accumulate(int batches) {
            if (batches < 1) {
                throw TensorException.argument("trainer", "a step needs a batch, got " + batches, "use 1 or more");
            }
            accumulate = batches;
            return this;
        }

        /**
         * Captures steps and replays them, with the same results and less overhead; see {@link TrainingStep#captured}.
         */
        public Builder captured() {
            captured = true;
            return this;
        }

        /**
         * Sets the type in which layers compute in training and evaluation; default f32, the type of the weights.
         * Checkpoints always contain the weights in their own type. In f16 the loss is scaled; a step whose gradients
         * overflow is skipped and counted by {@link Progress#skipped}.
         */
        public Builder precision(Precision value) {
            precision = value;
            return this;
        }

        /** Sets the seed of the random numbers that layers draw; default 0. */
        public Builder seed(long value) {
            seed = value;
            return this;
        }

        /** Sets the metrics that are evaluated in addition to the loss; their names must differ. */
        public Builder metrics(Metric... values) {
            metrics = List.of(values);
            return this;
        }

        /** Adds listeners. */
        public Builder listeners(TrainingListener... added) {
            listeners = Stream.concat(listeners.stream(), Stream.of(added)).toList();
            return this;
        }

        /**
         * Makes this process one of several that train together. The loss must be a mean over rows. All processes must
         * have the same batch size, seeds, number of epochs and checkpoint interval, and the same data unless the
         * strategy is for {@linkplain Share#isOwn own data}. Only rank 0 reads and writes checkpoints.
         */
        public Builder strategy(DistributionStrategy value) {
            strategy = value;
            return this;
        }

        /**
         * Saves a checkpoint in {@code target} after each epoch and when the run is stopped. Training continues while
         * it is written, which needs a second copy of the state in memory.
         */
        public Builder checkpoints(Path target) {
            return checkpoints(target, 0);
        }

        /** Saves a checkpoint in {@code target} after every {@code steps} steps and at the end. */
        public Builder checkpoints(Path target, long steps) {
            if (steps < 0) {
                throw TensorException.argument("trainer", "steps must be >= 0, got " + steps, "use 1 or more");
            }
            directory = target;
            everySteps = steps;
            return this;
        }

        /** Sets how many of the latest checkpoints are kept; default 2. */
        public Builder keep(int count) {
            keep = Math.max(1, count);
            return this;
        }

        /**
         * Resumes from the checkpoint of the highest step in the directory, if there is one. Give each run a directory
         * of its own, because one that an earlier run has left counts too.
         */
        public Builder resume() {
            resume = true;
            return this;
        }

        /**
         * Resumes from the latest checkpoint that is intact, if there is one, instead of ending with an error when the
         * latest is damaged; see {@link dev.starling.nn.checkpoint.Checkpoint#latestIntact}.
         */
        public Builder skipDamaged() {
            skipDamaged = true;
            return resume();
        }

        /** Returns a trainer with these settings. */
        public Trainer build() {
            if (data == null) {
                throw TensorException.argument("trainer", "there is no training data", "call data(loader)");
            }
            if (resume && directory == null) {
                throw TensorException.argument("trainer", "there is no directory to resume from",
                        "call checkpoints(directory)");
            }
            if (captured && accumulate > 1) {
                throw TensorException.argument("trainer", "a captured step uses exactly one batch",
                        "leave out captured() or accumulate(" + accumulate + ")");
            }
            if (strategy.world() > 1 && strategy.share().isSynchronous() && !(strategy instanceof Collective)) {
                throw TensorException.argument("trainer", strategy.getClass().getName() + " divides batches between "
                        + strategy.world() + " ranks, but cannot add up what they measure", "implement Collective");
            }
            return new Trainer(copy(), data);
        }

        /** Returns a copy, so that later changes of this have no effect on a trainer. */
        private Builder copy() {
            try {
                return (Builder) clone();
            } catch (CloneNotSupportedException e) {
                throw new AssertionError("builders are cloneable", e);
            }
        }
    }
}
