package dev.starling.samples.train;

import dev.starling.nn.Layer;
import dev.starling.nn.Precision;
import dev.starling.nn.data.DataException;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.Dataset;
import dev.starling.nn.data.ImageDataset;
import dev.starling.nn.data.LabelledImages;
import dev.starling.nn.data.Share;
import dev.starling.nn.energy.GreedyTraining;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.AdamW;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Schedule;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.EpochReport;
import dev.starling.nn.train.History;
import dev.starling.nn.train.LearningCurve;
import dev.starling.nn.train.Metric;
import dev.starling.nn.train.ProgressBar;
import dev.starling.nn.train.Scores;
import dev.starling.nn.train.SingleProcess;
import dev.starling.nn.train.Terminal;
import dev.starling.nn.train.Trainer;
import dev.starling.nn.train.TrainingListener;
import dev.starling.samples.data.DataDirectory;
import dev.starling.samples.data.Split;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Threads;
import dev.starling.tensor.profile.Profiler;
import dev.starling.tensor.program.Explanation;
import java.io.PrintWriter;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Optional;

/** One run of a sample: data, network, training, learning curve, and the printed result. */
final class TrainingRun {
    private static final double WEIGHT_DECAY = 1e-2;
    /**
     * Gradients of fine-tuning are far smaller than those of pre-training, so Adam has to forget the squares of these
     * soon.
     */
    private static final double GREEDY_BETA = 0.95;
    private static final int EVALUATION_BATCH = 250;
    /** Minimum number of steps of a one-cycle schedule. */
    private static final int MIN_STEPS = 2;
    private static final int MAX_LOADERS = 8;
    private static final String ACCURACY = "accuracy";

    private final Sample sample;
    private final TrainOptions options;
    private final int epochs;
    private final int batch;
    private final double rate;
    private final DType precision;
    private final boolean captured;
    private final Path curve;
    private Placement placement;

    private TrainingRun(Sample sample, TrainOptions options) {
        this.sample = sample;
        this.options = options;
        epochs = options.epochs != null ? options.epochs : sample.epochs();
        batch = options.batch != null ? options.batch : sample.batchSize();
        rate = options.rate != null ? options.rate : sample.rate();
        precision = options.precision != null ? options.precision : sample.precision();
        captured = options.captured != null ? options.captured : options.explain != null || sample.captured();
        curve = options.curve != null ? options.curve : Path.of("learning-curve-" + sample.name() + ".png");
    }

    static TrainingRun of(Sample sample, TrainOptions options) {
        return new TrainingRun(sample, options);
    }

    /** Trains in this process without other workers. */
    void run(DataDirectory directory, PrintWriter out) {
        place(0, 1);
        // Fails before anything is downloaded if the device is not available.
        placement.device().backend();
        threads(Threads.count());
        train(load(directory), new SingleProcess(), 1, true, out);
    }

    /** Sets the number of threads of kernels, unless the user has set it. */
    void threads(int defaultCount) {
        Threads.set(threadCount(defaultCount));
    }

    /** Returns the number of threads of kernels that the user has set, or the default. */
    int threadCount(int defaultCount) {
        return options.threads != null ? options.threads : defaultCount;
    }

    /**
     * Selects the requested device, or this process's GPU among those of its host.
     *
     * @param localRank number of this process among those of its host
     * @param localWorkers how many of them train
     */
    void place(int localRank, int localWorkers) {
        placement = Placement.of(options.device, localRank, localWorkers);
        if (localRank == 0 && placement.warning() != null) {
            System.err.println("starling: " + placement.warning());
        }
    }

    /** Downloads missing files once for all processes. */
    void prepare(DataDirectory directory) {
        if (sample.needsFiles()) {
            sample.data().apply(directory);
        }
    }

    Split load(DataDirectory directory) {
        return sample.data().apply(directory);
    }

    /**
     * Trains as one of several processes.
     *
     * @param workers number of workers with which the run begins
     * @param first whether this process shows progress; the result is printed by the strategy's rank 0
     */
    void train(Split split, DistributionStrategy strategy, int workers, boolean first, PrintWriter out) {
        Device device = placement.device();
        device.backend();
        if (first && sample.choice() != null) {
            print(out, String.format(Locale.ROOT, "%s: %s; epochs %d, batch %d, rate %s, %s, %s steps", sample.name(),
                    sample.choice(), epochs, batch, rate, precision, captured ? "captured" : "eager"));
            out.flush();
        }
        Generator generator = Generator.seeded(options.seed);
        Layer network = sample.network().apply(generator);
        GreedyTraining greedy = network instanceof GreedyTraining stages ? stages : null;
        try (Profiler profiler = first && options.profile != null ? Profiler.start(options.profile) : null;
                Layer model = network.to(device);
                DataLoader train = loader(examples(split.train(), greedy), device).batchSize(batch).shuffle()
                        .dropLast().seed(options.seed).build().share(planned(strategy.share(), workers));
                DataLoader test = loader(ImageDataset.of(split.test(), sample.evaluation()), device)
                        .batchSize(EVALUATION_BATCH).build();
                Optimizer optimizer = optimizer(model, greedy, train.batches())) {
            long start = System.nanoTime();
            Trainer trainer = trainer(model, greedy, optimizer, train, test).strategy(strategy)
                    .listeners(first ? new TrainingListener[] {
                            ProgressBar.onStandardError().unit("images")} : new TrainingListener[0]).build();
            History history = trainer.run();
            if (strategy.rank() == 0) {
                report(history, split.test().count(), (System.nanoTime() - start) / 1e9, device, strategy.world(),
                        explained(trainer.explain()), out);
            }
        }
    }

    /** Returns the share by which the schedule is planned: the same on a worker that joins when others are lost. */
    private static Share planned(Share present, int workers) {
        return present instanceof Share.Shard ? Share.shard(0, workers) : present;
    }

    /** Returns a builder of a loader with several workers if the processors do not compute the training. */
    private static DataLoader.Builder loader(Dataset examples, Device device) {
        int workers = device == Device.cpu() ? 1 : Math.clamp(Runtime.getRuntime().availableProcessors() / 2, 1,
                MAX_LOADERS);
        return DataLoader.of(examples).workers(workers);
    }

    private Dataset examples(LabelledImages images, GreedyTraining greedy) {
        Dataset all = ImageDataset.of(images, sample.training());
        return sample.labels() == 0 ? all
                : LabelledSubset.of(all, sample.labels(), greedy.pretrainingEpochs(), Generator.seeded(options.seed));
    }

    private Optimizer optimizer(Layer model, GreedyTraining greedy, long steps) {
        Adam.Builder adam = AdamW.over(model).weightDecay(WEIGHT_DECAY);
        if (epochs * steps < MIN_STEPS) {
            throw new IllegalArgumentException("--batch " + batch + " leaves " + steps
                    + (steps == 1 ? " step" : " steps") + " an epoch and " + epochs * steps + " in all, but the "
                    + "schedule of the learning rate needs " + MIN_STEPS + ": use a smaller --batch"
                    + (steps == 0 ? "" : ", or more --epochs"));
        }
        Schedule cycle = Schedule.oneCycle(rate, epochs * steps);
        if (greedy == null) {
            return adam.rate(cycle).build();
        }
        Schedule machine = Schedule.cosine(sample.pretrainingRate(), 0, Math.max(1, greedy.epochsOfEach() * steps));
        return adam.rate(greedy.schedule(machine, cycle, steps)).betas(0.9, GREEDY_BETA).build();
    }

    private Trainer.Builder trainer(Layer model, GreedyTraining greedy, Optimizer optimizer, DataLoader train,
            DataLoader test) {
        Trainer.Builder builder = Trainer.of(model, greedy == null ? Loss.crossEntropy() : greedy.loss(), optimizer)
                .data(train).heldOut(test).seed(options.seed).precision(Precision.of(precision))
                .epochs(epochs + (greedy == null ? 0 : greedy.pretrainingEpochs()))
                .metrics(greedy == null ? Metric.accuracy() : greedy.metric());
        if (greedy != null) {
            builder.listeners(greedy);
        }
        if (options.checkpoints != null) {
            builder.checkpoints(options.checkpoints);
        }
        if (options.resume) {
            builder.resume();
        }
        if (options.skipDamaged) {
            builder.skipDamaged();
        }
        if (captured) {
            builder.captured();
        }
        return builder;
    }

    private void report(History history, int heldOut, double seconds, Device device, int world, String program,
            PrintWriter out) {
        double items = 0;
        double training = 0;
        for (EpochReport e : history.epochs()) {
            items += e.itemsPerSecond() * e.seconds();
            training += e.seconds();
        }
        if (history.epochs().isEmpty()) {
            print(out, sample.name() + ": the run in " + options.checkpoints + " is complete after its " + epochs
                    + (epochs == 1 ? " epoch" : " epochs") + "; to train further, use more --epochs");
            if (options.json) {
                out.printf(Locale.ROOT, "{\"sample\":\"%s\",\"complete\":true,\"epochs\":%d,\"device\":\"%s\","
                        + "\"workers\":%d}%n", sample.name(), epochs, device, world);
            }
            out.flush();
            return;
        }
        EpochReport last = history.last();
        Scores scores = last.heldOut().orElseThrow();
        double accuracy = scores.metric(ACCURACY);
        double itemsPerSecond = items / Math.max(training, 1e-9);
        long peak = device.memory().peak();
        String drawn = draw(history) + program;
        print(out, String.format(Locale.ROOT, "%s: %.2f %% accuracy on %,d held-out images (loss %.4f) after %d %s in "
                + "%.1f s, %,.0f images/s, %,d MiB at most; %s", sample.name(), 100 * accuracy, heldOut,
                scores.loss(), last.epoch(), last.epoch() == 1 ? "epoch" : "epochs", seconds,
                itemsPerSecond,
                peak >> 20, drawn));
        if (options.json) {
            out.printf(Locale.ROOT, "{\"sample\":\"%s\",\"metric\":\"accuracy\",\"value\":%.5f,\"loss\":%.5f,"
                    + "\"itemsPerSecond\":%.1f,\"seconds\":%.2f,\"trainingSeconds\":%.2f,\"peakBytes\":%d,"
                    + "\"epochs\":%d,\"device\":\"%s\",\"workers\":%d}%n", sample.name(), accuracy,
                    scores.loss(), itemsPerSecond, seconds, training, peak, last.epoch(), device, world);
        }
        out.flush();
    }

    /** Draws a captured step, if that was asked for, and returns where. The run succeeds even if that fails. */
    private String explained(Optional<Explanation> explanation) {
        if (options.explain == null) {
            return "";
        }
        if (explanation.isEmpty()) {
            return ", no program, because no two batches in a row had one shape";
        }
        try {
            explanation.get().write(options.explain);
            return ", program in " + options.explain;
        } catch (UncheckedIOException e) {
            return ", " + e.getMessage();
        }
    }

    /** Prints a sentence: folded to the width of a terminal, otherwise on one line. */
    private static void print(PrintWriter out, String sentence) {
        out.println(Terminal.isStandardOutput() ? Terminal.fold(sentence, Terminal.columns()) : sentence);
    }

    /** Draws the learning curve. The run succeeds even if the curve cannot be written. */
    private String draw(History history) {
        LearningCurve drawing = LearningCurve.in(curve).title("Starling: " + sample.name());
        // Epochs of pre-training have no accuracy.
        history.epochs().stream().filter(e -> e.training().metrics().containsKey(ACCURACY)).forEach(drawing::add);
        try {
            drawing.draw();
            return "curve in " + curve + (options.profile == null ? "" : ", profile in " + options.profile);
        } catch (DataException e) {
            return "no learning curve: " + e.getMessage();
        }
    }
}
