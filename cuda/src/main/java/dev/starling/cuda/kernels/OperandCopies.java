package dev.starling.cuda.kernels;

import dev.starling.tensor.DType;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.spi.ChannelsLast;
import java.util.ArrayList;
import java.util.List;

/** The copies of operands that one operation needs, for kernels that do not read operands as they are. */
public final class OperandCopies implements AutoCloseable {
    /** Libraries read vectors of this size. */
    private static final int ALIGNMENT = 16;

    private final Launcher launcher;
    private final List<Tensor> made = new ArrayList<>(4);

    /** Makes copies by the kernels of a device. */
    public OperandCopies(Launcher launcher) {
        this.launcher = launcher;
    }

    /** Adds a tensor to those that are closed together, and returns it. */
    public Tensor add(Tensor tensor) {
        made.add(tensor);
        return tensor;
    }

    /** Returns a row-major copy. */
    public Tensor copied(Tensor x) {
        return add(launcher.copied(x));
    }

    /** Returns the tensor itself if its elements lie in row-major order, else a copy. */
    public Tensor dense(Tensor x) {
        return x.isContiguous() ? x : copied(x);
    }

    /** Returns the tensor itself if it is row-major and of the given type, else a converted copy. */
    public Tensor dense(Tensor x, DType type) {
        if (x.dtype() == type) {
            return dense(x);
        }
        Tensor y = add(Tensor.allocate(new Spec(type, x.shape(), x.device())));
        launcher.assign(y, x);
        return y;
    }

    /** Returns the tensor itself if it is row-major, at a multiple of 16 bytes, else a copy. */
    public Tensor aligned(Tensor x) {
        return x.isContiguous() && x.address() % ALIGNMENT == 0 ? x : copied(x);
    }

    /** Returns the tensor itself if it is channels last, without gaps, at a multiple of 16 bytes, else a copy. */
    public Tensor channelsLast(Tensor x) {
        if (ChannelsLast.holds(x) && x.address() % ALIGNMENT == 0) {
            return x;
        }
        Tensor y = add(Tensor.allocate(x.spec(), ChannelsLast.strides(x.shape())));
        launcher.assign(y, x);
        return y;
    }

    /** Closes the copies; later work may reuse their memory, which is queued behind the work that reads them. */
    @Override
    public void close() {
        made.forEach(Tensor::close);
    }
}
