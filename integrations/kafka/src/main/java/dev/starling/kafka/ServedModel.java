package dev.starling.kafka;

import dev.starling.nn.Layer;
import dev.starling.tensor.DType;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A model that serves, with its version: whole, checked, and never changed. Threads {@link #hold} it for the length of
 * a batch; its memory is freed when it was replaced and the last batch that held it is done.
 */
final class ServedModel {
    private final Layer model;
    private final ModelVersion version;
    /** One for being served, and one for each batch under way; 0 when closed. */
    private final AtomicInteger holds = new AtomicInteger(1);

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

    /** Keeps the model open until {@link #drop}; returns false if it is closed already. */
    boolean hold() {
        return holds.getAndUpdate(n -> n == 0 ? 0 : n + 1) > 0;
    }

    void drop() {
        if (holds.decrementAndGet() == 0) {
            model.close();
        }
    }

    /**
     * Scores rows.
     *
     * @param rows {@code n * columns} numbers
     * @return as many numbers for each row, one row after the other
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
