package dev.starling.kafka;

import dev.starling.nn.Layer;
import dev.starling.nn.checkpoint.SafeTensors;
import dev.starling.nn.model.ModelDescription;
import java.io.IOException;
import java.util.function.Supplier;

/**
 * Makes a model of an announcement: fetches the file once, compares its SHA-256, builds the model, fills in the
 * weights, and tries it on a row of zeros. Whatever fails, nothing is left behind.
 */
final class ModelLoader {
    private final ModelStore store;
    private final int columns;
    /** {@code null} if files describe their models. */
    private final Supplier<? extends Layer> factory;
    private final ClassLoader loader;

    ModelLoader(ModelStore store, int columns, Supplier<? extends Layer> factory, ClassLoader loader) {
        this.store = store;
        this.columns = columns;
        this.factory = factory;
        this.loader = loader;
    }

    /**
     * Loads a version.
     *
     * @throws StreamException that names file, version and reason; if the checksum is wrong, both
     */
    ServedModel load(ModelVersion version) {
        byte[] bytes;
        try {
            bytes = store.read(version.uri());
        } catch (IOException | RuntimeException e) {
            throw refused(version, "the file cannot be read: " + e, e);
        }
        String found = ModelVersion.sha256(bytes);
        if (!found.equals(version.sha256())) {
            throw refused(version, "the file has the SHA-256 " + found + ", the announcement says "
                    + version.sha256(), null);
        }
        Layer model = null;
        try (SafeTensors file = SafeTensors.of(bytes)) {
            if (factory == null) {
                model = ModelDescription.load(file, loader);
            } else {
                model = factory.get();
                file.into(model.state());
            }
            ServedModel served = new ServedModel(model, version);
            float[] trial = served.score(new float[columns], 1, columns);
            FloatRows.requireFinite(trial, 0, trial.length);
            model = null;
            return served;
        } catch (RuntimeException e) {
            throw refused(version, "the model does not fit rows of " + columns + " numbers or cannot be built: "
                    + e.getMessage(), e);
        } finally {
            if (model != null) {
                model.close();
            }
        }
    }

    private static StreamException refused(ModelVersion version, String reason, Throwable cause) {
        return new StreamException(version + " from " + version.uri() + " is refused: " + reason, cause);
    }
}
