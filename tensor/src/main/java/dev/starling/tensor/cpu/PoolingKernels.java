package dev.starling.tensor.cpu;

import dev.starling.tensor.DType;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.rows.PoolRows;
import dev.starling.tensor.cpu.rows.RowLoops;
import dev.starling.tensor.op.Pooling;
import dev.starling.tensor.spi.ChannelsLast;
import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;

/**
 * Kernels of {@link Pooling} operations on f32 in the channels-last layout. One thread computes each row of pixels of
 * the result, in a fixed order, even where windows overlap in a gradient.
 */
final class PoolingKernels {
    private PoolingKernels() {
    }

    /** Returns the results, or {@code null} if there is no kernel for these types and layouts. */
    static Tensor @Nullable [] run(Pooling op, Tensor[] inputs, Spec[] outputs) {
        return run(op, inputs, outputs, RowLoops.FASTEST.pool());
    }

    static Tensor @Nullable [] run(Pooling op, Tensor[] inputs, Spec[] outputs, PoolRows rows) {
        if (inputs[0].dtype() != DType.F32 || inputs[0].count() == 0 || outputs[0].shape().count() == 0) {
            return null;
        }
        Tensor x = CopyKernels.channelsLast(inputs[0]);
        try {
            return switch (op) {
                case Pooling.MaxPool _ -> maxPool(op, x, outputs, rows);
                case Pooling.AvgPool a -> avgPool(a, x, outputs[0], rows);
                case Pooling.AvgPoolGradient a -> avgPoolGradient(a, x, outputs[0], rows);
                case Pooling.MaxPoolGradient _ when inputs[1].dtype() == DType.I32 ->
                        maxPoolGradient(op, x, inputs[1], outputs[0], rows);
                case Pooling.MaxPoolGradient _ -> null;
            };
        } finally {
            Layout.release(x, inputs[0]);
        }
    }

    private static Tensor[] maxPool(Pooling op, Tensor x, Spec[] outputs, PoolRows rows) {
        Tensor y = allocate(outputs[0]);
        Tensor index = allocate(outputs[1]);
        long values = y.address();
        long places = index.address();
        PoolingWindows windows = new PoolingWindows(op.window(), x.shape(), y.shape(), false);
        windows.forEachWindow(x.address(), (taps, step, _, placeStep, to, _, pixels) ->
                rows.max(taps, step, placeStep, values + to, places + to, pixels, windows.channels));
        return new Tensor[] {y, index};
    }

    /** Leaves an index outside of its window, which no pooling operation produces, to the reference kernels. */
    private static Tensor @Nullable [] maxPoolGradient(Pooling op, Tensor g, Tensor indices, Spec output,
            PoolRows rows) {
        Tensor index = CopyKernels.channelsLast(indices);
        try {
            Tensor dx = allocate(output);
            long base = dx.address();
            long toIndex = index.address() - g.address();
            AtomicLong found = new AtomicLong();
            PoolingWindows windows = new PoolingWindows(op.window(), dx.shape(), g.shape(), false);
            windows.forEachElement(g.address(), (taps, step, place, placeStep, to, toStep, pixels) ->
                    found.addAndGet(rows.routed(taps, step, toIndex, place, placeStep, base + to, toStep, pixels,
                            windows.channels)));
            if (found.get() != g.count()) {
                dx.close();
                return null;
            }
            return new Tensor[] {dx};
        } finally {
            Layout.release(index, indices);
        }
    }

    private static Tensor[] avgPool(Pooling.AvgPool op, Tensor x, Spec output, PoolRows rows) {
        Tensor y = allocate(output);
        long base = y.address();
        PoolingWindows windows = new PoolingWindows(op.window(), x.shape(), y.shape(), op.countPadding());
        windows.forEachWindow(x.address(), (taps, step, _, _, to, toStep, pixels) ->
                rows.weighted(taps, step, base + to, toStep, pixels, windows.channels));
        return new Tensor[] {y};
    }

    private static Tensor[] avgPoolGradient(Pooling.AvgPoolGradient op, Tensor g, Spec output, PoolRows rows) {
        Tensor dx = allocate(output);
        long base = dx.address();
        PoolingWindows windows = new PoolingWindows(op.window(), dx.shape(), g.shape(), op.countPadding());
        windows.forEachElement(g.address(), (taps, step, _, _, to, toStep, pixels) ->
                rows.weighted(taps, step, base + to, toStep, pixels, windows.channels));
        return new Tensor[] {dx};
    }

    private static Tensor allocate(Spec spec) {
        return Storage.allocate(spec, ChannelsLast.strides(spec.shape()));
    }
}
