package dev.starling.tensor.conformance;

import static dev.starling.tensor.conformance.ConformanceCases.inLayouts;

import dev.starling.tensor.DType;
import dev.starling.tensor.op.Activation;
import dev.starling.tensor.op.Binary;
import dev.starling.tensor.op.Cast;
import dev.starling.tensor.op.Comparison;
import dev.starling.tensor.op.Elementwise;
import dev.starling.tensor.op.Logic;
import dev.starling.tensor.op.Unary;
import dev.starling.tensor.op.Where;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/** Cases of {@link Elementwise}: each operation over sizes, layouts, broadcasts and special values. */
final class ElementwiseCases {
    private ElementwiseCases() {
    }

    static Stream<Case> all() {
        List<Case> cases = new ArrayList<>();
        unary(cases);
        activations(cases);
        binary(cases);
        comparisons(cases);
        List<Case> typed = new ArrayList<>();
        where(typed);
        ConformanceCases.ALL.forEach(t -> casts(typed, t));
        return Stream.concat(cases.stream().flatMap(ConformanceCases::inAllTypes), typed.stream());
    }

    private static void unary(List<Case> cases) {
        for (Elementwise op : List.of(Unary.NEG, Unary.ABS, Unary.SIGN, Unary.SQUARE,
                Unary.RECIPROCAL, Unary.FLOOR, Unary.CEIL, Unary.ROUND, Unary.TRUNC,
                Unary.EXP, Unary.EXPM1, Unary.ATAN, Unary.SINH, Unary.COSH,
                Unary.ASINH, new Unary.Clamp(-0.5, 1), new Unary.Clamp(2, 3))) {
            grid(cases, op, Tolerance.CLOSE, Values.NORMAL);
        }
        Tolerance cancelling = Tolerance.CLOSE.cancelling(1);
        for (Elementwise op : List.of(Unary.SIN, Unary.COS, Unary.TANH,
                Unary.ERF, new Unary.Affine(-1.25, 0.75), new Unary.Affine(1, 3), new Unary.Affine(0.1, 0))) {
            grid(cases, op, cancelling, Values.NORMAL);
        }
        for (Elementwise op : List.of(Unary.LOG, Unary.LOG1P, Unary.SQRT, Unary.RSQRT,
                new Unary.PowScalar(0.5), new Unary.PowScalar(2), new Unary.PowScalar(3), new Unary.PowScalar(-1.5),
                new Unary.PowScalar(0))) {
            grid(cases, op, op == Unary.LOG ? cancelling : Tolerance.CLOSE, Values.POSITIVE);
        }
        for (Elementwise op : List.of(Unary.ASIN, Unary.ACOS, Unary.ATANH, Unary.TAN)) {
            grid(cases, op, cancelling, Values.UNIT);
        }
        grid(cases, Unary.ACOSH, cancelling, Values.ABOVE_ONE);
    }

    private static void activations(List<Case> cases) {
        for (Elementwise op : List.of(Activation.RELU, new Activation.LeakyRelu(0.1),
                new Activation.Elu(1.5), Activation.SIGMOID, Activation.SILU,
                Activation.SOFTSIGN)) {
            grid(cases, op, Tolerance.CLOSE, Values.NORMAL);
        }
        for (Elementwise op : List.of(Activation.SOFTPLUS, Activation.GELU,
                Activation.GELU_TANH)) {
            grid(cases, op, Tolerance.CLOSE.cancelling(2), Values.NORMAL);
        }
        for (Elementwise op : List.of(Activation.RELU_GRADIENT, Activation.SIGMOID_GRADIENT,
                Activation.TANH_GRADIENT, Activation.SILU_GRADIENT, Activation.GELU_GRADIENT,
                Activation.GELU_TANH_GRADIENT)) {
            pairs(cases, op, Tolerance.CLOSE.cancelling(4), Values.NORMAL);
        }
    }

    private static void binary(List<Case> cases) {
        for (Elementwise op : List.of(Binary.ADD, Binary.SUB, Binary.MUL, Binary.DIV,
                Binary.MAXIMUM, Binary.MINIMUM, Binary.ATAN2, Binary.REMAINDER,
                Binary.FLOOR_DIVIDE)) {
            pairs(cases, op, Tolerance.CLOSE, Values.NORMAL);
            specialPairs(cases, op, Tolerance.CLOSE);
        }
        pairs(cases, Binary.POW, Tolerance.CLOSE, Values.POSITIVE);
        specialPairs(cases, Binary.POW, Tolerance.CLOSE);
    }

    private static void comparisons(List<Case> cases) {
        for (Elementwise op : List.of(Comparison.EQUAL, Comparison.NOT_EQUAL, Comparison.LESS,
                Comparison.LESS_EQUAL, Comparison.GREATER, Comparison.GREATER_EQUAL, Logic.AND,
                Logic.OR, Logic.XOR)) {
            pairs(cases, op, Tolerance.BITS, Values.TIES);
            specialPairs(cases, op, Tolerance.BITS);
        }
        for (Elementwise op : List.of(Comparison.IS_NAN, Comparison.IS_INF, Comparison.IS_FINITE,
                Logic.NOT)) {
            grid(cases, op, Tolerance.BITS, Values.NORMAL);
        }
    }

    /** Conditions and operands differ in type, so that these cases state their types themselves. */
    private static void where(List<Case> cases) {
        long[][][] shapes = {{{0}, {0}, {0}}, {{17}, {17}, {17}}, {{1037}, {1037}, {1037}}, {{4, 1, 17}, {5, 1}, {17}},
            {{}, {33}, {33}}, {{33}, {}, {1}}};
        for (DType t : ConformanceCases.ALL) {
            for (long[][] s : shapes) {
                Case c = Case.of(new Where(), Tolerance.BITS, Operand.of(DType.BOOL, Values.NORMAL, s[0]),
                        Operand.of(t, Values.NORMAL, s[1]), Operand.of(t, Values.NORMAL, s[2]));
                inLayouts(c, Layout.STEPPED, Layout.REVERSED).forEach(cases::add);
            }
            cases.add(Case.of(new Where(), Tolerance.BITS, Operand.of(DType.BOOL, Values.NORMAL, 75),
                    Operand.of(t, Values.SPECIAL, 75), Operand.of(t, Values.SPECIAL, 75)).valuesOnly());
        }
    }

    private static void casts(List<Case> cases, DType target) {
        for (DType source : ConformanceCases.ALL) {
            for (long n : new long[] {0, 1, 17, 1037}) {
                cases.add(Case.of(new Cast(target), Tolerance.BITS, Operand.of(source, Values.NORMAL, n)));
            }
            cases.add(Case.of(new Cast(target), Tolerance.BITS, Operand.of(source, Values.SPECIAL, 75)).valuesOnly());
            inLayouts(Case.of(new Cast(target), Tolerance.BITS, Operand.of(source, Values.NORMAL, 5, 17)),
                    Layout.TRANSPOSED, Layout.STEPPED).forEach(cases::add);
        }
    }

    /** One operand: sizes, layouts, special values. */
    private static void grid(List<Case> cases, Elementwise op, Tolerance tolerance, Values values) {
        for (long n : ConformanceCases.SIZES) {
            cases.add(Case.of(op, tolerance, f32(values, n)));
        }
        cases.add(Case.of(op, tolerance, f32(values)));
        cases.add(Case.of(op, tolerance, f32(values, ConformanceCases.LARGE)).valuesOnly());
        cases.add(Case.of(op, tolerance, f32(Values.SPECIAL, 75)).valuesOnly());
        inLayouts(Case.of(op, tolerance, f32(values, 5, 17)), Layout.TRANSPOSED, Layout.STEPPED, Layout.REVERSED,
                Layout.INNER, Layout.REPEATED).forEach(cases::add);
        cases.add(Case.of(op, tolerance, f32(values, 2, 5, 3, 4).with(Layout.CHANNELS_LAST)));
    }

    /** Two operands: sizes, layouts and broadcasts. */
    private static void pairs(List<Case> cases, Elementwise op, Tolerance tolerance, Values values) {
        for (long n : ConformanceCases.SIZES) {
            cases.add(Case.of(op, tolerance, f32(values, n), f32(values, n)));
        }
        cases.add(Case.of(op, tolerance, f32(values), f32(values)));
        cases.add(Case.of(op, tolerance, f32(values, ConformanceCases.LARGE), f32(values, ConformanceCases.LARGE))
                .valuesOnly());
        cases.add(Case.of(op, tolerance, f32(values, 301, 333), f32(values, 333)).valuesOnly());
        long[][][] broadcasts = {{{33}, {}}, {{}, {33}}, {{33}, {1}}, {{5, 1}, {17}}, {{3, 1, 17}, {5, 1}},
            {{2, 5, 3, 4}, {5, 1, 1}}, {{4, 17}, {17}}, {{4, 17}, {4, 1}}, {{0, 3}, {1, 3}}};
        for (long[][] b : broadcasts) {
            cases.add(Case.of(op, tolerance, f32(values, b[0]), f32(values, b[1])));
        }
        inLayouts(Case.of(op, tolerance, f32(values, 5, 17), f32(values, 5, 17)), Layout.TRANSPOSED, Layout.STEPPED,
                Layout.REVERSED, Layout.INNER, Layout.REPEATED).forEach(cases::add);
        cases.add(Case.of(op, tolerance, f32(values, 2, 5, 3, 4).with(Layout.CHANNELS_LAST),
                f32(values, 2, 5, 3, 4).with(Layout.CHANNELS_LAST)));
        cases.add(Case.of(op, tolerance, f32(values, 2, 5, 3, 4).with(Layout.CHANNELS_LAST),
                f32(values, 2, 5, 3, 4)));
    }

    /** Each special value with each other one. */
    private static void specialPairs(List<Case> cases, Elementwise op, Tolerance tolerance) {
        cases.add(Case.of(op, tolerance, f32(Values.SPECIAL, 25, 1), f32(Values.SPECIAL, 25)).valuesOnly());
    }

    private static Operand f32(Values values, long... shape) {
        return Operand.of(DType.F32, values, shape);
    }
}
