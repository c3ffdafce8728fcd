package dev.starling.tensor.cpu.jit;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The primitives of a loop's body in order of execution. An instruction's number is its position; a repeated
 * instruction gets the number of the first one, so that nothing is computed twice.
 */
final class LoopBody {
    private static final int NONE = -1;

    /** One instruction: a primitive, the lane of its result (of the stored value for a store), operands, immediate. */
    record Node(Primitive primitive, Lane lane, int a, int b, int c, long immediate) {
        /** Written out like {@link #equals}, because linking a record's own costs a process's first step 5 ms. */
        @Override
        public int hashCode() {
            int hash = 31 * primitive.ordinal() + lane.ordinal();
            return 31 * (31 * (31 * (31 * hash + a) + b) + c) + Long.hashCode(immediate);
        }

        @Override
        public boolean equals(@Nullable Object other) {
            return other instanceof Node node && primitive == node.primitive && lane == node.lane && a == node.a
                    && b == node.b && c == node.c && immediate == node.immediate;
        }
    }

    private final List<Node> nodes = new ArrayList<>();
    private final Map<Node, Integer> numbers = new HashMap<>();

    List<Node> nodes() {
        return nodes;
    }

    Lane lane(int value) {
        return nodes.get(value).lane;
    }

    private int define(Primitive primitive, Lane lane, int a, int b, int c, long immediate) {
        Node node = new Node(primitive, lane, a, b, c, immediate);
        Integer known = numbers.putIfAbsent(node, nodes.size());
        if (known != null) {
            return known;
        }
        nodes.add(node);
        return nodes.size() - 1;
    }

    int load(Lane lane, int operand) {
        return define(Primitive.LOAD, lane, NONE, NONE, NONE, operand);
    }

    void store(int value, int operand) {
        define(Primitive.STORE, lane(value), value, NONE, NONE, operand);
    }

    int parameter(Lane lane, int number) {
        return define(Primitive.PARAMETER, lane, NONE, NONE, NONE, number);
    }

    /** A constant of a floating lane, or an integer. */
    int constant(Lane lane, double value) {
        return bits(lane, switch (lane) {
            case F32 -> Float.floatToRawIntBits((float) value);
            case F64 -> Double.doubleToRawLongBits(value);
            case I32, I64 -> (long) value;
            case BOOL -> value != 0 ? 1 : 0;
        });
    }

    int bits(Lane lane, long bits) {
        return define(Primitive.CONSTANT, lane, NONE, NONE, NONE, bits);
    }

    /** A double. */
    int f64(double value) {
        return constant(Lane.F64, value);
    }

    /** A long. */
    int i64(long value) {
        return bits(Lane.I64, value);
    }

    int unary(Primitive primitive, int a) {
        return define(primitive, lane(a), a, NONE, NONE, 0);
    }

    int binary(Primitive primitive, int a, int b) {
        return define(primitive, lane(a), a, b, NONE, 0);
    }

    int compare(Primitive primitive, int a, int b) {
        return define(primitive, Lane.BOOL, a, b, NONE, 0);
    }

    int shift(Primitive primitive, int a, int distance) {
        return define(primitive, lane(a), a, NONE, NONE, distance);
    }

    int select(int condition, int a, int b) {
        return a == b ? a : define(Primitive.SELECT, lane(a), condition, a, b, 0);
    }

    int call(Function function, int a, int b) {
        return define(Primitive.CALL, lane(a), a, b, NONE, function.ordinal());
    }

    /** Selects {@code value}, or {@code function(x)} where a condition that is rarely true holds. */
    int rare(int condition, int value, Function function, int x) {
        return define(Primitive.RARE, lane(value), condition, value, x, function.ordinal());
    }

    /** An accumulator of floats that begins with a value; its number keeps it apart from others. */
    int accumulator(double first) {
        return define(Primitive.ACCUMULATOR, Lane.F32, nodes.size(), NONE, NONE,
                Float.floatToRawIntBits((float) first));
    }

    void update(int accumulator, int value, int operand) {
        define(Primitive.UPDATE, Lane.F32, value, accumulator, NONE, operand);
    }

    int convert(Lane lane, int a) {
        return lane(a) == lane ? a : define(Primitive.CONVERT, lane, a, NONE, NONE, 0);
    }

    /** Reinterprets the bits of a float as an integer, or the reverse. */
    int reinterpret(int a) {
        Lane lane = switch (lane(a)) {
            case F32 -> Lane.I32;
            case I32 -> Lane.F32;
            case F64 -> Lane.I64;
            case I64 -> Lane.F64;
            case BOOL -> throw new IllegalArgumentException("a bool cannot be reinterpreted");
        };
        return define(Primitive.REINTERPRET, lane, a, NONE, NONE, 0);
    }

    int add(int a, int b) {
        return binary(Primitive.ADD, a, b);
    }

    int sub(int a, int b) {
        return binary(Primitive.SUB, a, b);
    }

    int mul(int a, int b) {
        return binary(Primitive.MUL, a, b);
    }

    int div(int a, int b) {
        return binary(Primitive.DIV, a, b);
    }

    int fma(int a, int b, int c) {
        return define(Primitive.FMA, lane(a), a, b, c, 0);
    }

    int neg(int a) {
        return unary(Primitive.NEG, a);
    }

    int abs(int a) {
        return unary(Primitive.ABS, a);
    }

    int less(int a, int b) {
        return compare(Primitive.LT, a, b);
    }

    int and(int a, int b) {
        return binary(Primitive.AND, a, b);
    }

    int or(int a, int b) {
        return binary(Primitive.OR, a, b);
    }

    int not(int a) {
        return unary(Primitive.NOT, a);
    }

    /** A constant of the same lane as {@code like}. */
    int constantLike(int like, double value) {
        return constant(lane(like), value);
    }

    /** {@code x}, at most {@code high}; NaN is kept. */
    int clampAbove(int x, double high) {
        return select(less(constantLike(x, high), x), constantLike(x, high), x);
    }

    /** {@code x}, at least {@code low}; NaN is kept. */
    int clampBelow(int x, double low) {
        return select(less(x, constantLike(x, low)), constantLike(x, low), x);
    }

    int clamp(int x, double low, double high) {
        return clampAbove(clampBelow(x, low), high);
    }

    /** {@code c[0] + c[1] x + c[2] x^2 + ...} by Horner's scheme. */
    int polynomial(int x, double... c) {
        int sum = constantLike(x, c[c.length - 1]);
        for (int i = c.length - 2; i >= 0; i--) {
            sum = fma(sum, x, constantLike(x, c[i]));
        }
        return sum;
    }

    /** {@code magnitude} with the sign bit of {@code sign}; the magnitude must not be negative. */
    int withSign(int magnitude, int sign) {
        int bits = reinterpret(sign);
        int signBit = bits(lane(bits), lane(bits) == Lane.I32 ? Integer.MIN_VALUE : Long.MIN_VALUE);
        return reinterpret(or(reinterpret(magnitude), and(bits, signBit)));
    }
}
