package dev.starling.distributed.ps.store;

import dev.starling.distributed.ps.wire.Plan;
import dev.starling.tensor.DType;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Update;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;

/**
 * A parameter whose rule needs it as a whole, and the state of that rule, which begins with 0. Steps are the tensor
 * operations of an optimiser on the CPU. For one thread at a time.
 */
public final class WholeWeights implements AutoCloseable {
    private final Plan.Dense parameter;
    private final Plan.Whole whole;
    private final Arena arena = Arena.ofShared();
    /** Weights, gradient, state. */
    private final MemorySegment[] memory;
    private final Tensor[] tensors;

    /** Creates weights of 0. */
    public WholeWeights(Plan.Dense parameter) {
        this.parameter = parameter;
        whole = Objects.requireNonNull(parameter.whole());
        List<Shape> slots = whole.slots();
        memory = new MemorySegment[2 + slots.size()];
        tensors = new Tensor[memory.length];
        for (int k = 0; k < memory.length; k++) {
            Shape shape = k < 2 ? whole.shape() : slots.get(k - 2);
            memory[k] = arena.allocate(shape.count() * Float.BYTES, 64);
            tensors[k] = Scope.release(Tensor.wrap(memory[k], DType.F32, shape.dims()));
        }
    }

    /** Returns the number of an array's elements in a range. */
    private int overlap(int array, long from, int count) {
        long left = memory[array].byteSize() / Float.BYTES - from;
        return Math.clamp(left, 0, count);
    }

    private static int index(int array) {
        return array == 0 ? 0 : 1 + array;
    }

    /**
     * Copies numbers of the weights (array 0) or of an array of the state (from 1 on), and zeros beyond its end.
     *
     * @param from the first number
     */
    public void get(int array, long from, float[] into, int count) {
        int n = overlap(index(array), from, count);
        MemorySegment.copy(memory[index(array)], ValueLayout.JAVA_FLOAT, from * Float.BYTES * Integer.signum(n), into,
                0, n);
        Arrays.fill(into, n, count, 0);
    }

    /** Replaces numbers of an array, and ignores those beyond its end; see {@link #get}. */
    public void set(int array, long from, float[] values, int count) {
        int n = overlap(index(array), from, count);
        MemorySegment.copy(values, 0, memory[index(array)], ValueLayout.JAVA_FLOAT,
                from * Float.BYTES * Integer.signum(n), n);
    }

    /** Takes a step along a gradient; returns false, and changes nothing, if its direction is not finite. */
    public boolean step(float[] gradient, double rate) {
        MemorySegment.copy(gradient, 0, memory[1], ValueLayout.JAVA_FLOAT, 0, gradient.length);
        try (Scope scope = Scope.open("whole")) {
            Tensor[] state = new Tensor[tensors.length - 2];
            System.arraycopy(tensors, 2, state, 0, state.length);
            Tensor[] next = whole.direction().step(tensors[0], tensors[1], state, rate);
            for (Tensor each : next) {
                if (!each.device().backend().isFinite(each)) {
                    return false;
                }
            }
            for (int k = 0; k < state.length; k++) {
                Tensor.apply(new Update.Assign(), state[k], next[k + 1]);
            }
            Tensor.apply(parameter.rule().step(rate, 1), tensors[0], next[0]);
            return true;
        }
    }

    @Override
    public void close() {
        for (Tensor each : tensors) {
            each.close();
        }
        arena.close();
    }
}
