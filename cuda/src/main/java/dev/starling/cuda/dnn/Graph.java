package dev.starling.cuda.dnn;

import dev.starling.tensor.DType;
import java.util.ArrayList;
import java.util.List;

/**
 * A graph of operations as cuDNN's backend interface takes it, as plain data. Operations are appended in an order in
 * which they can be computed.
 */
public final class Graph {
    private final List<Operand> operands = new ArrayList<>();
    private final List<Operation> operations = new ArrayList<>();

    /** Where an operand is: in the device's memory, nowhere (between operations), or a number of the host's. */
    public enum Place { MEMORY, VIRTUAL, CONSTANT }

    /** Functions of elements; {@link #INDEX} gives an element's place along a dimension. */
    public enum Function { ADD, SUB, MUL, DIV, EXP, LOG, RELU, GREATER_EQUAL, LESS, AND, SELECT, INDEX, IDENTITY }

    /** What a convolution is computed for. */
    public enum Pass { FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT }

    /**
     * A tensor of four dimensions.
     *
     * @param id its number, from 0 in the order of their making
     * @param type of its elements
     * @param sizes of its dimensions
     * @param strides of its dimensions, in elements
     * @param place where it is
     * @param value what it is, if a constant
     */
    public record Operand(int id, DType type, long[] sizes, long[] strides, Place place, float value) { }

    /** What is computed from operands. */
    public sealed interface Operation { }

    /**
     * A function of each element; operands of size 1 are repeated.
     *
     * @param function what is computed
     * @param x the first operand
     * @param b the second, or {@code null}; of a selection what is taken where {@code t} is false
     * @param t the condition of a selection, or {@code null}
     * @param y the result
     * @param axis of an index
     */
    public record Pointwise(Function function, Operand x, Operand b, Operand t, Operand y, int axis)
            implements Operation { }

    /**
     * The product of the last two dimensions.
     *
     * @param lengths how many rows and columns of {@code y}, and how many summands, count in each sequence; each may be
     *     {@code null} for all of them
     */
    public record Product(Operand a, Operand b, Operand y, Lengths lengths) implements Operation { }

    /** Operands of I32, {@code [sequences, 1, 1, 1]}, or {@code null}. */
    public record Lengths(Operand rows, Operand columns, Operand summands) {
        /** All of them count. */
        static final Lengths ALL = new Lengths(null, null, null);
    }

    /** The sum, or the greatest element, over dimensions that have size 1 in {@code y}. */
    public record Reduction(boolean greatest, Operand x, Operand y) implements Operation { }

    /** The last two dimensions exchanged, in another type where {@code y} has one. */
    public record Transposition(Operand x, Operand y) implements Operation { }

    /**
     * A convolution, or one of its gradients.
     *
     * @param pass which of the operands is the result
     * @param padding zeros on both sides, of each spatial dimension
     * @param stride distance of neighbouring places, of each spatial dimension
     * @param dilation distance of the weight's elements, of each spatial dimension
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

    /** Returns all operations in their order. */
    public List<Operation> operations() {
        return operations;
    }

    /** Adds an operand in the device's memory. */
    Operand memory(DType type, long[] sizes, long[] strides) {
        return add(type, sizes, strides, Place.MEMORY, 0);
    }

    /** Adds a number. */
    Operand constant(float value) {
        return add(DType.F32, new long[] {1, 1, 1, 1}, new long[] {1, 1, 1, 1}, Place.CONSTANT, value);
    }

    /** Adds what only passes from one operation to others. */
    Operand virtual(DType type, long[] sizes) {
        return virtual(type, sizes, dense(sizes));
    }

    /** Adds what only passes from one operation to others, as it would lie in memory. */
    Operand virtual(DType type, long[] sizes, long[] strides) {
        return add(type, sizes, strides, Place.VIRTUAL, 0);
    }

    /** Adds a function of elements and returns its result, of the sizes and type of {@code x}. */
    Operand apply(Function function, Operand x, Operand b) {
        return apply(function, x, b, null, virtual(x.type, x.sizes));
    }

    /** Adds a function of elements that holds or not, and returns its result, of the sizes of {@code x}. */
    Operand test(Function function, Operand x, Operand b) {
        return apply(function, x, b, null, virtual(DType.BOOL, x.sizes));
    }

    /** Adds a function of elements with a given result, and returns that. */
    Operand apply(Function function, Operand x, Operand b, Operand t, Operand y) {
        operations.add(new Pointwise(function, x, b, t, y, -1));
        return y;
    }

    /** Adds the places of the elements of {@code x} along a dimension, and returns them. */
    Operand index(Operand x, int axis) {
        Operand y = virtual(DType.I32, x.sizes);
        operations.add(new Pointwise(Function.INDEX, x, null, null, y, axis));
        return y;
    }

    /** Adds a product of matrices with a given result, and returns that. */
    Operand product(Operand a, Operand b, Operand y, Lengths lengths) {
        operations.add(new Product(a, b, y, lengths));
        return y;
    }

    /** Adds a fold of the last dimension with a given result, and returns that. */
    Operand fold(boolean greatest, Operand x, Operand y) {
        operations.add(new Reduction(greatest, x, y));
        return y;
    }

    /** Adds a transposition and returns its result, of a given type, which lies as {@code x} does. */
    Operand transposed(Operand x, DType type) {
        long[] n = x.sizes;
        long[] s = x.strides;
        Operand y = add(type, new long[] {n[0], n[1], n[3], n[2]}, new long[] {s[0], s[1], s[3], s[2]}, Place.VIRTUAL,
                0);
        operations.add(new Transposition(x, y));
        return y;
    }

    /** Adds an operation whose result is one of its operands. */
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

    /** Returns the strides of a tensor of four dimensions whose second one is the innermost. */
    static long[] channelsLast(long... sizes) {
        return new long[] {sizes[1] * sizes[2] * sizes[3], 1, sizes[3] * sizes[1], sizes[1]};
    }
}
