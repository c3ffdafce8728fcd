package dev.starling.cuda.kernels;

import dev.starling.cuda.compile.KernelSource;
import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Pooling;
import dev.starling.tensor.spi.ChannelsLast;
import java.util.Arrays;

/**
 * {@link Pooling} operations, with a thread for each element. Results are channels last if the operand is.
 */
public final class PoolingKernels implements Kernels<Pooling> {
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

    @Override
    public Tensor[] allocate(Pooling op, Tensor[] in, Spec[] outputs) {
        if (!isChannelsLast(in[0])) {
            return Kernels.super.allocate(op, in, outputs);
        }
        Tensor[] out = new Tensor[outputs.length];
        Arrays.setAll(out, i -> Storage.allocate(outputs[i], ChannelsLast.strides(outputs[i].shape())));
        return out;
    }

    private static boolean isChannelsLast(Tensor x) {
        return ChannelsLast.holds(x) && !x.isContiguous();
    }

    @Override
    public Answer compute(Pooling op, Tensor[] in, Tensor[] out) {
        boolean channelsLast = isChannelsLast(in[0]);
        Tensor result = out[0];
        if (result.count() > Integer.MAX_VALUE
                || op instanceof Pooling.MaxPoolGradient && in[1].count() > Integer.MAX_VALUE) {
            return Answer.TOO_LARGE;
        }
        int count = (int) result.count();
        switch (op) {
            case Pooling.MaxPool o -> {
                Tensor places = out[1];
                Launch launch = launch("max_pool", result, DType.I32).tensor(result).tensor(places).tensor(in[0])
                        .i32(count).bool(channelsLast);
                problem(launch, o.window(), in[0], result, places).threads(count);
            }
            case Pooling.MaxPoolGradient o -> {
                Tensor stray = check(o, in[0], in[1], result);
                Launch launch = launch("max_pool_gradient", result, in[1].dtype()).tensor(result).tensor(in[0])
                        .tensor(in[1]).tensor(stray).i32(count).bool(channelsLast);
                problem(launch, o.window(), result, in[0], in[1]).threads(count);
            }
            case Pooling.AvgPool o -> {
                Launch launch = launch("average_pool", result, DType.I32).tensor(result).tensor(in[0]).i32(count)
                        .bool(channelsLast).bool(o.countPadding());
                problem(launch, o.window(), in[0], result, result).threads(count);
            }
            case Pooling.AvgPoolGradient o -> {
                Launch launch = launch("average_pool_gradient", result, DType.I32).tensor(result).tensor(in[0])
                        .i32(count).bool(channelsLast).bool(o.countPadding());
                problem(launch, o.window(), result, in[0], in[0]).threads(count);
            }
        }
        return Answer.HANDLED;
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

    private Launch launch(String function, Tensor like, DType index) {
        return launcher.launch(new PoolingKernel(function, like.dtype(), index));
    }

    /** Appends the struct {@code Problem}. */
    private static Launch problem(Launch launch, Pooling.Window window, Tensor x, Tensor y, Tensor places) {
        return launch.align(8).size(x, 0).size(x, 1).spatialSizes(x).spatialSizes(y).spatial(window.kernel(), 1)
                .spatial(window.stride(), 1).spatial(window.padding(), 0).spatial(window.dilation(), 1)
                .imageStrides(x).imageStrides(y).imageStrides(places);
    }
}
