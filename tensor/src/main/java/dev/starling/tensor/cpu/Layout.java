package dev.starling.tensor.cpu;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.onednn.Reorders;
import org.jspecify.annotations.Nullable;

/** Operands in the layout that a kernel reads. */
final class Layout {
    private Layout() {
    }

    /** Returns dense strides with dimension {@code axis} innermost and the other dimensions in their order. */
    static long[] innermost(Shape shape, int axis) {
        long[] strides = new long[shape.rank()];
        long next = 1;
        if (axis >= 0) {
            strides[axis] = 1;
            next = shape.dim(axis);
        }
        for (int i = strides.length - 1; i >= 0; i--) {
            if (i != axis) {
                strides[i] = next;
                next *= shape.dim(i);
            }
        }
        return strides;
    }

    /** Returns {@code x} itself if it already has these strides, else a copy to pass to {@link #release}. */
    static Tensor of(Tensor x, long[] strides) {
        if (holds(x, strides)) {
            return x;
        }
        Tensor copy = Storage.allocate(x.spec(), strides);
        Reorders.count();
        CopyKernels.copy(x, copy);
        return copy;
    }

    /** Returns whether a tensor has these strides; those of dimensions of size 1 do not matter. */
    static boolean holds(Tensor x, long[] strides) {
        for (int i = 0; i < strides.length; i++) {
            if (x.size(i) > 1 && x.stride(i) != strides[i]) {
                return false;
            }
        }
        return true;
    }

    /** Returns {@code x} itself if it is row-major, else a copy to pass to {@link #release}. */
    static Tensor dense(Tensor x) {
        return of(x, x.shape().sharedStrides());
    }

    /**
     * Frees a copy that was made for a kernel, if one was made, once the kernel has run. Without this call the JVM may
     * take a copy of which only the address is used for unreachable, and free it while the kernel reads it.
     */
    static void release(@Nullable Tensor copy, @Nullable Tensor x) {
        if (copy != null && copy != x) {
            copy.close();
        }
    }
}
