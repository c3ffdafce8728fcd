package dev.starling.nn.train;

import dev.starling.tensor.TensorException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * A run in another process, as the listeners of this process observe it. In the other process,
 * {@link #numbers(Progress)} and {@link #numbers(EpochReport)} convert what a listener receives to numbers. The
 * application transports them, and this class converts them back. Both processes must have the same metrics in the same
 * order. Safe for use by several threads.
 */
public final class RemoteRun implements AutoCloseable {
    private static final int STEP = 4;
    private static final int SUMS = 9;

    private final List<Metric> metrics;
    private final List<TrainingListener> listeners;
    private final Progress progress;
    private final List<EpochReport> reports = new ArrayList<>();
    private boolean started;
    private boolean ended;

    /** Creates a run that has not received any numbers. */
    public RemoteRun(int epochs, List<Metric> metrics, List<TrainingListener> listeners) {
        this.metrics = List.copyOf(metrics);
        this.listeners = List.copyOf(listeners);
        progress = new Progress(epochs, new Averages(this.metrics));
    }

    /** Converts the progress of a run to numbers. */
    public static double[] numbers(Progress from) {
        Averages averages = from.averages;
        double[] sums = averages.byRows();
        double[] numbers = new double[SUMS + sums.length + averages.last.length];
        double[] first = {from.epoch, from.batch, from.batches(), from.examplesPerEpoch(), from.step, from.skipped,
                averages.lastLoss, from.epochExamples(), from.epochNs()};
        System.arraycopy(first, 0, numbers, 0, SUMS);
        System.arraycopy(sums, 0, numbers, SUMS, sums.length);
        System.arraycopy(averages.last, 0, numbers, SUMS + sums.length, averages.last.length);
        return numbers;
    }

    /** Converts the report of an epoch to numbers. */
    public static double[] numbers(EpochReport report) {
        int metrics = report.training().metrics().size();
        if (report.heldOut().isPresent() && report.heldOut().get().metrics().size() != metrics) {
            throw TensorException.argument("epoch report", "training has " + metrics + " metrics and the held-out data "
                    + report.heldOut().get().metrics().size(), "measure both by the same metrics");
        }
        double[] numbers = new double[5 + 2 * (2 + metrics)];
        numbers[0] = report.epoch() - 1;
        numbers[1] = report.step();
        numbers[2] = report.seconds();
        numbers[3] = report.itemsPerSecond();
        numbers[4] = report.heldOut().isPresent() ? 1 : 0;
        put(report.training(), numbers, 5);
        report.heldOut().ifPresent(scores -> put(scores, numbers, 5 + 2 + metrics));
        return numbers;
    }

    private static void put(Scores scores, double[] numbers, int at) {
        numbers[at] = scores.examples();
        numbers[at + 1] = scores.loss();
        int i = at + 2;
        for (double mean : scores.metrics().values()) {
            numbers[i++] = mean;
        }
    }

    private Scores scores(double[] numbers, int at) {
        double[] means = new double[metrics.size()];
        System.arraycopy(numbers, at + 2, means, 0, means.length);
        return Scores.of(metrics, numbers[at + 1], means, (long) numbers[at]);
    }

    /**
     * Receives the result of {@link #numbers(Progress)}. Numbers of a step that has already been reported are ignored.
     */
    public synchronized void stepEnded(double[] numbers) {
        requireLength(numbers, SUMS + progress.averages.sums().length + progress.averages.last.length);
        if (ended || numbers[STEP] <= progress.step) {
            return;
        }
        boolean sameEpoch = (int) numbers[0] == progress.epoch;
        double rows = numbers[7] - (sameEpoch ? progress.epochExamples() : 0);
        double ns = numbers[8] - (sameEpoch ? progress.epochNs() : 0);
        start(numbers[0], numbers[STEP]);
        progress.epoch = (int) numbers[0];
        progress.batch = (int) numbers[1];
        progress.setEpochSize((int) numbers[2], (long) numbers[3]);
        progress.step = (long) numbers[STEP];
        progress.skipped = (long) numbers[5];
        if (!sameEpoch) {
            progress.resetClock();
        }
        if (ns > 0 && rows > 0) {
            progress.addStep((long) ns, (long) rows);
        }
        progress.averages.copyFrom(numbers, SUMS, numbers[6]);
        listeners.forEach(l -> l.stepEnded(progress));
    }

    /** Receives the result of {@link #numbers(EpochReport)}. A second report on an epoch is ignored. */
    public synchronized void epochEnded(double[] numbers) {
        requireLength(numbers, 5 + 2 * (2 + metrics.size()));
        int epoch = (int) numbers[0] + 1;
        if (ended || reports.stream().anyMatch(r -> r.epoch() == epoch)) {
            return;
        }
        EpochReport report = new EpochReport(epoch, (long) numbers[1], scores(numbers, 5),
                numbers[4] == 0 ? Optional.empty() : Optional.of(scores(numbers, 5 + 2 + metrics.size())), numbers[2],
                numbers[3]);
        reports.add(report);
        start(numbers[0], numbers[1]);
        progress.epoch = epoch - 1;
        listeners.forEach(l -> l.epochEnded(progress, report));
    }

    private static void requireLength(double[] numbers, int length) {
        if (numbers.length != length) {
            throw TensorException.argument("remote run", "expected " + length + " numbers, got " + numbers.length,
                    "use the same metrics in both processes");
        }
    }

    /**
     * Notifies the listeners of the start, before the first numbers. If these are of a later epoch than the first, the
     * run has resumed from a checkpoint, and listeners keep what they have of the epochs before.
     */
    private void start(double epoch, double step) {
        if (!started) {
            started = true;
            progress.epoch = (int) epoch;
            progress.step = epoch > 0 ? (long) step - 1 : 0;
            listeners.forEach(l -> l.started(progress));
        }
    }

    /** Ends the run. Numbers that arrive later are ignored. */
    @Override
    public synchronized void close() {
        boolean due = started && !ended;
        ended = true;
        if (due) {
            Ending.of(listeners, progress).close();
        }
    }

    /** Returns the reports received so far, by epoch. */
    public synchronized List<EpochReport> epochs() {
        return reports.stream().sorted((a, b) -> Integer.compare(a.epoch(), b.epoch())).toList();
    }
}
