package dev.starling.tensor.fuzz;

import static dev.starling.tensor.fuzz.ElementwiseCalls.floating;
import static dev.starling.tensor.fuzz.ElementwiseCalls.type;
import static dev.starling.tensor.fuzz.Operand.literal;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Index;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Rule;
import dev.starling.tensor.op.Update;
import java.util.Arrays;
import java.util.function.Supplier;

/** Calls that make tensors from numbers, and calls that change tensors in place. */
final class UpdateCalls {
    private UpdateCalls() {
    }

    private static String list(long... values) {
        return String.join(", ", Arrays.stream(values).mapToObj(v -> v + "L").toList());
    }

    private static Spec spec(DType type, long... dims) {
        return new Spec(type, Shape.of(dims), Device.current());
    }

    static Call create(Choices c) {
        DType type = type(c);
        long[] dims = Operand.sizes(c, c.next(4));
        for (int i = 0; i < dims.length; i++) {
            dims[i] = c.wild && c.oneIn(8) ? c.whole(dims[i]) : dims[i];
        }
        double a = c.real(c.ofReals(0, 1, -1, 0.5, 3));
        double b = c.real(c.ofReals(1, 2, 0.25, -0.5, 5));
        String s = "new Spec(DType." + type.name() + ", Shape.of(" + list(dims) + "), Device.current())";
        String ab = ", " + literal(a) + ", " + literal(b) + ")";
        Generator g = Generator.seeded(1);
        long low = c.whole(-2);
        long high = c.whole(5);
        return switch (c.next(10)) {
            case 0 -> Call.of("Tensor.full(" + s + ", " + literal(a) + ")",
                    x -> Tensor.full(spec(type, dims), a));
            case 1 -> Call.of("Tensor.arange(" + s + ab, x -> Tensor.arange(spec(type, dims), a, b));
            case 2 -> Call.of("Tensor.arange(" + literal(a) + ", " + literal(b) + ", 0.25)",
                    x -> Tensor.arange(a, b, 0.25));
            case 3 -> Call.of("Tensor.linspace(" + literal(a) + ", " + literal(b) + ", " + high + "L)",
                    x -> Tensor.linspace(a, b, high));
            case 4 -> Call.of("Tensor.eye(" + high + "L)", x -> Tensor.eye(high));
            case 5 -> Call.of("Generator.seeded(1).uniform(" + s + ab, x -> fresh(g).uniform(spec(type, dims), a, b));
            case 6 -> Call.of("Generator.seeded(1).normal(" + s + ab, x -> fresh(g).normal(spec(type, dims), a, b));
            case 7 -> Call.of("Generator.seeded(1).bernoulli(" + s + ", " + literal(a) + ")",
                    x -> fresh(g).bernoulli(spec(type, dims), a));
            case 8 -> Call.of("Generator.seeded(1).integers(" + s + ", " + low + "L, " + high + "L)",
                    x -> fresh(g).integers(spec(type, dims), low, high));
            default -> Call.of("Generator.seeded(1).permutation(" + (int) high + ")",
                    x -> fresh(g).permutation((int) Math.min(high, 1000)));
        };
    }

    private static Generator fresh(Generator g) {
        return Generator.of(g.state());
    }

    /** Changes x0; the result is x0 afterwards. */
    static Call update(Choices c) {
        DType type = floating(c);
        long[] dims = Operand.sizes(c, c.next(4));
        double rate = factor(c, c.ofReals(0.1, 1, 0.5));
        double decay = factor(c, c.ofReals(0, 0.1, 0.9));
        Operand x0 = Operand.of(c, type, Values.USUAL, dims);
        Operand x1 = Operand.of(c, type, Values.USUAL, dims);
        Operand x2 = Operand.of(c, type, Values.TAME, dims);
        boolean flag = c.oneIn(2);
        return switch (c.next(5)) {
            case 0 -> changing(new Update.Assign(), Operand.of(c, type(c), Values.ANY, dims),
                    Operand.of(c, type(c), Values.ANY, ElementwiseCalls.narrowed(c, dims)));
            case 1 -> changing(new Update.Blend(decay, rate), x0, x1);
            case 2 -> stepping("Rule.Sgd(0, 0, " + literal(decay) + ", false)",
                    () -> new Rule.Sgd(0, 0, decay, false), rate, 1, x0, x1);
            case 3 -> stepping("Rule.Sgd(0.9, " + (flag ? 0 : 0.1) + ", " + literal(decay) + ", " + flag + ")",
                    () -> new Rule.Sgd(0.9, flag ? 0 : 0.1, decay, flag), rate, 1, x0, x1, x2);
            default -> stepping("Rule.Adam(0.9, 0.99, 1e-6, " + literal(decay) + ", " + flag + ")",
                    () -> new Rule.Adam(0.9, 0.99, 1e-6, decay, flag), rate, c.integer(c.ofInts(1, 2, 1000)),
                    x0, x1, x2, Operand.of(c, type, Values.POSITIVE, dims));
        };
    }

    /**
     * In wild cases returns, one time in four, another number, but none so large that it amplifies the rounding of a
     * sum.
     */
    private static double factor(Choices c, double legal) {
        return c.wild && c.oneIn(4) ? c.ofReals(0, -1, 2, Double.NaN, Double.POSITIVE_INFINITY, -0.0) : legal;
    }

    private static Call changing(Update op, Operand... operands) {
        return changing("new Update." + op, () -> op, operands);
    }

    /** A rule refuses settings that it cannot use when it is made. */
    private static Call stepping(String text, Supplier<Rule> rule, double rate, long step, Operand... operands) {
        return changing("new " + text + ".step(" + literal(rate) + ", " + step + ")", () -> rule.get().step(rate, step),
                operands);
    }

    private static Call changing(String text, Supplier<Update> op, Operand... operands) {
        return Call.of("Tensor.apply(" + text + ", " + "x0, x1, x2, x3".substring(0, 4 * operands.length - 2)
                + ")", 0, x -> {
            Tensor.apply(op.get(), x);
            return new Tensor[0];
        }, Arrays.stream(operands).map(o -> o == operands[1] ? o : whole(o)).toArray(Operand[]::new));
    }

    /** Returns the operand in a layout in which no two of its elements share memory. */
    private static Operand whole(Operand o) {
        boolean shared = o.layout() == Operand.Layout.ONE || o.layout() == Operand.Layout.REPEATED
                || o.layout() == Operand.Layout.REPEATED_LAST;
        return shared ? new Operand(o.dtype(), o.dims(), Operand.Layout.STEPPED, o.reals()) : o;
    }

    /** Writes at indices. */
    static Call set(Choices c) {
        DType type = type(c);
        long[] dims = Operand.sizes(c, 1 + c.next(3));
        Operand x0 = whole(Operand.of(c, type, Values.ANY, dims));
        double value = c.real(c.ofReals(1, 0, -1, 0.5));
        return switch (c.next(3)) {
            case 0 -> {
                long at = c.whole(dims[0] == 0 ? 0 : c.next((int) dims[0]));
                yield Call.of("x0.set(" + literal(value) + ", Index.at(" + at + "L))", 0, x -> {
                    x[0].set(value, Index.at(at));
                    return new Tensor[0];
                }, x0);
            }
            case 1 -> Call.of("x0.set(x1, Index.mask(x2))", 0, x -> {
                x[0].set(x[1], Index.mask(x[2]));
                return new Tensor[0];
            }, x0, Operand.of(c, type, Values.ANY), Operand.of(c, DType.BOOL, Values.ANY,
                    Arrays.copyOf(dims, 1 + c.next(dims.length))));
            default -> Call.of("x0.set(x1, Index.of(x2))", 0, x -> {
                x[0].set(x[1], Index.of(x[2]));
                return new Tensor[0];
            }, x0, Operand.of(c, type, Values.ANY, ReductionCalls.joined(new long[] {2},
                    Arrays.copyOfRange(dims, 1, dims.length))), Operand.indices(c, dims[0], 2));
        };
    }
}
