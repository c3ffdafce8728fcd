package dev.starling.kafka;

import dev.starling.nn.Layer;
import dev.starling.nn.checkpoint.SafeTensors;
import dev.starling.nn.checkpoint.Sha256;
import dev.starling.nn.model.ModelDescription;
import java.io.IOException;

/**
 * Loads an announced model: reads the file once, compares its SHA-256, builds the model, loads the weights, and scores
 * rows of zeros on trial. If one of these fails, all memory is freed.
 */
final class ModelLoader {
    /** More than one, because a model that accepts only single rows cannot score batches. */
    private static final int TRIAL_ROWS = 2;

    private final ModelTopic source;
    private final int columns;

    ModelLoader(ModelTopic source, int columns) {
        this.source = source;
        this.columns = columns;
    }

    /**
     * Loads a version.
     *
     * @throws StreamException that names file, version and reason; if the checksum is wrong, both
     */
    ServedModel load(ModelVersion version) {
        byte[] bytes;
        try {
            bytes = source.store().read(version.uri());
        } catch (IOException | RuntimeException e) {
            throw refusal(version, "the file cannot be read: " + e, e);
        }
        String found = Sha256.of(bytes);
        if (!found.equals(version.sha256())) {
            throw refusal(version, "the file has the SHA-256 " + found + ", the announcement says "
                    + version.sha256(), null);
        }
        Layer model = null;
        try (SafeTensors file = SafeTensors.of(bytes)) {
            if (source.factory() == null) {
                model = ModelDescription.load(file, source.loader());
            } else {
                model = source.factory().get();
                file.into(model.state());
            }
            ServedModel served = new ServedModel(model, version);
            float[] trial = served.score(new float[TRIAL_ROWS * columns], TRIAL_ROWS, columns);
            FloatRows.requireFinite(trial, 0, trial.length);
            model = null;
            return served;
        } catch (RuntimeException e) {
            throw refusal(version, "the model does not fit rows of " + columns + " numbers or cannot be built: "
                    + e.getMessage(), e);
        } finally {
            if (model != null) {
                model.close();
            }
        }
    }

    private static StreamException refusal(ModelVersion version, String reason, Throwable cause) {
        return new StreamException(version + " from " + version.uri() + " is refused: " + reason, cause);
    }
}
