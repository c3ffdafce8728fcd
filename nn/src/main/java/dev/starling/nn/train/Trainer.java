package dev.starling.nn.train;

import dev.starling.nn.Layer;
import dev.starling.nn.Precision;
import dev.starling.nn.checkpoint.CheckpointWriter;
import dev.starling.nn.data.Batch;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.Share;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.TensorException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;

/**
 * Trains a model: epochs of steps, each epoch measured on held-out data, with checkpoints from which a run goes on bit
 * for bit.
 *
 * <pre>{@code
 * History history = Trainer.of(model, Loss.crossEntropy(), Adam.over(model).build())
 *         .data(train).heldOut(test).epochs(3).seed(7).metrics(Metric.accuracy())
 *         .listeners(ProgressBar.onStandardError()).checkpoints(directory).build().run();
 * }</pre>
 *
 * <p>Model, optimiser, loaders and strategy stay the caller's to close. Confined to one thread.
 */
public final class Trainer {
    private final Builder how;
    private final DistributionStrategy strategy;
    private final DataLoader data;
    private final Averages averages;
    private final Progress progress;
    private final TrainingState state;
    private final TrainingStep step;
    /** {@code null} if nothing is saved. */
    private final CheckpointWriter writer;

    private Trainer(Builder how) {
        this.how = how;
        strategy = how.strategy;
        data = how.data;
        averages = new Averages(how.metrics);
        progress = new Progress(how.epochs, averages);
        progress.measure(data.batches(), data.examples());
        LossScale scale = how.precision.scalesLoss() ? new LossScale() : null;
        state = new TrainingState(how.model, how.optimizer, data, how.seed, progress, scale);
        if (strategy.share().isOwn()) {
            state.ownData();
        }
        state.resumesFrom(how.resume ? how.directory : null);
        writer = how.directory == null ? null : new CheckpointWriter(how.directory, how.keep);
        step = new TrainingStep(how.model, how.loss, how.optimizer, Generator.seeded(how.seed), strategy)
                .precision(how.precision, scale);
        if (how.captured) {
            step.captured();
        }
    }

    /** Begins a trainer. */
    public static Builder of(Layer model, Loss loss, Optimizer optimizer) {
        return new Builder(model, loss, optimizer);
    }

    /** Returns how far the run is; it can be stopped there. */
    public Progress progress() {
        return progress;
    }

    /**
     * Trains until all epochs are done or {@link Progress#stop} is called.
     *
     * @throws dev.starling.tensor.TensorException if a step fails, for example because the loss is not finite
     * @throws dev.starling.nn.data.LoadException if a batch cannot be made
     * @throws dev.starling.nn.checkpoint.CheckpointException if a checkpoint cannot be read, written or does not fit
     */
    public History run() {
        if (strategy.rank() == 0) {
            state.resume();
        }
        strategy.start(state);
        History history = new History();
        Device before = data.device();
        data.device(how.model.device());
        try {
            tell(l -> l.started(progress));
            do {
                // Wherever ranks were when the state was restored, they all go on from here.
                state.takeRestored();
                boolean goesOn = true;
                while (goesOn && progress.epoch < how.epochs && !state.isRestored()) {
                    goesOn = epoch() && (state.isRestored() || endEpoch(history));
                }
                if (!state.isRestored()) {
                    save();
                }
            } while (state.isRestored());
            strategy.finish();
            tellSaved();
        } finally {
            step.close();
            data.device(before);
            if (writer != null) {
                writer.close();
            }
            tell(l -> l.ended(progress));
        }
        return history;
    }

    /** Trains on the rest of an epoch; returns whether the run goes on. */
    private boolean epoch() {
        tell(l -> l.epochStarted(progress));
        progress.startClock();
        Iterator<Batch> batches = open();
        while (progress.batch < data.batches()) {
            if (!data.share().equals(strategy.share())) {
                // The epoch may have fewer batches now.
                batches = open();
                continue;
            }
            int count = Math.min(how.accumulate, data.batches() - progress.batch);
            long rows = data.rows(progress.batch, count);
            if (!step.run(batches, count, rows, state, averages)) {
                return true;
            }
            progress.stepped(rows);
            progress.skipped = step.skipped();
            if (writer != null && writer.isDone()) {
                tellSaved();
            }
            for (int i = 0; i < how.listeners.size(); i++) {
                how.listeners.get(i).stepEnded(progress);
            }
            if (how.everySteps > 0 && progress.step % how.everySteps == 0) {
                save();
            }
            boolean stops = !state.isRestored() && strategy.stops(progress.isStopped());
            if (stops || state.isRestored()) {
                return !stops;
            }
        }
        return true;
    }

    /** Opens the data at the place where the run is, for the share that is this process's now. */
    private Iterator<Batch> open() {
        data.share(strategy.share());
        progress.measure(data.batches(), data.examples());
        return data.epoch(progress.epoch, progress.batch).iterator();
    }

    /** Measures the model and reports; returns whether the run goes on. */
    private boolean endEpoch(History history) {
        if (progress.epoch + 1 == how.epochs) {
            strategy.conclude();
        }
        strategy.settle();
        Scores training = averages.scores(overRanks(averages.sums()));
        EpochReport report = progress.report(training, how.heldOut == null ? null : heldOut());
        if (state.isRestored()) {
            return true;
        }
        history.add(report);
        tell(l -> l.epochEnded(progress, report));
        progress.epoch++;
        progress.batch = 0;
        averages.reset();
        if (strategy.stops(progress.isStopped())) {
            return state.isRestored();
        }
        if (how.everySteps == 0 && progress.epoch < how.epochs && !state.isRestored()) {
            save();
        }
        return true;
    }

    /** Measures this rank's part of the held-out data, or all of it on rank 0 if ranks do not wait for each other. */
    private Scores heldOut() {
        if (state.isRestored() || !strategy.isSynchronous() && strategy.rank() != 0) {
            return null;
        }
        how.heldOut.share(strategy.share().ofHeldOut());
        Averages measured = new Averages(how.metrics);
        double[] sums = how.precision.run(() -> Scores.sums(how.model, how.loss, how.heldOut, measured));
        how.heldOut.share(Share.WHOLE);
        return measured.scores(overRanks(sums));
    }

    /** Adds sums up over ranks that are at the same step; not any more if the state was restored meanwhile. */
    private double[] overRanks(double[] sums) {
        if (strategy.isSynchronous() && !state.isRestored()) {
            strategy.sum(sums);
        }
        return sums;
    }

    private void save() {
        if (writer == null) {
            return;
        }
        strategy.settle();
        double[] sums = overRanks(averages.sums());
        if (strategy.rank() == 0 && !state.isRestored()) {
            Map<String, String> notes = state.notes();
            averages.save(notes, sums);
            tellSaved();
            writer.save(progress.step, state.tensors(), notes, strategy.saveParts(how.directory));
        }
    }

    /** Waits for a checkpoint that is being written. */
    private void tellSaved() {
        Path manifest = writer == null ? null : writer.await();
        if (manifest != null) {
            tell(l -> l.checkpointSaved(progress, manifest));
        }
    }

    private interface Message {
        void to(TrainingListener listener);
    }

    private void tell(Message message) {
        how.listeners.forEach(message::to);
    }

    /** Gathers what a run is made of. */
    public static final class Builder {
        private final Layer model;
        private final Loss loss;
        private final Optimizer optimizer;
        private final List<TrainingListener> listeners = new ArrayList<>();
        private DataLoader data;
        private DataLoader heldOut;
        private int epochs = 1;
        private int accumulate = 1;
        private boolean captured;
        private Precision precision = Precision.of(DType.F32);
        private long seed;
        private List<Metric> metrics = List.of();
        private DistributionStrategy strategy = new SingleProcess();
        private Path directory;
        private long everySteps;
        private int keep = 2;
        private boolean resume;

        private Builder(Layer model, Loss loss, Optimizer optimizer) {
            this.model = model;
            this.loss = loss;
            this.optimizer = optimizer;
        }

        /** Sets what is trained on. */
        public Builder data(DataLoader batches) {
            data = batches;
            return this;
        }

        /** Sets what each epoch is measured on. */
        public Builder heldOut(DataLoader batches) {
            heldOut = batches;
            return this;
        }

        /** Sets how often the run goes through the data; 1 unless told. */
        public Builder epochs(int count) {
            epochs = count;
            return this;
        }

        /**
         * Takes each step along the mean gradient of {@code batches} batches, with the memory of one; 1 unless told.
         * The loss has to be a mean over rows.
         */
        public Builder accumulate(int batches) {
            if (batches < 1) {
                throw TensorException.argument("trainer", "a step needs a batch or more, got " + batches,
                        "give 1 or more");
            }
            accumulate = batches;
            return this;
        }

        /** Captures steps and replays them, with the same results and less work; see {@link TrainingStep#captured}. */
        public Builder captured() {
            captured = true;
            return this;
        }

        /**
         * Sets the type in which layers compute, in training and when the model is measured; f32, as the weights are,
         * unless told. Checkpoints hold the weights as ever. In f16 the loss is scaled, and a step whose gradients
         * overflow changes nothing and is counted by {@link Progress#skipped}.
         */
        public Builder precision(Precision computing) {
            precision = computing;
            return this;
        }

        /** Sets what layers draw random numbers from; 0 unless told. */
        public Builder seed(long value) {
            seed = value;
            return this;
        }

        /** Sets what is measured beside the loss. */
        public Builder metrics(Metric... measured) {
            metrics = List.of(measured);
            return this;
        }

        /** Adds listeners. */
        public Builder listeners(TrainingListener... told) {
            listeners.addAll(List.of(told));
            return this;
        }

        /**
         * Makes this run one of many processes; the loss has to be a mean over rows. All are given the same batch size,
         * seeds, number of epochs and interval of checkpoints, which rank 0 alone reads and writes, and the same data,
         * unless the strategy is for {@linkplain Share#isOwn own data}.
         */
        public Builder strategy(DistributionStrategy together) {
            strategy = together;
            return this;
        }

        /**
         * Saves a checkpoint in {@code target} after each epoch, and when the run is stopped. Training goes on while it
         * is written; the state is held in memory twice.
         */
        public Builder checkpoints(Path target) {
            return checkpoints(target, 0);
        }

        /** Saves a checkpoint in {@code target} after every {@code steps} steps and at the end. */
        public Builder checkpoints(Path target, long steps) {
            directory = target;
            everySteps = steps;
            return this;
        }

        /** Sets how many checkpoints are kept, the latest; 2 unless told. */
        public Builder keep(int count) {
            keep = Math.max(1, count);
            return this;
        }

        /** Goes on from the latest checkpoint of the directory, if there is one. */
        public Builder resume() {
            resume = true;
            return this;
        }

        /** Makes the trainer. */
        public Trainer build() {
            if (data == null) {
                throw TensorException.argument("trainer", "there is nothing to train on", "call data(loader)");
            }
            if (resume && directory == null) {
                throw TensorException.argument("trainer", "there is nothing to resume", "call checkpoints(directory)");
            }
            if (captured && accumulate > 1) {
                throw TensorException.argument("trainer", "a captured step takes one batch",
                        "leave out captured() or accumulate(" + accumulate + ")");
            }
            return new Trainer(this);
        }
    }
}
