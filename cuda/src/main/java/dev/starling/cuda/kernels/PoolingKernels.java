package dev.starling.cuda.kernels;

import dev.starling.cuda.compile.KernelSource;
import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Pooling;
import dev.starling.tensor.spi.ChannelsLast;

/**
 * {@link Pooling} operations, with a thread for each element. Results are channels last if the operand is.
 */
public final class PoolingKernels {
    private final Launcher launcher;

    /** A kernel for elements of one type and positions of maxima of another. */
    private record PoolingKernel(String function, DType type, DType index) implements Kernel {
        @Override
        public KernelSource source() {
            return KernelSource.of("pooling", function, "T", Types.of(type), "C", Types.wide(type), "INDEX",
                    Types.of(index));
        }
    }

    /** Makes the family's kernels for a device. */
    public PoolingKernels(Launcher launcher) {
        this.launcher = launcher;
    }

    /** Returns the results. */
    public Tensor[] run(Pooling op, Tensor[] in, Spec[] outputs) {
        boolean channelsLast = ChannelsLast.holds(in[0]) && !in[0].isContiguous();
        Tensor result = allocate(outputs[0], channelsLast);
        int count = Math.toIntExact(result.count());
        return switch (op) {
            case Pooling.MaxPool o -> {
                Tensor places = allocate(outputs[1], channelsLast);
                Launch launch = launch("max_pool", result, DType.I32).tensor(result).tensor(places).tensor(in[0])
                        .i32(count).bool(channelsLast);
                problem(launch, o.window(), in[0], result, places).threads(count);
                yield new Tensor[] {result, places};
            }
            case Pooling.MaxPoolGradient o -> {
                Tensor stray = check(o, in[0], in[1], result);
                Launch launch = launch("max_pool_gradient", result, in[1].dtype()).tensor(result).tensor(in[0])
                        .tensor(in[1]).tensor(stray).i32(count).bool(channelsLast);
                problem(launch, o.window(), result, in[0], in[1]).threads(count);
                stray.close();
                yield new Tensor[] {result};
            }
            case Pooling.AvgPool o -> {
                Launch launch = launch("average_pool", result, DType.I32).tensor(result).tensor(in[0]).i32(count)
                        .bool(channelsLast).bool(o.countPadding());
                problem(launch, o.window(), in[0], result, result).threads(count);
                yield new Tensor[] {result};
            }
            case Pooling.AvgPoolGradient o -> {
                Launch launch = launch("average_pool_gradient", result, DType.I32).tensor(result).tensor(in[0])
                        .i32(count).bool(channelsLast).bool(o.countPadding());
                problem(launch, o.window(), result, in[0], in[0]).threads(count);
                yield new Tensor[] {result};
            }
        };
    }

    /**
     * Reports positions outside of their planes. Returns a flag: whether one is outside of its window, as from no
     * pooling.
     */
    private Tensor check(Pooling.MaxPoolGradient op, Tensor g, Tensor places, Tensor x) {
        int count = Math.toIntExact(places.count());
        long plane = x.shape().slice(2, x.rank()).count();
        Tensor stray = Storage.allocate(new Spec(DType.I32, Shape.of(), x.device()));
        launcher.fill(stray, 0);
        int fault = launcher.faults().register(op, 0, plane - 1, g, places);
        Launch launch = launch("check_places", x, places.dtype()).tensor(places).tensor(stray).i32(count).fault(fault);
        problem(launch, op.window(), x, g, places).threads(count);
        return stray;
    }

    private static Tensor allocate(Spec spec, boolean channelsLast) {
        return channelsLast ? Storage.allocate(spec, ChannelsLast.strides(spec.shape())) : Storage.allocate(spec);
    }

    private Launch launch(String function, Tensor like, DType index) {
        return launcher.launch(new PoolingKernel(function, like.dtype(), index));
    }

    /** Appends the struct {@code Problem}. */
    private static Launch problem(Launch launch, Pooling.Window window, Tensor x, Tensor y, Tensor places) {
        launch.align(8).i32(Math.toIntExact(x.size(0))).i32(Math.toIntExact(x.size(1)));
        for (Tensor t : new Tensor[] {x, y}) {
            for (int d = t.rank() - 3; d < t.rank(); d++) {
                launch.i32(d < 2 ? 1 : Math.toIntExact(t.size(d)));
            }
        }
        values(launch, window.kernel(), 1);
        values(launch, window.stride(), 1);
        values(launch, window.padding(), 0);
        values(launch, window.dilation(), 1);
        for (Tensor t : new Tensor[] {x, y, places}) {
            launch.i64(t.strides()[0]).i64(t.strides()[1]);
            for (int d = t.rank() - 3; d < t.rank(); d++) {
                launch.i64(d < 2 ? 0 : t.strides()[d]);
            }
        }
        return launch;
    }

    private static void values(Launch launch, int[] values, int missing) {
        for (int d = values.length - 3; d < values.length; d++) {
            launch.i32(d < 0 ? missing : values[d]);
        }
    }
}
