package dev.starling.nn.layer;

import dev.starling.nn.Initializer;
import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.tensor.Functions;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/**
 * Looks up rows of a table: integers {@code [..]} to {@code [.., width]}, with {@code weight [rows, width]}. A negative
 * index counts from the end, as in {@link Tensor#take}: -1 is the last row, so that a mark such as -1 for an unknown
 * word needs a row of its own.
 */
public final class Embedding implements Layer {
    private final Parameter weight;
    /** The index whose rows are 0; empty for none. */
    private final OptionalLong padding;

    private Embedding(Parameter weight, OptionalLong padding) {
        this.weight = weight;
        this.padding = padding;
    }

    /** Returns a layer whose table is drawn from the standard normal distribution. */
    public static Embedding of(long rows, long width, Generator generator) {
        return of(Parameter.of(Initializer.normal(0, 1), generator, rows, width));
    }

    /** Returns a layer with the caller's table, for example one that an output layer shares. */
    public static Embedding of(Parameter weight) {
        return new Embedding(weight, OptionalLong.empty());
    }

    /**
     * Returns a layer with the same table whose result is 0 for an index, with which shorter texts are filled. That row
     * of the table is never trained. (PyTorch returns the row, which it only initialises with 0; here a table that was
     * drawn or loaded need not be changed.)
     */
    public Embedding padding(long index) {
        return new Embedding(weight, OptionalLong.of(index));
    }

    /** Returns the table. */
    public Parameter weight() {
        return weight;
    }

    @Override
    public Tensor forward(Tensor index) {
        Tensor rows = Functions.embedding(weight.value(), index);
        Tensor left = left(index);
        return left == null ? rows : rows.maskedFill(left, 0);
    }

    /** Returns {@code [.., 1]}, true where the index is the padding, or {@code null} if there is none. */
    @Nullable Tensor left(Tensor index) {
        return padding.isEmpty() ? null : index.eq(padding.getAsLong()).unsqueeze(-1);
    }

    @Override
    public void visit(Visitor visitor) {
        visitor.parameter("weight", weight);
    }

    @Override
    public String settings() {
        return weight.shape().dim(0) + ", " + weight.shape().dim(1)
                + (padding.isPresent() ? ", padding=" + padding.getAsLong() : "");
    }

    @Override
    public String toString() {
        return tree();
    }
}
