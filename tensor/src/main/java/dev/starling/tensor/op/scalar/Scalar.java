package dev.starling.tensor.op.scalar;

import dev.starling.tensor.TensorException;
import java.util.List;

/**
 * A number that is computed for one element, as a term over operands, parameters and constants. A {@link Formula}
 * computes equal terms once. Immutable:
 * {@snippet :
 * Scalar x = Scalar.operand(0);
 * Formula softsign = Formula.of(x.div(x.abs().add(1)));
 * }
 */
public sealed interface Scalar {
    /** The largest number of operands, and of parameters. */
    int MAX_LEAVES = 64;

    /** The element of operand {@code number}. */
    record Operand(int number) implements Scalar {
        /** Checks the number. */
        public Operand {
            requireLeaf(number);
        }
    }

    /** A number that comes with each call, so that a new value needs no new kernel. */
    record Parameter(int number) implements Scalar {
        /** Checks the number. */
        public Parameter {
            requireLeaf(number);
        }
    }

    /** A number that is part of the formula. */
    record Constant(double value) implements Scalar { }

    /**
     * A primitive function of other terms.
     *
     * @param opcode the function, but not {@link Opcode#CAST}
     * @param of as many terms as the function has operands
     */
    record Apply(Opcode opcode, List<Scalar> of) implements Scalar {
        /** Checks the number of operands. */
        public Apply {
            if (of.size() != opcode.arity() || opcode == Opcode.CAST) {
                throw TensorException.argument("formula", opcode + " takes " + opcode.arity() + " operands, got "
                        + of.size(), "CAST is no part of formulas; pass as many terms as the function has operands");
            }
            of = List.copyOf(of);
        }
    }

    private static void requireLeaf(int number) {
        if (number < 0 || number >= MAX_LEAVES) {
            throw TensorException.argument("formula", "operands and parameters are numbered from 0 to "
                    + (MAX_LEAVES - 1) + ", got " + number, "number them without gaps");
        }
    }

    /** Returns the element of operand {@code number}. */
    static Scalar operand(int number) {
        return new Operand(number);
    }

    /** Returns parameter {@code number}. */
    static Scalar parameter(int number) {
        return new Parameter(number);
    }

    /** Returns a constant. */
    static Scalar constant(double value) {
        return new Constant(value);
    }

    /** Returns a primitive function of terms. */
    static Scalar of(Opcode opcode, Scalar... terms) {
        return new Apply(opcode, List.of(terms));
    }

    /** Returns the sum. */
    default Scalar add(Scalar other) {
        return of(Opcode.ADD, this, other);
    }

    /** Returns the sum with a constant. */
    default Scalar add(double other) {
        return add(constant(other));
    }

    /** Returns the difference. */
    default Scalar sub(Scalar other) {
        return of(Opcode.SUB, this, other);
    }

    /** Returns the product. */
    default Scalar mul(Scalar other) {
        return of(Opcode.MUL, this, other);
    }

    /** Returns {@code this·factor + summand}, rounded once. */
    default Scalar fma(Scalar factor, Scalar summand) {
        return of(Opcode.FMA, this, factor, summand);
    }

    /** Returns the quotient. */
    default Scalar div(Scalar other) {
        return of(Opcode.DIV, this, other);
    }

    /** Returns the absolute value. */
    default Scalar abs() {
        return of(Opcode.ABS, this);
    }

    /** Returns the square. */
    default Scalar square() {
        return of(Opcode.SQUARE, this);
    }

    /** Returns the square root. */
    default Scalar sqrt() {
        return of(Opcode.SQRT, this);
    }
}
