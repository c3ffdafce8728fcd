package dev.starling.kafka;

import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.function.ToDoubleBiFunction;

/** The most recent held-out rows, in a tensor that checkpoints contain. */
final class HeldOutWindow implements AutoCloseable {
    private final RowSplit split;
    private final int size;
    private final Parameter rows;
    /** Number of rows added since the first start of the learner. */
    private long added;

    HeldOutWindow(int size, RowSplit split) {
        this.split = split;
        this.size = size;
        rows = Device.with(Device.cpu(), () -> {
            try (Scope scope = Scope.open("window")) {
                return Parameter.buffer(Tensor.zeros(size, split.columns()));
            }
        });
    }

    Parameter rows() {
        return rows;
    }

    long added() {
        return added;
    }

    /** Restores the count of rows from a checkpoint; {@link #rows} is restored before. */
    void resume(long count) {
        added = count;
    }

    void add(float[] from, int at) {
        Tensor tensor = rows.master();
        MemorySegment.copy(from, at, tensor.segment(), ValueLayout.JAVA_FLOAT,
                added % size * split.columns() * Float.BYTES, split.columns());
        tensor.storage().changed();
        added++;
    }

    int filled() {
        return (int) Math.min(added, size);
    }

    /** Applies {@code measure} to the model's result and the target of all rows; the window must not be empty. */
    double measure(Layer model, ToDoubleBiFunction<Tensor, Tensor> measure) {
        try (Scope scope = Scope.open("held out")) {
            float[] all = rows.master().narrow(0, 0, filled()).toFloats();
            Tensor result = model.forward(split.input(all, filled()).to(model.device()));
            return measure.applyAsDouble(result, split.target(all, filled()).to(model.device()));
        }
    }

    @Override
    public void close() {
        rows.close();
    }
}
