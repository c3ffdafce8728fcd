package dev.starling.nn.train;

import dev.starling.nn.Module;
import dev.starling.nn.model.ModelFile;
import dev.starling.nn.model.ModelMetadata;
import java.nio.file.Path;
import java.util.Map;

/**
 * Saves a model as a {@link ModelFile} after each epoch that is better than all before it:
 *
 * <pre>{@code
 * Trainer.of(model, loss, optimizer).data(train).heldOut(test).listeners(BestModel.of(model, file))...
 * }</pre>
 *
 * <p>The measure is the held-out loss, or the training loss if nothing is held out. NaN is no improvement; it is an
 * error if it is the held-out loss and no epoch before has had a number. The file contains the measured numbers as
 * metadata and always is a complete model: a new one replaces the old one when it is on disk. A resumed run replaces it
 * only by a better one. With several processes, rank 0 writes the file, and a listener on other ranks has no effect.
 * One listener serves one run.
 */
public final class BestModel implements ResumableListener {
    private static final String BEST = "best";

    private final Module model;
    private final Path file;
    private Measure measure = Measure.LOSS;
    private ModelMetadata metadata = ModelMetadata.none();
    private double best = Double.NaN;

    private BestModel(Module model, Path file) {
        this.model = model;
        this.file = file;
    }

    /** Returns a listener that saves a model in a file. */
    public static BestModel of(Module model, Path file) {
        return new BestModel(model, file);
    }

    /** Measures a metric that improves when it grows, by its name, in place of the loss. */
    public BestModel growing(String metric) {
        measure = new Measure(metric, true);
        return this;
    }

    /** Measures a metric that improves when it shrinks, by its name, in place of the loss. */
    public BestModel shrinking(String metric) {
        measure = new Measure(metric, false);
        return this;
    }

    /** Sets what the file says about the model, to which the measured loss, metrics and epoch are added. */
    public BestModel metadata(ModelMetadata description) {
        metadata = description;
        return this;
    }

    /** Returns the best measure so far; NaN before the first epoch. */
    public double best() {
        return best;
    }

    @Override
    public void started(Progress progress) {
        measure.require(progress);
        if (progress.rank() == 0 && file.toAbsolutePath().getParent() instanceof Path directory) {
            TrainingState.requireWritable(directory);
        }
    }

    @Override
    public void epochEnded(Progress progress, EpochReport report) {
        double now = measure.of(report, best);
        if (measure.improves(now, best, 0)) {
            best = now;
            if (progress.rank() == 0) {
                Scores scores = report.heldOut().orElse(report.training());
                model.save(file, metadata.metric("loss", scores.loss()).metrics(scores.metrics())
                        .note("epoch", Integer.toString(report.epoch())));
            }
        }
    }

    @Override
    public Map<String, String> notes() {
        return Map.of(BEST, Double.toString(best));
    }

    @Override
    public void restore(Map<String, String> notes) {
        best = Double.parseDouble(notes.getOrDefault(BEST, "NaN"));
    }

    @Override
    public String toString() {
        return "best model by " + measure + " in " + file;
    }
}
