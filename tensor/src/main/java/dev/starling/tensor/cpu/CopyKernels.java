package dev.starling.tensor.cpu;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.onednn.Reorders;
import dev.starling.tensor.op.Fill;
import dev.starling.tensor.op.Movement;
import dev.starling.tensor.spi.ChannelsLast;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/** Kernels of {@link Movement} operations, for every type. */
final class CopyKernels {
    private CopyKernels() {
    }

    /** Returns the results, or {@code null} if there is no kernel for these types. */
    static Tensor @Nullable [] run(Movement op, Tensor[] inputs, Spec output) {
        return switch (op) {
            case Movement.Copy _ -> {
                Tensor y = Storage.allocate(output);
                copy(inputs[0], y);
                yield new Tensor[] {y};
            }
            case Movement.Concat c -> concat(c, inputs, output);
            case Movement.Place p -> place(p, inputs[0], output);
        };
    }

    /** Prepares what {@link #run} does; {@code null} if it is to be called. */
    static @Nullable Runnable prepare(Movement op, Tensor[] inputs, Tensor y) {
        return switch (op) {
            case Movement.Copy _ -> prepare(inputs[0], y);
            case Movement.Concat c -> c.shares() && areParts(inputs, c.axis()) ? null : new Joining(c, inputs, y);
            case Movement.Place _ -> null;
        };
    }

    /** Joins operands in memory of their result's own. */
    private static final class Joining implements Runnable {
        private final StridedCopy[] copies;
        private final long[] from;
        private final long[] to;

        Joining(Movement.Concat op, Tensor[] inputs, Tensor y) {
            copies = new StridedCopy[inputs.length];
            from = new long[inputs.length];
            to = new long[inputs.length];
            long at = y.address();
            for (int i = 0; i < inputs.length; i++) {
                Tensor x = inputs[i];
                copies[i] = new StridedCopy(x.dtype().bytes(), x.shape(), x.sharedStrides(), y.sharedStrides());
                from[i] = x.address();
                to[i] = at;
                at += x.size(op.axis()) * y.stride(op.axis()) * x.dtype().bytes();
            }
        }

        @Override
        public void run() {
            for (int i = 0; i < copies.length; i++) {
                copies[i].copy(from[i], to[i]);
            }
        }
    }

    private static Tensor[] concat(Movement.Concat op, Tensor[] inputs, Spec output) {
        if (op.shares() && areParts(inputs, op.axis())) {
            Tensor first = inputs[0];
            return new Tensor[] {first.storage().view(output, first.sharedStrides(), first.offset())};
        }
        Tensor y = Storage.allocate(output);
        long at = 0;
        for (Tensor x : inputs) {
            copy(x, y.storage().view(y.spec().with(x.shape()), y.sharedStrides(), at * y.stride(op.axis())));
            at += x.size(op.axis());
        }
        return new Tensor[] {y};
    }

    /** Returns whether tensors lie in memory like the parts of one that they form along a dimension. */
    private static boolean areParts(Tensor[] tensors, int axis) {
        Tensor first = tensors[0];
        long next = first.offset();
        for (Tensor x : tensors) {
            if (x.storage() != first.storage() || x.offset() != next
                    || !Arrays.equals(x.sharedStrides(), first.sharedStrides())) {
                return false;
            }
            next += x.size(axis) * x.stride(axis);
        }
        return true;
    }

    private static Tensor @Nullable [] place(Movement.Place op, Tensor x, Spec output) {
        Tensor[] filled = FillKernels.run(new Fill.Full(output, op.value()), output);
        if (filled == null) {
            return null;
        }
        Tensor y = filled[0];
        Shape shape = x.shape();
        long[] strides = new long[shape.rank()];
        Arrays.setAll(strides, i -> y.stride(i) * op.steps()[i]);
        long offset = 0;
        for (int i = 0; i < strides.length; i++) {
            offset += op.starts()[i] * y.stride(i);
        }
        if (shape.count() > 0) {
            copy(x, y.storage().view(y.spec().with(shape), strides, offset));
        }
        return filled;
    }

    /** Returns {@code x} in row-major order, or {@code x} itself if it already has that order. */
    static Tensor dense(Tensor x) {
        return x.isContiguous() ? x : copy(x);
    }

    /** Returns {@code x}, of rank 2 or more, with channels last, or {@code x} itself if it already has that layout. */
    static Tensor channelsLast(Tensor x) {
        if (ChannelsLast.holds(x)) {
            return x;
        }
        Tensor copy = Storage.allocate(x.spec(), ChannelsLast.strides(x.shape()));
        Reorders.count();
        copy(x, copy);
        return copy;
    }

    /** Returns a row-major copy. */
    static Tensor copy(Tensor x) {
        Tensor copy = Storage.allocate(x.spec());
        Reorders.count();
        copy(x, copy);
        return copy;
    }

    /** Prepares copies of elements between tensors of the same type and shape. */
    static Runnable prepare(Tensor from, Tensor to) {
        StridedCopy copy = StridedCopy.of(from, to);
        long source = from.address();
        long target = to.address();
        return () -> copy.copy(source, target);
    }

    /** Copies elements between tensors of the same type and shape, whatever their strides. */
    static void copy(Tensor from, Tensor to) {
        StridedCopy.copy(from, to);
    }
}
