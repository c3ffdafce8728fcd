package dev.starling.tensor.conformance;

import static dev.starling.tensor.conformance.ConformanceCases.inLayouts;

import dev.starling.tensor.DType;
import dev.starling.tensor.op.Rule;
import dev.starling.tensor.op.Update;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/** Cases of {@link Update}: all operands are compared afterwards, including those that must not change. */
final class UpdateCases {
    private static final long[][] SHAPES = {{0}, {1}, {17}, {1037}, {5, 17}, {}};

    private UpdateCases() {
    }

    static Stream<Case> all() {
        List<Case> cases = new ArrayList<>();
        for (DType target : ConformanceCases.ALL) {
            for (DType source : ConformanceCases.ALL) {
                assigns(cases, target, source);
            }
        }
        for (DType type : ConformanceCases.FLOATING) {
            for (long[] shape : SHAPES) {
                optimisers(cases, type, shape);
            }
            optimisers(cases, type, 40_003);
        }
        return cases.stream();
    }

    private static void assigns(List<Case> cases, DType target, DType source) {
        for (long[] shape : SHAPES) {
            cases.add(Case.of(new Update.Assign(), Tolerance.BITS, Operand.of(target, Values.NORMAL, shape),
                    Operand.of(source, Values.NORMAL, shape)));
        }
        for (long[] from : new long[][] {{5, 17}, {17}, {5, 1}, {}}) {
            inLayouts(Case.of(new Update.Assign(), Tolerance.BITS, Operand.of(target, Values.NORMAL, 5, 17),
                    Operand.of(source, Values.NORMAL, from)), Layout.TRANSPOSED, Layout.STEPPED, Layout.REVERSED)
                    .forEach(cases::add);
        }
    }

    private static void optimisers(List<Case> cases, DType type, long... shape) {
        Operand x = Operand.of(type, Values.NORMAL, shape);
        Operand square = Operand.of(type, Values.POSITIVE, shape);
        List<Case> dense = new ArrayList<>();
        Tolerance tolerance = Tolerance.CLOSE.cancelling(4);
        dense.add(Case.of(new Update.Blend(0.9, 0.1), tolerance, x, x));
        dense.add(Case.of(new Update.Blend(1, 1), tolerance, x, x));
        dense.add(Case.of(new Update.RunningStatistics(0.1, 1e-3, 1.25), tolerance, x, x, square, square));
        dense.add(Case.of(new Rule.Sgd(0, 0, 0.01, false).step(0.1, 1), tolerance, x, x));
        dense.add(Case.of(new Rule.Sgd(0.9, 0, 0, false).step(0.1, 1), tolerance, x, x, x));
        dense.add(Case.of(new Rule.Sgd(0.9, 0.2, 0.01, false).step(0.1, 1), tolerance, x, x, x));
        dense.add(Case.of(new Rule.Sgd(0.9, 0, 0.01, true).step(0.1, 1), tolerance, x, x, x));
        dense.add(Case.of(new Rule.Adagrad(1e-10, 0, 0).step(0.1, 1), tolerance, x, x, square));
        dense.add(Case.of(new Rule.Adagrad(1e-3, 0.1, 0.5).step(0.1, 1), tolerance, x, x, square));
        dense.add(Case.of(new Rule.Rmsprop(0.99, 1e-8, 0.1, 0, false).step(0.1, 1), tolerance, x, x, square));
        dense.add(Case.of(new Rule.Rmsprop(0.9, 1e-3, 0, 0.8, false).step(0.1, 1), tolerance, x, x, square, x));
        // The gradient alone gives the sign: a sum with the mean may be so close to 0 that rounding decides.
        dense.add(Case.of(new Rule.Lion(0, 0.99, 0.1).step(0.1, 1), tolerance, x, x, x));
        for (boolean decoupled : new boolean[] {false, true}) {
            dense.add(Case.of(new Rule.Adam(0.9, 0.99, 1e-8, 0.1, decoupled).step(1e-2, 1), tolerance, x, x, x,
                    square));
            dense.add(Case.of(new Rule.Adam(0.9, 0.99, 1e-6, 0, decoupled).step(1e-2, 1000), tolerance, x, x, x,
                    square));
        }
        for (Case c : dense) {
            inLayouts(c, shape.length == 2 ? new Layout[] {Layout.TRANSPOSED, Layout.STEPPED} : new Layout[0])
                    .forEach(cases::add);
        }
    }
}
