package dev.starling.nn.train;

import dev.starling.tensor.TensorException;
import java.util.ArrayList;
import java.util.List;

/**
 * A run in another process, as this process's listeners see it: {@link #numbers(Progress)} and
 * {@link #numbers(EpochReport)} turn what a listener there sees into numbers, which travel by whatever way, and this
 * turns them back. Both sides have the same metrics in the same order. Safe for use by several threads.
 */
public final class RemoteRun {
    private static final int STEP = 4;
    private static final int SUMS = 9;

    private final List<Metric> metrics;
    private final List<TrainingListener> listeners;
    private final Progress progress;
    private final List<EpochReport> reports = new ArrayList<>();
    private boolean started;
    private boolean ended;

    /** Makes a run of which nothing is known yet. */
    public RemoteRun(int epochs, List<Metric> metrics, List<TrainingListener> listeners) {
        this.metrics = List.copyOf(metrics);
        this.listeners = List.copyOf(listeners);
        progress = new Progress(epochs, new Averages(this.metrics));
    }

    /** Returns how far a run is. */
    public static double[] numbers(Progress from) {
        Averages averages = from.averages;
        double[] sums = averages.sums();
        double[] numbers = new double[SUMS + sums.length + averages.last.length];
        double[] first = {from.epoch, from.batch, from.batches(), from.examplesPerEpoch(), from.step, from.skipped,
                averages.lastLoss, from.epochExamples(), from.epochNs()};
        System.arraycopy(first, 0, numbers, 0, SUMS);
        System.arraycopy(sums, 0, numbers, SUMS, sums.length);
        System.arraycopy(averages.last, 0, numbers, SUMS + sums.length, averages.last.length);
        return numbers;
    }

    /** Returns what came of an epoch. */
    public static double[] numbers(EpochReport report) {
        int metrics = report.training().metrics().size();
        double[] numbers = new double[5 + 2 * (2 + metrics)];
        numbers[0] = report.epoch();
        numbers[1] = report.step();
        numbers[2] = report.seconds();
        numbers[3] = report.itemsPerSecond();
        numbers[4] = report.heldOut() == null ? 0 : 1;
        put(report.training(), numbers, 5);
        if (report.heldOut() != null) {
            put(report.heldOut(), numbers, 5 + 2 + metrics);
        }
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

    /** Takes {@link #numbers(Progress)}; those of a step that is past already change nothing. */
    public synchronized void stepEnded(double[] numbers) {
        requireLength(numbers, SUMS + progress.averages.sums().length + progress.averages.last.length);
        if (ended || numbers[STEP] <= progress.step) {
            return;
        }
        boolean sameEpoch = (int) numbers[0] == progress.epoch;
        double rows = numbers[7] - (sameEpoch ? progress.epochExamples() : 0);
        double ns = numbers[8] - (sameEpoch ? progress.epochNs() : 0);
        start();
        progress.epoch = (int) numbers[0];
        progress.batch = (int) numbers[1];
        progress.measure((int) numbers[2], (long) numbers[3]);
        progress.step = (long) numbers[STEP];
        progress.skipped = (long) numbers[5];
        if (!sameEpoch) {
            progress.resetClock();
        }
        if (ns > 0 && rows > 0) {
            progress.took((long) ns, (long) rows);
        }
        progress.averages.follow(numbers, SUMS, numbers[6]);
        listeners.forEach(l -> l.stepEnded(progress));
    }

    /** Takes {@link #numbers(EpochReport)}; a report that is known changes nothing. */
    public synchronized void epochEnded(double[] numbers) {
        requireLength(numbers, 5 + 2 * (2 + metrics.size()));
        int epoch = (int) numbers[0];
        if (ended || reports.stream().anyMatch(r -> r.epoch() == epoch)) {
            return;
        }
        EpochReport report = new EpochReport(epoch, (long) numbers[1], scores(numbers, 5),
                numbers[4] == 0 ? null : scores(numbers, 5 + 2 + metrics.size()), numbers[2], numbers[3]);
        reports.add(report);
        start();
        progress.epoch = epoch;
        listeners.forEach(l -> l.epochEnded(progress, report));
    }

    private static void requireLength(double[] numbers, int length) {
        if (numbers.length != length) {
            throw TensorException.argument("remote run", "there must be " + length + " numbers, got " + numbers.length,
                    "give both sides the same metrics");
        }
    }

    private void start() {
        if (!started) {
            started = true;
            listeners.forEach(l -> l.started(progress));
        }
    }

    /** Ends the run; later numbers change nothing. */
    public synchronized void ended() {
        if (!ended && started) {
            listeners.forEach(l -> l.ended(progress));
        }
        ended = true;
    }

    /** Returns what is known of epochs, oldest first. */
    public synchronized List<EpochReport> epochs() {
        return reports.stream().sorted((a, b) -> Integer.compare(a.epoch(), b.epoch())).toList();
    }
}
