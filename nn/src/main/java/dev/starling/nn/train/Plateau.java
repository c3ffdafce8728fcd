package dev.starling.nn.train;

import dev.starling.nn.optim.Schedule;
import dev.starling.tensor.TensorException;
import java.util.Map;

/**
 * Reduces the learning rate when a measure has stopped improving for some epochs. It is both the schedule of the
 * optimiser and a listener of the trainer:
 *
 * <pre>{@code
 * Plateau rates = Plateau.of(0.1).patience(5);
 * Trainer.of(model, loss, Sgd.over(model).rate(rates).build()).data(train).heldOut(test).listeners(rates)...
 * }</pre>
 *
 * <p>The measure is the held-out loss, or the training loss if nothing is held out. NaN is no improvement; it is an
 * error if it is the held-out loss and no epoch before has had a number. The rate is no function of the number of
 * steps, but part of checkpoints: a run that resumes continues with the rate that it had. Processes that train
 * synchronously see the same measures and therefore have the same rates.
 *
 * <p>As PyTorch's {@code ReduceLROnPlateau} with a relative threshold and without cooldown, but for negative measures,
 * whose threshold is a share of their absolute value here: PyTorch would count an increase as an improvement.
 */
public final class Plateau implements Schedule, ResumableListener {
    private static final String RATE = "rate";
    private static final String BEST = "best";
    private static final String WORSE = "worse";

    private final double first;
    private double factor = 0.1;
    private int patience = 10;
    private double threshold = 1e-4;
    private double lowest;
    private Measure measure = Measure.LOSS;
    private double best = Double.NaN;
    private int worse;
    private volatile double rate;

    private Plateau(double rate) {
        first = rate;
        this.rate = rate;
    }

    /** Returns a schedule that starts with a rate, which it multiplies by 0.1 after 10 epochs without improvement. */
    public static Plateau of(double rate) {
        if (!(rate >= 0 && rate < Double.POSITIVE_INFINITY)) {
            throw TensorException.argument("plateau", "rate must be >= 0 and finite, got " + rate, "change the rate");
        }
        return new Plateau(rate);
    }

    /** Sets what the rate is multiplied by; default 0.1. */
    public Plateau factor(double value) {
        require(value > 0 && value < 1, "0 < factor < 1 must hold, got " + value);
        factor = value;
        return this;
    }

    /** Sets the number of epochs without improvement that are tolerated; default 10. */
    public Plateau patience(int epochs) {
        require(epochs >= 0, "patience must be >= 0, got " + epochs);
        patience = epochs;
        return this;
    }

    /** Sets the share of the best measure by which another one must be better to count; default 1e-4. */
    public Plateau threshold(double share) {
        require(share >= 0, "the threshold must be >= 0, got " + share);
        threshold = share;
        return this;
    }

    /** Sets the rate below which this schedule does not go; default 0. */
    public Plateau lowest(double value) {
        require(value >= 0, "the lowest rate must be >= 0, got " + value);
        lowest = value;
        return this;
    }

    /**
     * Measures a metric of the held-out data, which improves when it grows, in place of the loss.
     *
     * @param metric its name
     */
    public Plateau growing(String metric) {
        measure = new Measure(metric, true);
        return this;
    }

    /** As {@link #growing}, for a metric that improves when it shrinks. */
    public Plateau shrinking(String metric) {
        measure = new Measure(metric, false);
        return this;
    }

    private static void require(boolean holds, String relation) {
        if (!holds) {
            throw TensorException.argument("plateau", relation, "change this setting");
        }
    }

    @Override
    public double rate(long steps) {
        return rate;
    }

    @Override
    public void started(Progress progress) {
        measure.require(progress);
    }

    @Override
    public void epochEnded(Progress progress, EpochReport report) {
        double now = measure.of(report, best);
        // A share of an infinite measure is no distance: any finite one is better or worse.
        if (measure.improves(now, best, Double.isInfinite(best) ? 0 : threshold * Math.abs(best))) {
            best = now;
            worse = 0;
        } else if (++worse > patience) {
            rate = Math.max(lowest, rate * factor);
            worse = 0;
        }
    }

    @Override
    public Map<String, String> notes() {
        return Map.of(RATE, Double.toString(rate), BEST, Double.toString(best), WORSE, Integer.toString(worse));
    }

    @Override
    public void restore(Map<String, String> notes) {
        rate = Double.parseDouble(notes.getOrDefault(RATE, Double.toString(first)));
        best = Double.parseDouble(notes.getOrDefault(BEST, "NaN"));
        worse = Integer.parseInt(notes.getOrDefault(WORSE, "0"));
    }

    @Override
    public String toString() {
        return "plateau from " + first + " by " + factor + " after " + patience + " epochs, now " + rate;
    }
}
