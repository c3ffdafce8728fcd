package dev.starling.nn.train;

import java.util.List;

/** How far a run is. The one object of the run, which changes as it goes. */
public final class Progress {
    /** How long the rate of items looks back, in seconds. */
    private static final double MEMORY_S = 4;

    private final int epochs;
    private int batches;
    private long examplesPerEpoch;
    final Averages averages;
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
    /** Of the pause between the last two epochs, for evaluation and checkpoints. */
    private double pauseSeconds;
    private volatile boolean stopped;

    Progress(int epochs, Averages averages) {
        this.epochs = epochs;
        this.averages = averages;
    }

    /** Says how much an epoch is; may change with the number of processes. */
    void measure(int batchesPerEpoch, long examples) {
        batches = batchesPerEpoch;
        examplesPerEpoch = examples;
    }

    void startClock() {
        long now = System.nanoTime();
        if (batch == 0 && weight > 0) {
            pauseSeconds = (now - lastNs) / 1e9;
        }
        lastNs = now;
        resetClock();
    }

    /** Times a step that trained on {@code n} examples; what a listener does in between counts too. */
    void stepped(long n) {
        long now = System.nanoTime();
        took(Math.max(1, now - lastNs), n);
        lastNs = now;
    }

    long examplesPerEpoch() {
        return examplesPerEpoch;
    }

    /** Returns how many examples of this epoch were trained on since the clock was started. */
    long epochExamples() {
        return epochExamples;
    }

    /** Returns how long that took. */
    long epochNs() {
        return epochNs;
    }

    void resetClock() {
        epochNs = 0;
        epochExamples = 0;
    }

    /** Counts a step. */
    void took(long ns, long n) {
        double seconds = ns / 1e9;
        epochNs += ns;
        epochExamples += n;
        double keep = Math.exp(-seconds / MEMORY_S);
        rate = keep * rate + (1 - keep) * n / seconds;
        weight = keep * weight + (1 - keep);
        pace.add(seconds, n);
    }

    /** Returns the number of the epoch, from 0. */
    public int epoch() {
        return epoch;
    }

    /** Returns how many epochs the run takes. */
    public int epochs() {
        return epochs;
    }

    /** Returns how many batches of this epoch are done. */
    public int batch() {
        return batch;
    }

    /** Returns how many batches an epoch has. */
    public int batches() {
        return batches;
    }

    /** Returns how many steps were taken in all. */
    public long step() {
        return step;
    }

    /** Returns how many of them changed nothing because gradients overflowed in f16; see {@link Trainer}. */
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

    /** Returns what is measured beside the loss. */
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
     * Returns how many examples per second the run trains on, lately, on all ranks that share batches; 0 before the
     * first step.
     */
    public double itemsPerSecond() {
        return weight == 0 ? 0 : rate / weight;
    }

    /**
     * Returns how many seconds the run will still take, with evaluation once an epoch has shown what that takes; NaN as
     * long as there is no basis: in the first seconds, and while steps still become faster.
     */
    public double secondsLeft() {
        double steps = (double) (epochs - epoch) * batches - batch;
        return steps * examplesPerEpoch / Math.max(1, batches) * pace.secondsPerExample()
                + (epochs - epoch) * pauseSeconds;
    }

    /** Ends the run after the current step. May be called from any thread. */
    public void stop() {
        stopped = true;
    }

    boolean isStopped() {
        return stopped;
    }

    EpochReport report(Scores training, Scores heldOut) {
        double seconds = epochNs / 1e9;
        return new EpochReport(epoch, step, training, heldOut, seconds,
                seconds == 0 ? 0 : epochExamples / seconds);
    }
}
