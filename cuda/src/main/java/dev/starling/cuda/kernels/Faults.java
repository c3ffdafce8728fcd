package dev.starling.cuda.kernels;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Op;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;

/**
 * Where kernels leave the first index out of range that they meet: the host's side of the struct {@code Fault} in
 * {@code prelude.cuh}, in pinned memory, one for each thread that launches.
 */
final class Faults {
    private static final int BYTES = 24;

    private final Gpu gpu;
    private final Gpu.Stream stream;
    private final ThreadLocal<MemorySegment> mine;

    Faults(Gpu gpu, Gpu.Stream stream) {
        this.gpu = gpu;
        this.stream = stream;
        mine = ThreadLocal.withInitial(() -> {
            MemorySegment fault = MemorySegment.ofAddress(gpu.allocatePinned(BYTES)).reinterpret(BYTES);
            return fault.fill((byte) 0);
        });
    }

    /** Returns the address to give to a kernel as its {@code Fault*}. */
    long address() {
        return mine.get().address();
    }

    /**
     * Waits for the kernels that were queued, and throws if one of this thread's met a bad index.
     *
     * @param size of the dimension that the indices point into
     * @param operands for the message
     */
    void check(Op op, long size, Tensor... operands) {
        check(op, -size, size - 1, operands);
    }

    /** The same for indices between {@code least} and {@code most}. */
    void check(Op op, long least, long most, Tensor... operands) {
        gpu.synchronize(stream);
        MemorySegment fault = mine.get();
        if (fault.get(ValueLayout.JAVA_INT, 0) == 0) {
            return;
        }
        long index = fault.get(ValueLayout.JAVA_LONG_UNALIGNED, 8);
        long position = fault.get(ValueLayout.JAVA_LONG_UNALIGNED, 16);
        fault.fill((byte) 0);
        throw new TensorException(TensorException.Problem.INDEX, op.name(),
                Arrays.stream(operands).map(Tensor::spec).toList(), "index " + index + " at position " + position
                + " must lie between " + least + " and " + most, "correct the index");
    }

    /** Tells, once, whether one of this thread's kernels, all of which are done, found what it cannot deal with. */
    boolean strayed() {
        MemorySegment fault = mine.get();
        boolean stray = fault.get(ValueLayout.JAVA_INT, 4) != 0;
        fault.set(ValueLayout.JAVA_INT, 4, 0);
        return stray;
    }
}
