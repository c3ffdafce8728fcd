package dev.starling.tensor.cpu.jit;

import dev.starling.tensor.DType;
import dev.starling.tensor.cpu.x86.Assembler;
import dev.starling.tensor.cpu.x86.MachineCode;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Machine code for loops over the rows and columns of f32 matrices that join the elements of each row: sums, extremes.
 * Each has operands with an element for each column, or with one for each row:
 * {@snippet :
 * loop.call().operand(x, 4L * columns).operand(sums, 4).run(rows, columns);
 * }
 */
public final class RowLoop {
    /** Elements that machine code computes at a time, if there are several rows. */
    private static final int PIECE = 1 << 16;
    private static final ThreadLocal<Call> CURRENT = ThreadLocal.withInitial(Call::new);

    private final Consumer<Builder> definition;
    private final int bits;
    private volatile @Nullable Assembled assembled;

    private record Assembled(MachineCode code, int operands) { }

    private RowLoop(Consumer<Builder> definition, int bits) {
        this.definition = definition;
        this.bits = bits;
    }

    /** Returns whether this process has such loops. */
    public static boolean isAvailable() {
        return MachineCode.VECTOR_BITS > 0;
    }

    /** Returns a loop, which is assembled when it is needed first. */
    public static RowLoop of(Consumer<Builder> definition) {
        return of(definition, MachineCode.VECTOR_BITS);
    }

    static RowLoop of(Consumer<Builder> definition, int bits) {
        return new RowLoop(definition, bits);
    }

    private Assembled assembled() {
        Assembled known = assembled;
        return known == null ? assemble() : known;
    }

    private synchronized Assembled assemble() {
        Assembled known = assembled;
        if (known != null) {
            return known;
        }
        Builder builder = new Builder();
        definition.accept(builder);
        Assembler assembler = new Assembler();
        VectorCode set = bits == 512 ? new Avx512Code(assembler, NativeKernel.width(builder.body, bits))
                : new Avx2Code(assembler, builder.body);
        int operands = builder.accesses.size();
        new NativeWriter(assembler, Collections.nCopies(operands, DType.F32), builder.body, builder.accesses, set)
                .write();
        known = new Assembled(MachineCode.required(assembler), operands);
        assembled = known;
        return known;
    }

    /** Begins a call of this loop by this thread, which ends an earlier one. */
    public Call call() {
        return Calls.begin(assembled());
    }

    /**
     * The two ends of a call. They are in a class of exceptions because HotSpot's compilers do not inline methods of
     * such a class: kernels have many calls, with each of which they would compile these again.
     */
    private static final class Calls extends RuntimeException {
        private static final long serialVersionUID = 1;

        static Call begin(Assembled loop) {
            Call call = CURRENT.get();
            call.begin(loop);
            return call;
        }

        static void run(Call call, Assembled loop, int rows, int columns) {
            int step = Math.max(1, PIECE / Math.max(1, columns));
            for (int row = 0; row < rows; row += step) {
                loop.code.call(call.frame.memory(), row, Math.min(rows, row + step), 0, columns);
            }
        }
    }

    /** A call: receives the operands in the order in which the loop was built, then runs. */
    public static final class Call {
        private final Frame frame = new Frame();
        private @Nullable Assembled loop;
        private int operands;
        private int next;

        private Call() { }

        private void begin(Assembled called) {
            loop = called;
            operands = called.operands;
            next = 0;
            frame.ensure(3 * operands);
        }

        /** Sets the address of the next operand and the bytes from row to row. */
        public Call operand(long address, long rowStride) {
            frame.set(next, address);
            frame.set(operands + next, rowStride);
            next++;
            return this;
        }

        /** Sets the addresses of the next {@code count} operands and, for each, the bytes from row to row. */
        public Call operands(int count, long[] addresses, long[] rowStrides) {
            frame.set(next, addresses, count);
            frame.set(operands + next, rowStrides, count);
            next += count;
            return this;
        }

        /** Sets the addresses of the next operands, which are a distance apart, and the bytes from row to row. */
        public Call operands(int count, long first, long distance, long rowStride) {
            for (int i = 0; i < count; i++) {
                frame.set(next + i, first + i * distance);
                frame.set(operands + next + i, rowStride);
            }
            next += count;
            return this;
        }

        /** Computes all rows, one after the other, in pieces that are short. */
        public void run(int rows, int columns) {
            Assembled called = loop;
            if (called == null || next != operands) {
                throw new IllegalStateException("the loop has " + operands + " operands, got " + next);
            }
            Calls.run(this, called, rows, columns);
        }
    }

    /** Defines a loop. Operands are numbered in the order in which they are added. Values are numbers. */
    public static final class Builder {
        private final LoopBody body = new LoopBody();
        private final List<Access> accesses = new ArrayList<>();

        private int operand(Access access) {
            accesses.add(access);
            return accesses.size() - 1;
        }

        /** Adds an operand with an element for each column, and returns the element. */
        public int column() {
            return body.load(Lane.F32, operand(Access.CONTIGUOUS));
        }

        /** Adds an operand with an element for each row, and returns the element. */
        public int row() {
            return body.load(Lane.F32, operand(Access.BROADCAST));
        }

        /** Adds an operand with an element for each column, which receives a value. */
        public void store(int value) {
            body.store(value, operand(Access.CONTIGUOUS));
        }

        public int constant(double value) {
            return body.constant(Lane.F32, value);
        }

        public int add(int a, int b) {
            return body.add(a, b);
        }

        public int sub(int a, int b) {
            return body.sub(a, b);
        }

        public int mul(int a, int b) {
            return body.mul(a, b);
        }

        public int div(int a, int b) {
            return body.div(a, b);
        }

        public int neg(int a) {
            return body.neg(a);
        }

        /** The value as an f64. */
        public int wide(int a) {
            return body.convert(Lane.F64, a);
        }

        /** The value of an f64, rounded to f32. */
        public int narrow(int a) {
            return body.convert(Lane.F32, a);
        }

        /** The square root. */
        public int sqrt(int a) {
            return body.unary(Primitive.SQRT, a);
        }

        /** The natural logarithm of an f64, exact to 36 bits. */
        public int log(int a) {
            return new Logarithm(body, true).log(a);
        }

        /** {@code a * b + c}, rounded once. */
        public int fma(int a, int b, int c) {
            return body.fma(a, b, c);
        }

        /** The larger or smaller value; NaN if either is NaN. */
        public int extreme(boolean max, int a, int b) {
            return body.binary(max ? Primitive.MAX : Primitive.MIN, a, b);
        }

        /** {@code c} where {@code a} is finite, otherwise {@code d}. */
        public int ifFinite(int a, int c, int d) {
            return body.select(body.less(body.abs(a), constant(Double.POSITIVE_INFINITY)), c, d);
        }

        /** {@code c} where {@code a} is not NaN, otherwise {@code d}. */
        public int ifNumber(int a, int c, int d) {
            return body.select(body.compare(Primitive.EQ, a, a), c, d);
        }

        /** {@code a < b ? c : d}. */
        public int ifLess(int a, int b, int c, int d) {
            return body.select(body.less(a, b), c, d);
        }

        /** {@code a < b ? c : d} of integers a and b, whose bits values hold. */
        public int ifBelow(int a, int b, int c, int d) {
            return body.select(body.less(body.reinterpret(a), body.reinterpret(b)), c, d);
        }

        /** {@code a <= b || b is NaN ? c : d}. */
        public int ifStays(int a, int b, int c, int d) {
            int isNan = body.compare(Primitive.NE, b, b);
            return body.select(body.or(body.compare(Primitive.LE, a, b), isNan), c, d);
        }

        /** {@code c} where the bits of {@code a} and {@code b} are equal, otherwise {@code d}. */
        public int ifSame(int a, int b, int c, int d) {
            return body.select(body.compare(Primitive.EQ, body.reinterpret(a), body.reinterpret(b)), c, d);
        }

        /** {@code c} where adding {@code lowest} to the bits {@code exponent} of a carries, otherwise {@code d}. */
        public int ifCarries(int a, int exponent, int lowest, int c, int d) {
            int sum = body.add(body.and(body.reinterpret(a), body.bits(Lane.I32, exponent)),
                    body.bits(Lane.I32, lowest));
            int carries = body.and(sum, body.bits(Lane.I32, exponent + lowest));
            return body.select(body.compare(Primitive.NE, carries, body.bits(Lane.I32, 0)), c, d);
        }

        /** The sum of integers, whose bits values hold. */
        public int addIntegers(int a, int b) {
            return body.reinterpret(body.add(body.reinterpret(a), body.reinterpret(b)));
        }

        /** {@code 2^n} of the integer n in the low bits of a float to which 1.5 * 2^23 was added. */
        public int powerOfTwo(int shifted) {
            int exponent = body.shift(Primitive.SHL, body.reinterpret(shifted), 23);
            return body.reinterpret(body.add(exponent, body.bits(Lane.I32, 0x3f800000)));
        }

        /** Adds an operand with an element for each row, which receives the sum of a value over the columns. */
        public void sum(int value) {
            int sum = body.accumulator(0);
            body.update(sum, body.add(sum, value), operand(Access.BROADCAST));
        }

        /** The same with the sum of products. */
        public void sumOfProducts(int a, int b) {
            int sum = body.accumulator(0);
            body.update(sum, body.fma(a, b, sum), operand(Access.BROADCAST));
        }

        /** The same with the largest value that is not NaN, or negative infinity. */
        public void greatest(int value) {
            int best = body.accumulator(Double.NEGATIVE_INFINITY);
            body.update(best, body.select(body.less(best, value), value, best), operand(Access.BROADCAST));
        }

        /** The same with the largest or smallest value; NaN if any is NaN. */
        public void extreme(boolean max, int value) {
            int best = body.accumulator(max ? Double.NEGATIVE_INFINITY : Double.POSITIVE_INFINITY);
            body.update(best, body.binary(max ? Primitive.MAX : Primitive.MIN, value, best),
                    operand(Access.BROADCAST));
        }
    }
}
