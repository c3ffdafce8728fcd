package dev.starling.nn.train;

import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** The progress of a run. Each run has one such object, which changes while the run continues. */
public final class Progress {
    /** The time constant of the rate of items, in seconds. */
    private static final double MEMORY_S = 4;

    private final int epochs;
    private int batches;
    private long examplesPerEpoch;
    private final DistributionStrategy strategy;
    final Averages averages;
    /** The number of completed epochs. */
    int epoch;
    int batch;
    long step;
    long skipped;
    private long epochExamples;
    private long lastNs;
    private long epochNs;
    private double rate;
    private double weight;
    private final Pace pace = new Pace();
    /** Duration of the last pause between two epochs, for evaluation and checkpoints. */
    private double pauseSeconds;
    private volatile boolean stopped;
    /** Whether the run has ended, and not by an exception. */
    boolean over;

    Progress(int epochs, Averages averages) {
        this(epochs, averages, new SingleProcess());
    }

    Progress(int epochs, Averages averages, DistributionStrategy strategy) {
        this.epochs = epochs;
        this.averages = averages;
        this.strategy = strategy;
    }

    /** Sets the size of an epoch, which may change with the number of processes. */
    void setEpochSize(int batchesPerEpoch, long examples) {
        batches = batchesPerEpoch;
        examplesPerEpoch = examples;
    }

    void startClock() {
        over = false;
        long now = System.nanoTime();
        if (batch == 0 && weight > 0) {
            pauseSeconds = (now - lastNs) / 1e9;
        }
        lastNs = now;
        resetClock();
    }

    /**
     * Counts a step that trained on {@code n} examples. Its time includes that of listeners since the previous step.
     */
    void onStep(long n) {
        long now = System.nanoTime();
        addStep(Math.max(1, now - lastNs), n);
        lastNs = now;
    }

    long examplesPerEpoch() {
        return examplesPerEpoch;
    }

    /** Returns the number of examples of this epoch that were trained on since the clock was started. */
    long epochExamples() {
        return epochExamples;
    }

    /** Returns the time that training took since the clock was started. */
    long epochNs() {
        return epochNs;
    }

    void resetClock() {
        epochNs = 0;
        epochExamples = 0;
    }

    /** Counts a step of known duration. */
    void addStep(long ns, long n) {
        double seconds = ns / 1e9;
        epochNs += ns;
        epochExamples += n;
        double keep = Math.exp(-seconds / MEMORY_S);
        rate = keep * rate + (1 - keep) * n / seconds;
        weight = keep * weight + (1 - keep);
        pace.add(seconds, n);
    }

    /** Returns the rank of this process in the run, from 0. A listener that writes files does so on rank 0 only. */
    public int rank() {
        return strategy.rank();
    }

    /** Returns the number of the current epoch, from 1. */
    public int epoch() {
        return epoch + 1;
    }

    /** Returns the number of epochs of the run. */
    public int epochs() {
        return epochs;
    }

    /** Returns the number of completed batches of this epoch. */
    public int batch() {
        return batch;
    }

    /** Returns the number of batches in an epoch. */
    public int batches() {
        return batches;
    }

    /** Returns the number of steps of the run so far. */
    public long step() {
        return step;
    }

    /** Returns the number of steps that were skipped because gradients overflowed in f16; see {@link Trainer}. */
    public long skipped() {
        return skipped;
    }

    /** Returns the loss of the last step, over the rows of this process. */
    public double loss() {
        return averages.lastLoss;
    }

    /** Returns the mean loss of this epoch, over the rows of this process. */
    public double meanLoss() {
        return averages.loss();
    }

    /** Returns the metrics that are evaluated in addition to the loss. */
    public List<Metric> metrics() {
        return averages.metrics;
    }

    /** Returns the mean of {@code metrics().get(metric)} over the last step. */
    public double metric(int metric) {
        return averages.last[metric];
    }

    /** Returns the mean of {@code metrics().get(metric)} over this epoch. */
    public double meanMetric(int metric) {
        return averages.mean(metric);
    }

    /**
     * Returns the recent number of training examples per second on all ranks that share batches, or 0 before the first
     * step.
     */
    public double itemsPerSecond() {
        return weight == 0 ? 0 : rate / weight;
    }

    /**
     * Returns the estimated seconds until the run ends, including evaluation once an epoch has shown how long it takes.
     * Returns NaN while there is no basis for an estimate: in the first seconds, and while steps are still becoming
     * faster.
     */
    public double secondsLeft() {
        double steps = (double) (epochs - epoch) * batches - batch;
        return steps * examplesPerEpoch / Math.max(1, batches) * pace.secondsPerExample()
                + (epochs - epoch) * pauseSeconds;
    }

    /** Ends the run after the current step, or before the first one. May be called from any thread. */
    public void stop() {
        stopped = true;
    }

    boolean isStopped() {
        return stopped;
    }

    EpochReport report(Scores training, @Nullable Scores heldOut) {
        double seconds = epochNs / 1e9;
        return new EpochReport(epoch + 1, step, training, Optional.ofNullable(heldOut), seconds,
                seconds == 0 ? 0 : epochExamples / seconds);
    }
}
