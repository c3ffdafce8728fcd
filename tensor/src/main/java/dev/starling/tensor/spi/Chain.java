package dev.starling.tensor.spi;

import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Elementwise;
import java.util.List;

/**
 * Elementwise operations that lead to one result, all of whose results have its shape. Values are numbered: operands
 * first, then the steps' results.
 *
 * @param operands what is read from memory; they broadcast to the result
 * @param steps in their order; the last one's result is the chain's
 */
public record Chain(List<Spec> operands, List<Step> steps) {
    /**
     * One operation.
     *
     * @param op what is done
     * @param of the numbers of its operands
     * @param result what it gives
     */
    public record Step(Elementwise op, List<Integer> of, Spec result) { }

    /** A chain as a kernel of its own. */
    @FunctionalInterface
    public interface Kernel {
        /** Returns the result, allocated with {@link Tensor#allocate}. */
        Tensor run(Tensor[] operands);
    }

    /** Returns what the whole chain gives. */
    public Spec result() {
        return steps.getLast().result();
    }

    /** Returns what is known of a value. */
    public Spec spec(int value) {
        return value < operands.size() ? operands.get(value) : steps.get(value - operands.size()).result();
    }
}
