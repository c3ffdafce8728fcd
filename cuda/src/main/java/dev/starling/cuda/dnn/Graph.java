package dev.starling.cuda.dnn;

import dev.starling.tensor.DType;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A graph of operations for cuDNN's backend interface, as plain data. Operations are appended in an order in which they
 * can be computed.
 */
public final class Graph {
    private final List<Operand> operands = new ArrayList<>();
    private final List<Operation> operations = new ArrayList<>();

    /** Where an operand is: in the device's memory, nowhere (between operations), or a number on the host. */
    public enum Place { MEMORY, VIRTUAL, CONSTANT }

    /** Functions of elements; {@link #INDEX} returns an element's position along a dimension. */
    public enum Function { ADD, SUB, MUL, DIV, EXP, LOG, RELU, GREATER_EQUAL, LESS, AND, SELECT, INDEX, IDENTITY }

    /** Which result a convolution computes. */
    public enum Pass { FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT }

    /**
     * A tensor of four dimensions.
     *
     * @param id its number, from 0 in the order of creation
     * @param type of its elements
     * @param sizes of its dimensions
     * @param strides of its dimensions, in elements
     * @param place where it is
     * @param value its value, if it is a constant
     */
    public record Operand(int id, DType type, long[] sizes, long[] strides, Place place, float value) { }

    /** An operation on operands. */
    public sealed interface Operation { }

    /**
     * An elementwise function; operands of size 1 are broadcast.
     *
     * @param function the function
     * @param x the first operand
     * @param b the second operand, or {@code null}; for a selection the value where {@code t} is false
     * @param t the condition of a selection, or {@code null}
     * @param y the result
     * @param axis the dimension of an index, else -1
     */
    public record Pointwise(Function function, Operand x, @Nullable Operand b, @Nullable Operand t, Operand y, int axis)
            implements Operation { }

    /**
     * The matrix product over the last two dimensions.
     *
     * @param lengths how many rows and columns of {@code y}, and how many summands, are valid in each sequence; each
     *     may be {@code null} for all
     */
    public record Product(Operand a, Operand b, Operand y, Lengths lengths) implements Operation { }

    /** Operands of I32, {@code [sequences, 1, 1, 1]}, or {@code null}. */
    public record Lengths(@Nullable Operand rows, @Nullable Operand columns, @Nullable Operand summands) {
        /** All rows, columns and summands are valid. */
        static final Lengths ALL = new Lengths(null, null, null);
    }

    /** The sum or the maximum over dimensions that have size 1 in {@code y}. */
    public record Reduction(boolean max, Operand x, Operand y) implements Operation { }

    /** An exchange of the last two dimensions, with a conversion if {@code y} has another type. */
    public record Transposition(Operand x, Operand y) implements Operation { }

    /**
     * A convolution, or one of its gradients.
     *
     * @param pass which of the operands is the result
     * @param padding zeros on both sides, for each spatial dimension
     * @param stride distance of neighbouring positions, for each spatial dimension
     * @param dilation distance of the weight's elements, for each spatial dimension
     * @param x the images, or their gradient
     * @param weight the weight, or its gradient
     * @param y the results, or their gradient
     */
    public record Convolution(Pass pass, long[] padding, long[] stride, long[] dilation, Operand x, Operand weight,
            Operand y) implements Operation { }

    /** Returns all operands, by number. */
    public List<Operand> operands() {
        return operands;
    }

    /** Returns all operations, in order. */
    public List<Operation> operations() {
        return operations;
    }

    /** Adds an operand in the device's memory. */
    Operand memory(DType type, long[] sizes, long[] strides) {
        return add(type, sizes, strides, Place.MEMORY, 0);
    }

    /** Adds a constant. */
    Operand constant(float value) {
        return add(DType.F32, new long[] {1, 1, 1, 1}, new long[] {1, 1, 1, 1}, Place.CONSTANT, value);
    }

    /** Adds a dense operand that only passes from one operation to others. */
    Operand virtual(DType type, long[] sizes) {
        return virtual(type, sizes, dense(sizes));
    }

    /** Adds an operand that only passes from one operation to others, with the strides that it would have in memory. */
    Operand virtual(DType type, long[] sizes, long[] strides) {
        return add(type, sizes, strides, Place.VIRTUAL, 0);
    }

    /** Adds an elementwise function and returns its result, which has the sizes and type of {@code x}. */
    Operand apply(Function function, Operand x, @Nullable Operand b) {
        return apply(function, x, b, null, virtual(x.type, x.sizes));
    }

    /** Adds an elementwise predicate and returns its result, which has the sizes of {@code x}. */
    Operand test(Function function, Operand x, @Nullable Operand b) {
        return apply(function, x, b, null, virtual(DType.BOOL, x.sizes));
    }

    /** Adds an elementwise function with a given result, and returns the result. */
    Operand apply(Function function, Operand x, @Nullable Operand b, @Nullable Operand t, Operand y) {
        operations.add(new Pointwise(function, x, b, t, y, -1));
        return y;
    }

    /** Adds the indices of the elements of {@code x} along a dimension, and returns them. */
    Operand index(Operand x, int axis) {
        Operand y = virtual(DType.I32, x.sizes);
        operations.add(new Pointwise(Function.INDEX, x, null, null, y, axis));
        return y;
    }

    /** Adds a matrix product with a given result, and returns the result. */
    Operand product(Operand a, Operand b, Operand y, Lengths lengths) {
        operations.add(new Product(a, b, y, lengths));
        return y;
    }

    /** Adds a reduction of the last dimension with a given result, and returns the result. */
    Operand fold(boolean max, Operand x, Operand y) {
        operations.add(new Reduction(max, x, y));
        return y;
    }

    /** Adds a transposition and returns its result, of the given type, with the strides of {@code x} exchanged. */
    Operand transposed(Operand x, DType type) {
        long[] n = x.sizes;
        long[] s = x.strides;
        Operand y = add(type, new long[] {n[0], n[1], n[3], n[2]}, new long[] {s[0], s[1], s[3], s[2]}, Place.VIRTUAL,
                0);
        operations.add(new Transposition(x, y));
        return y;
    }

    /** Adds an operation that has its result among its operands. */
    void add(Operation operation) {
        operations.add(operation);
    }

    private Operand add(DType type, long[] sizes, long[] strides, Place place, float value) {
        Operand operand = new Operand(operands.size(), type, sizes, strides, place, value);
        operands.add(operand);
        return operand;
    }

    /** Returns the strides of a row-major tensor of four dimensions. */
    static long[] dense(long[] sizes) {
        return new long[] {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1};
    }

    /** Returns the strides of a tensor of four dimensions whose second dimension is innermost. */
    static long[] channelsLast(long... sizes) {
        return new long[] {sizes[1] * sizes[2] * sizes[3], 1, sizes[3] * sizes[1], sizes[1]};
    }
}
