package dev.starling.nn.serve;

import dev.starling.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;

/**
 * The memory of one or several tensors in host memory whose first dimension is the batch.
 *
 * @param memory of each tensor
 * @param bytes of an example in each tensor
 */
record Rows(MemorySegment[] memory, long[] bytes) {
    /** Returns the rows of contiguous tensors. */
    static Rows of(Tensor[] tensors) {
        return new Rows(Arrays.stream(tensors).map(Tensor::segment).toArray(MemorySegment[]::new),
                Arrays.stream(tensors).mapToLong(t -> t.spec().bytes() / t.size(0)).toArray());
    }

    /** Returns the memory of example {@code i} in each tensor. */
    MemorySegment[] row(int i) {
        MemorySegment[] row = new MemorySegment[memory.length];
        Arrays.setAll(row, k -> memory[k].asSlice(i * bytes[k], bytes[k]));
        return row;
    }

    /** Copies example {@code from} to {@code to}. */
    void copy(int from, int to) {
        for (int k = 0; k < memory.length; k++) {
            MemorySegment.copy(memory[k], from * bytes[k], memory[k], to * bytes[k], bytes[k]);
        }
    }
}
