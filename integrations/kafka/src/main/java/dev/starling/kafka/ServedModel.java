package dev.starling.kafka;

import dev.starling.nn.Layer;
import dev.starling.tensor.DType;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A loaded and checked model with its version; immutable. Threads {@link #acquire} it for the duration of a batch; its
 * memory is freed when it has been replaced and the last batch has released it.
 */
final class ServedModel {
    private final Layer model;
    private final ModelVersion version;
    /** One for being served, and one for each batch in progress; 0 when closed. */
    private final AtomicInteger references = new AtomicInteger(1);

    ServedModel(Layer model, ModelVersion version) {
        this.model = model;
        this.version = version;
    }

    ModelVersion version() {
        return version;
    }

    Layer model() {
        return model;
    }

    /** Keeps the model open until {@link #release}; returns false if it is closed already. */
    boolean acquire() {
        return references.getAndUpdate(n -> n == 0 ? 0 : n + 1) > 0;
    }

    void release() {
        if (references.decrementAndGet() == 0) {
            model.close();
        }
    }

    /**
     * Scores rows.
     *
     * @param rows {@code n * columns} numbers
     * @return the results, row by row, of equal length
     * @throws StreamException that names the version if the model fails
     */
    float[] score(float[] rows, int n, int columns) {
        try (Scope scope = Scope.open("score")) {
            Tensor result = model.forward(Tensor.of(rows, n, columns).to(model.device()));
            if (result.rank() == 0 || result.size(0) != n) {
                throw new StreamException(version + " must return " + n + " rows for " + n + ", returned "
                        + result.spec());
            }
            return result.to(DType.F32).toFloats();
        } catch (StreamException e) {
            throw e;
        } catch (RuntimeException e) {
            throw new StreamException(version + " failed on " + n + " rows of " + columns + " numbers: "
                    + e.getMessage(), e);
        }
    }
}
