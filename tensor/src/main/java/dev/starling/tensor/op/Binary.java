package dev.starling.tensor.op;

import static dev.starling.tensor.op.FormulaOp.Types.ALL;
import static dev.starling.tensor.op.FormulaOp.Types.FLOATING;

import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.scalar.Formula;
import dev.starling.tensor.op.scalar.Opcode;
import java.util.function.Function;

/** Arithmetic of two operands of the same type that broadcast together. */
public final class Binary {
    /** a + b. */
    public static final FormulaOp ADD = of("add", ALL, Opcode.ADD, Backward::grad, Backward::grad);
    /** a - b. */
    public static final FormulaOp SUB = of("sub", ALL, Opcode.SUB, Backward::grad, b -> b.grad().neg());
    /** a·b. */
    public static final FormulaOp MUL = of("mul", ALL, Opcode.MUL,
            b -> b.grad().mul(b.in(1)), b -> b.grad().mul(b.in(0)));
    /** a / b; true division, floating only. */
    public static final FormulaOp DIV = of("div", FLOATING, Opcode.DIV,
            b -> b.grad().div(b.in(1)), b -> b.grad().mul(b.out(0)).div(b.in(1)).neg());
    /** aᵇ; the gradient of a is 0 where b is 0, that of b where a is 0. */
    public static final FormulaOp POW = of("pow", FLOATING, Opcode.POW,
            b -> b.grad().mul(b.in(1)).mul(Where.select(b.in(1).ne(0), b.in(0), b.in(0).onesLike())
                    .pow(b.in(1).sub(1))),
            b -> Where.select(b.in(0).ne(0),
                    b.grad().mul(b.out(0)).mul(Where.select(b.in(0).ne(0), b.in(0), b.in(0).onesLike()).log()), null));
    /** a - ⌊a/b⌋·b: the sign of b, as in NumPy and Python. */
    public static final FormulaOp REMAINDER = of("remainder", ALL, Opcode.REMAINDER,
            Backward::grad, b -> b.grad().mul(b.in(0).floorDivide(b.in(1)).neg()));
    /** ⌊a/b⌋; integer division by zero gives 0; gradient 0. */
    public static final FormulaOp FLOOR_DIVIDE =
            new FormulaOp("floorDivide", ALL, Formula.of(Opcode.FLOOR_DIVIDE), null);
    /** The larger operand; NaN if either is NaN; equal operands each get half of the gradient. */
    public static final FormulaOp MAXIMUM = of("maximum", ALL, Opcode.MAXIMUM,
            b -> b.grad().mul(share(b.in(0), b.in(1))), b -> b.grad().mul(share(b.in(1), b.in(0))));
    /** The smaller operand; NaN if either is NaN; equal operands each get half of the gradient. */
    public static final FormulaOp MINIMUM = of("minimum", ALL, Opcode.MINIMUM,
            b -> b.grad().mul(share(b.in(1), b.in(0))), b -> b.grad().mul(share(b.in(0), b.in(1))));
    /** Angle of the point (b, a) in radians. */
    public static final FormulaOp ATAN2 = of("atan2", FLOATING, Opcode.ATAN2,
            b -> Unary.wide(b, (g, y) -> angular(g, b.in(1), y, b.in(1))),
            b -> Unary.wide(b, (g, y) -> angular(g, y.neg(), y, b.in(1))));

    private Binary() { }

    /** Defines an operation by the gradients of its operands, before the sum over repeated elements. */
    private static FormulaOp of(String name, FormulaOp.Types types, Opcode opcode, Function<Backward, Tensor> first,
            Function<Backward, Tensor> second) {
        return new FormulaOp(name, types, Formula.of(opcode), b -> new Tensor[] {
            b.needs(0) ? first.apply(b).sumTo(b.in(0).shape()) : null,
            b.needs(1) ? second.apply(b).sumTo(b.in(1).shape()) : null});
    }

    /** Returns g·part/(y² + x²). */
    private static Tensor angular(Tensor g, Tensor part, Tensor y, Tensor x) {
        return g.mul(part).div(y.square().add(x.to(y.dtype()).square()));
    }

    /** Returns 1 where a > b, ½ where they are equal, else 0. */
    private static Tensor share(Tensor a, Tensor b) {
        return a.gt(b).to(a.dtype()).add(a.eq(b).to(a.dtype()).mul(0.5));
    }
}
