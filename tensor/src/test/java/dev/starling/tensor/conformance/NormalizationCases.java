package dev.starling.tensor.conformance;

import static dev.starling.tensor.conformance.ConformanceCases.inAllTypes;
import static dev.starling.tensor.conformance.ConformanceCases.inLayouts;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.op.CrossEntropy;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.Normalization;
import dev.starling.tensor.op.Softmax;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;

/** Cases of {@link Normalization}, {@link Softmax} and {@link CrossEntropy}. */
final class NormalizationCases {
    private static final double EPSILON = 1e-3;
    private static final Tolerance TOLERANCE = Tolerance.sum(16).cancelling(4);

    private NormalizationCases() {
    }

    static Stream<Case> all() {
        List<Case> cases = new ArrayList<>();
        for (Epilogue epilogue : List.of(Epilogue.NONE, Epilogue.RELU)) {
            for (long[] x : new long[][] {{17, 5}, {2, 3, 33}, {2, 16, 5, 4}, {3, 17, 1, 1}, {2, 2, 3, 2, 3},
                {4, 1, 9, 9}}) {
                batchNorm(cases, epilogue, x);
            }
        }
        for (long[][] s : new long[][][] {{{5, 17}, {17}}, {{2, 3, 16}, {16}}, {{4, 3, 5}, {3, 5}}, {{33}, {33}},
            {{0, 7}, {7}}, {{3, 1}, {1}}, {{2, 129}, {129}}}) {
            layerNorm(cases, s[0], s[1]);
        }
        softmax(cases);
        Stream<Case> typed = ConformanceCases.FLOATING.stream().flatMap(NormalizationCases::crossEntropy);
        return Stream.of(cases.stream().flatMap(c -> inAllTypes(c)), cases.stream().flatMap(c -> besideWideWeights(c)),
                typed).flatMap(s -> s);
    }

    /** Returns the case with 16-bit values and f32 weights and statistics, if it has these. */
    private static Stream<Case> besideWideWeights(Case c) {
        List<Integer> narrow = switch (c.on(Device.reference())) {
            case Normalization.BatchNormGradient _ -> List.of(0, 1, 3);
            case Normalization.LayerNormGradient _ -> List.of(0, 1);
            case Normalization _ -> List.of(0);
            default -> List.of();
        };
        return narrow.isEmpty() ? Stream.empty() : Stream.of(DType.BF16, DType.F16).map(type -> {
            List<Operand> operands = new ArrayList<>(c.operands());
            narrow.forEach(i -> operands.set(i, operands.get(i).with(type)));
            return new Case(c.op(), operands, c.tolerance(), c.smooth());
        });
    }

    private static void batchNorm(List<Case> cases, Epilogue epilogue, long... x) {
        Operand channels = f32(Values.NORMAL, x[1]);
        Operand inverse = f32(Values.POSITIVE, x[1]);
        inLayouts(Case.of(new Normalization.BatchNorm(EPSILON, epilogue), TOLERANCE, f32(Values.NORMAL, x), channels,
                channels), Layout.CHANNELS_LAST, Layout.STEPPED, Layout.REVERSED).forEach(cases::add);
        inLayouts(Case.of(new Normalization.BatchNormGradient(epilogue), TOLERANCE.cancelling(8),
                f32(Values.NORMAL, x), f32(Values.NORMAL, x), channels, f32(Values.NORMAL, x), channels, inverse),
                Layout.CHANNELS_LAST, Layout.STEPPED).forEach(cases::add);
    }

    private static void layerNorm(List<Case> cases, long[] x, long[] inner) {
        long[] rows = Arrays.copyOf(x, x.length - inner.length);
        Operand weights = f32(Values.NORMAL, inner);
        Case forward = Case.of(new Normalization.LayerNorm(EPSILON), TOLERANCE, f32(Values.NORMAL, x), weights,
                weights);
        inLayouts(forward, Layout.TRANSPOSED, Layout.STEPPED, Layout.INNER).forEach(cases::add);
        inLayouts(Case.of(new Normalization.LayerNormGradient(), TOLERANCE.cancelling(8), f32(Values.NORMAL, x),
                f32(Values.NORMAL, x), weights, f32(Values.NORMAL, rows), f32(Values.POSITIVE, rows)),
                Layout.TRANSPOSED, Layout.STEPPED).forEach(cases::add);
    }

    private static void softmax(List<Case> cases) {
        long[][] shapes = {{1}, {17}, {5, 33}, {3, 16, 5}, {0, 4}, {4, 0}, {2, 1037}};
        for (long[] x : shapes) {
            for (int axis = 0; axis < x.length; axis++) {
                for (Softmax op : List.of(new Softmax.Exponentials(axis), new Softmax.Logarithms(axis))) {
                    inLayouts(Case.of(op, Tolerance.CLOSE.cancelling(4), f32(Values.NORMAL, x)), Layout.TRANSPOSED,
                            Layout.STEPPED, Layout.REVERSED).forEach(cases::add);
                }
                for (Softmax op : List.of(new Softmax.ExponentialsGradient(axis),
                        new Softmax.LogarithmsGradient(axis))) {
                    inLayouts(Case.of(op, Tolerance.sum(x[axis]).cancelling(8), f32(Values.UNIT, x),
                            f32(Values.NORMAL, x)), Layout.TRANSPOSED, Layout.STEPPED).forEach(cases::add);
                }
            }
        }
        for (Softmax op : List.of(new Softmax.Exponentials(1), new Softmax.Logarithms(1))) {
            cases.add(Case.of(op, Tolerance.CLOSE.cancelling(400), f32(Values.SPECIAL, 15, 5)).valuesOnly());
            cases.add(Case.of(op, Tolerance.CLOSE.cancelling(4), f32(Values.NORMAL, 129, 301)).valuesOnly());
        }
    }

    private static Stream<Case> crossEntropy(DType type) {
        List<Case> cases = new ArrayList<>();
        DType wide = type.bytes() == 2 ? DType.F32 : type;
        double[] target = {3, 0, -100, 16, 7};
        for (double smoothing : new double[] {0, 0.1}) {
            for (DType index : ConformanceCases.INDICES) {
                Operand classes = Operand.literal(index, target, 5);
                inLayouts(Case.of(new CrossEntropy.Loss(smoothing, -100), Tolerance.CLOSE.cancelling(4),
                        Operand.of(type, Values.NORMAL, 5, 17), classes), Layout.TRANSPOSED, Layout.STEPPED)
                        .forEach(cases::add);
                inLayouts(Case.of(new CrossEntropy.Gradient(smoothing, -100), Tolerance.CLOSE.cancelling(4),
                        Operand.of(wide, Values.NORMAL, 5), Operand.of(type, Values.NORMAL, 5, 17),
                        Operand.of(wide, Values.POSITIVE, 5, 2), classes),
                        Layout.TRANSPOSED, Layout.STEPPED).forEach(cases::add);
            }
        }
        cases.add(Case.of(new CrossEntropy.Loss(0, -1), Tolerance.CLOSE.cancelling(4),
                Operand.of(type, Values.NORMAL, 0, 5), Operand.literal(DType.I64, new double[0], 0)));
        cases.add(Case.of(new CrossEntropy.Loss(0, -1), Tolerance.CLOSE.cancelling(4),
                Operand.of(type, Values.NORMAL, 1, 1), Operand.literal(DType.I64, new double[1], 1)));
        return cases.stream();
    }

    private static Operand f32(Values values, long... shape) {
        return Operand.of(DType.F32, values, shape);
    }
}
