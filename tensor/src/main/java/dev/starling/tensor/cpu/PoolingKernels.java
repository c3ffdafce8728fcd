package dev.starling.tensor.cpu;

import dev.starling.tensor.DType;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.rows.PoolRows;
import dev.starling.tensor.cpu.rows.RowLoops;
import dev.starling.tensor.cpu.rows.Taps;
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
                case Pooling.MaxPool _ -> {
                    Tensor[] results = {allocate(outputs[0]), allocate(outputs[1])};
                    maxPool(op, x, results, rows).run();
                    yield results;
                }
                case Pooling.AvgPool a -> {
                    Tensor y = allocate(outputs[0]);
                    avgPool(a, x, y, rows).run();
                    yield new Tensor[] {y};
                }
                case Pooling.AvgPoolGradient a -> {
                    Tensor dx = allocate(outputs[0]);
                    avgPoolGradient(a, x, dx, rows).run();
                    yield new Tensor[] {dx};
                }
                case Pooling.MaxPoolGradient _ when inputs[1].dtype() == DType.I32 ->
                        maxPoolGradient(op, x, inputs[1], outputs[0], rows);
                case Pooling.MaxPoolGradient _ -> null;
            };
        } finally {
            Layout.release(x, inputs[0]);
        }
    }

    /** Prepares what {@link #run} does; {@code null} if it is to be called. */
    static @Nullable Runnable prepare(Pooling op, Tensor[] inputs, Tensor[] results) {
        Tensor x = inputs[0];
        if (x.dtype() != DType.F32 || x.count() == 0 || results[0].count() == 0 || !ChannelsLast.holds(x)) {
            return null;
        }
        PoolRows rows = RowLoops.FASTEST.pool();
        return switch (op) {
            case Pooling.MaxPool _ -> maxPool(op, x, results, rows);
            case Pooling.AvgPool a -> avgPool(a, x, results[0], rows);
            case Pooling.AvgPoolGradient a -> avgPoolGradient(a, x, results[0], rows);
            case Pooling.MaxPoolGradient _ -> null; // Whether there is a kernel depends on the indices.
        };
    }

    private static Runnable maxPool(Pooling op, Tensor x, Tensor[] results, PoolRows rows) {
        long values = results[0].address();
        long places = results[1].address();
        PoolingWindows windows = new PoolingWindows(op.window(), x.shape(), results[0].shape(), false);
        return windows.overWindows(x.address(), new PoolingWindows.Run() {
            @Override
            public void make(Taps taps, long step, int place, int placeStep, long to, long toStep, int pixels) {
                rows.max(taps, step, placeStep, values + to, places + to, pixels, windows.channels);
            }
        });
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
            windows.overElements(g.address(), new PoolingWindows.Run() {
                @Override
                public void make(Taps taps, long step, int place, int placeStep, long to, long toStep, int pixels) {
                    found.addAndGet(rows.routed(taps, step, toIndex, place, placeStep, base + to, toStep, pixels,
                            windows.channels));
                }
            }).run();
            if (found.get() != g.count()) {
                dx.close();
                return null;
            }
            return new Tensor[] {dx};
        } finally {
            Layout.release(index, indices);
        }
    }

    private static Runnable avgPool(Pooling.AvgPool op, Tensor x, Tensor y, PoolRows rows) {
        long base = y.address();
        PoolingWindows windows = new PoolingWindows(op.window(), x.shape(), y.shape(), op.countPadding());
        return windows.overWindows(x.address(), (taps, step, _, _, to, toStep, pixels) ->
                rows.weighted(taps, step, base + to, toStep, pixels, windows.channels));
    }

    private static Runnable avgPoolGradient(Pooling.AvgPoolGradient op, Tensor g, Tensor dx, PoolRows rows) {
        long base = dx.address();
        PoolingWindows windows = new PoolingWindows(op.window(), dx.shape(), g.shape(), op.countPadding());
        return windows.overElements(g.address(), (taps, step, _, _, to, toStep, pixels) ->
                rows.weighted(taps, step, base + to, toStep, pixels, windows.channels));
    }

    private static Tensor allocate(Spec spec) {
        return Storage.allocate(spec, ChannelsLast.strides(spec.shape()));
    }
}
