package dev.starling.distributed.bucket;

import dev.starling.distributed.Collectives;
import dev.starling.tensor.Shape;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.function.IntFunction;

/** The f32 gradients of a bucket, for the {@link GradientCodec} that reduces them. */
public final class GradientBucket {
    private final String label;
    private final List<Gradient> gradients;
    private final MemorySegment memory;
    private final Collectives collectives;
    private final int rank;
    private final int world;
    private final IntFunction<float[]> residuals;

    /**
     * One of the gradients.
     *
     * @param index index of the parameter in the optimiser's list
     * @param shape of the gradient; may have no dimensions, or no elements
     * @param offset of its first element in the bucket's memory, in elements
     */
    public record Gradient(int index, Shape shape, long offset) {
        /** Returns the number of its elements. */
        public int count() {
            return Math.toIntExact(shape.count());
        }
    }

    GradientBucket(String label, List<Gradient> gradients, MemorySegment memory, Collectives collectives, int rank,
            int world, IntFunction<float[]> residuals) {
        this.label = label;
        this.gradients = List.copyOf(gradients);
        this.memory = memory;
        this.collectives = collectives;
        this.rank = rank;
        this.world = world;
        this.residuals = residuals;
    }

    /** Returns a name of the bucket for the labels of collectives. */
    public String label() {
        return label;
    }

    /** Returns the gradients in the order of their offsets. */
    public List<Gradient> gradients() {
        return gradients;
    }

    /**
     * Returns the memory in which this rank's gradients arrive, and which must contain the sums at the end. Contiguous
     * f32 elements; absent gradients are 0. There may be padding between gradients.
     */
    public MemorySegment memory() {
        return memory;
    }

    /** Returns the collectives of the present membership epoch. */
    public Collectives collectives() {
        return collectives;
    }

    /** Returns this process's rank. */
    public int rank() {
        return rank;
    }

    /** Returns the number of ranks, 2 or more. */
    public int world() {
        return world;
    }

    /**
     * Returns an array with an element for each of the gradient's, for error feedback: what this rank has not sent yet.
     * It is 0 at the beginning of a membership epoch, and keeps its contents until that ends, also where buckets are
     * laid out anew. Checkpoints do not contain it. Always the same array for one gradient.
     */
    public float[] residual(Gradient gradient) {
        return residuals.apply(gradient.index());
    }
}
