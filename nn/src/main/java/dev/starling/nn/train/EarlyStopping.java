package dev.starling.nn.train;

import dev.starling.nn.Module;
import dev.starling.nn.Parameter;
import dev.starling.tensor.DType;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Ends a run when a measure has stopped improving:
 *
 * <pre>{@code
 * EarlyStopping stopping = EarlyStopping.patience(5).growing("accuracy").restoreBest(model);
 * Trainer.of(model, loss, optimizer).data(train).heldOut(test).epochs(100).listeners(stopping).build().run();
 * }</pre>
 *
 * <p>The measure is the held-out loss, or the training loss if nothing is held out. NaN is no improvement; it is an
 * error if it is the held-out loss and no epoch before has had a number. With several processes, each needs the
 * listener: ranks that share batches see the same measures, so that they end together and restore the same weights.
 * Ranks that do not wait for each other decide each by itself. One listener serves one run.
 */
public final class EarlyStopping implements ResumableListener {
    private static final String BEST = "best";
    private static final String EPOCH = "epoch";
    private static final String WORSE = "worse";

    private final int patience;
    private double minDelta;
    private Measure measure = Measure.LOSS;
    /** The model whose weights are restored; {@code null} for none. */
    private @Nullable Module model;
    /** Weights and buffers of the best epoch by path, and the number of that epoch; empty if none are restored. */
    private final Map<String, Parameter> copies = new LinkedHashMap<>();
    private double best = Double.NaN;
    private int bestEpoch;
    private int worse;

    private EarlyStopping(int patience) {
        this.patience = patience;
    }

    /** Returns a listener that ends a run after {@code epochs} consecutive epochs without improvement. */
    public static EarlyStopping patience(int epochs) {
        if (epochs < 1) {
            throw TensorException.argument("early stopping", "patience must be >= 1, got " + epochs,
                    "tolerate at least one epoch");
        }
        return new EarlyStopping(epochs);
    }

    /** Sets by how much a measure must be better than the best so far to count; default 0. */
    public EarlyStopping minDelta(double value) {
        if (!(value >= 0)) {
            throw TensorException.argument("early stopping", "minDelta must be >= 0, got " + value,
                    "use an absolute difference");
        }
        minDelta = value;
        return this;
    }

    /** Measures a metric that improves when it grows, by its name, in place of the loss. */
    public EarlyStopping growing(String metric) {
        measure = new Measure(metric, true);
        return this;
    }

    /** Measures a metric that improves when it shrinks, by its name, in place of the loss. */
    public EarlyStopping shrinking(String metric) {
        measure = new Measure(metric, false);
        return this;
    }

    /**
     * Gives the model the weights and buffers of its best epoch when the run ends, early or not. They are copied after
     * each epoch that is better, on the device of the model, and are part of checkpoints. The weights of a run that
     * fails stay those of its last step. A worker that joins a run with parameter servers or gossip, where only the
     * model is transferred, knows the best weights since it joined.
     */
    public EarlyStopping restoreBest(Module trained) {
        model = trained;
        copies.clear();
        // The size of a buffer, as that of a vocabulary, may still change before the run starts.
        trained.state().forEach((path, p) -> copies.put("best." + path, Parameter.resizable(p.master())));
        copies.put(EPOCH, Parameter.filled(0, 1));
        return this;
    }

    /** Returns the best measure so far; NaN before the first epoch. */
    public double best() {
        return best;
    }

    /** Returns the number of the epoch with the best measure, from 1; 0 if there is none. */
    public int bestEpoch() {
        return bestEpoch;
    }

    /** Ends a run that it has ended before, when that run is started again. */
    @Override
    public void started(Progress progress) {
        measure.require(progress);
        if (worse >= patience) {
            progress.stop();
        }
    }

    @Override
    public void epochEnded(Progress progress, EpochReport report) {
        double now = measure.of(report, best);
        if (measure.improves(now, best, minDelta)) {
            best = now;
            bestEpoch = report.epoch();
            worse = 0;
            copyWeights();
        } else if (++worse >= patience) {
            progress.stop();
        }
    }

    private void copyWeights() {
        if (model != null) {
            model.state().forEach((path, p) -> copy("best." + path).set(p.master()));
            fill(copy(EPOCH), bestEpoch);
        }
    }

    private Parameter copy(String name) {
        Parameter copy = copies.get(name);
        if (copy == null) {
            throw TensorException.argument("early stopping", "the model did not have " + name
                    + " when restoreBest was called", "add layers before restoreBest(model)");
        }
        return copy;
    }

    private static void fill(Parameter parameter, double value) {
        try (Tensor number = Tensor.full(DType.F32, value, 1)) {
            parameter.set(number);
        }
    }

    @Override
    public void ended(Progress progress) {
        if (model != null && progress.over && copy(EPOCH).master().item() > 0) {
            model.state().forEach((path, p) -> p.set(copy("best." + path).master()));
        }
    }

    @Override
    public Map<String, String> notes() {
        return Map.of(BEST, Double.toString(best), EPOCH, Integer.toString(bestEpoch), WORSE, Integer.toString(worse));
    }

    @Override
    public void restore(Map<String, String> notes) {
        best = Double.parseDouble(notes.getOrDefault(BEST, "NaN"));
        bestEpoch = Integer.parseInt(notes.getOrDefault(EPOCH, "0"));
        worse = Integer.parseInt(notes.getOrDefault(WORSE, "0"));
    }

    @Override
    public Map<String, Parameter> tensors() {
        return Collections.unmodifiableMap(copies);
    }

    @Override
    public String toString() {
        return "early stopping after " + patience + " epochs without a better " + measure;
    }
}
