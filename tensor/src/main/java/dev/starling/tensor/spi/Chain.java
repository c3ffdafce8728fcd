package dev.starling.tensor.spi;

import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Elementwise;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Elementwise operations that lead to one result, whose shape all intermediate results have. Values are numbered:
 * operands first, then the results of the steps.
 *
 * @param operands tensors read from memory; they broadcast to the result's shape
 * @param steps in order; the result of the last step is that of the chain
 */
public record Chain(List<Spec> operands, List<Step> steps) {
    /**
     * One operation.
     *
     * @param op the operation
     * @param of the numbers of its operands
     * @param result the spec of its result
     */
    public record Step(Elementwise op, List<Integer> of, Spec result) { }

    /** A kernel that carries out a chain. */
    @FunctionalInterface
    public interface Kernel {
        /** Returns the result, allocated with {@link Storage#allocate}. */
        Tensor run(Tensor[] operands);

        /** Prepares the kernel for further runs; see {@link Backend#prepare}. */
        default @Nullable Runnable prepare(Tensor[] operands, Tensor result) {
            return null;
        }
    }

    /** Returns the spec of the chain's result. */
    public Spec result() {
        return steps.getLast().result();
    }

    /** Returns the spec of a value. */
    public Spec spec(int value) {
        return value < operands.size() ? operands.get(value) : steps.get(value - operands.size()).result();
    }
}
