package dev.starling.nn.train;

import dev.starling.nn.Layer;
import dev.starling.nn.checkpoint.Checkpoint;
import dev.starling.nn.data.Batch;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.tensor.Generator;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

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
    private final Averages averages;
    private final Progress progress;
    private final Generator generator;
    private final RunState state;

    private Trainer(Builder how) {
        this.how = how;
        averages = new Averages(how.metrics);
        progress = new Progress(how.epochs, how.data.batches(), how.data.examples(), averages);
        generator = Generator.seeded(how.seed).split(how.strategy.rank());
        state = new RunState(how.model, how.optimizer, generator, how.data, progress);
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
        if (how.resume) {
            Checkpoint.latest(how.directory).ifPresent(state::restore);
        }
        how.strategy.start(how.model, how.optimizer);
        History history = new History();
        TrainingStep step = new TrainingStep(how.model, how.loss, how.optimizer, generator, how.strategy);
        try {
            tell(l -> l.started(progress));
            while (progress.epoch < how.epochs && !progress.isStopped()) {
                if (!epoch(step)) {
                    save();
                    break;
                }
                EpochReport report = progress.report(how.heldOut == null ? null
                        : Scores.evaluate(how.model, how.loss, how.heldOut, how.metrics.toArray(Metric[]::new)));
                history.add(report);
                tell(l -> l.epochEnded(progress, report));
                progress.epoch++;
                progress.batch = 0;
                averages.reset();
                if (how.everySteps == 0 || progress.epoch == how.epochs || progress.isStopped()) {
                    save();
                }
            }
        } finally {
            tell(l -> l.ended(progress));
        }
        return history;
    }

    /** Trains on the rest of an epoch; returns whether it came to its end. */
    private boolean epoch(TrainingStep step) {
        progress.startClock();
        for (Batch batch : how.data.epoch(progress.epoch, progress.batch)) {
            step.run(batch.input(), batch.target(), averages);
            progress.stepped(batch.size());
            for (int i = 0; i < how.listeners.size(); i++) {
                how.listeners.get(i).stepEnded(progress);
            }
            if (how.everySteps > 0 && progress.step % how.everySteps == 0) {
                save();
            }
            if (progress.isStopped()) {
                return false;
            }
        }
        return true;
    }

    private void save() {
        if (how.directory != null && how.strategy.rank() == 0) {
            Path manifest = state.save(how.directory);
            Checkpoint.prune(how.directory, how.keep);
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

        /** Makes this run one of many processes. */
        public Builder strategy(DistributionStrategy together) {
            strategy = together;
            return this;
        }

        /** Saves a checkpoint in {@code target} after each epoch, and when the run is stopped. */
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
                throw new IllegalStateException("there is nothing to train on; call data(loader)");
            }
            if (resume && directory == null) {
                throw new IllegalStateException("there is nothing to resume; call checkpoints(directory)");
            }
            return new Trainer(this);
        }
    }
}
