package dev.starling.tensor.conformance;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.op.Fill;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Random;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import java.util.stream.Stream;

/** Cases of {@link Fill} and {@link Random}, which must give the same bits on every device. */
final class CreationCases {
    /** A seed and a counter of more than 32 bits each. */
    private static final long SEED = 0x1234_5678_9ABC_DEFL;
    private static final long COUNTER = 0xFFFF_FFFEL;

    private CreationCases() {
    }

    static Stream<Case> all() {
        List<Case> cases = new ArrayList<>();
        for (DType type : ConformanceCases.ALL) {
            for (Shape shape : List.of(Shape.of(0), Shape.scalar(), Shape.of(7), Shape.of(16), Shape.of(3, 33),
                    Shape.of(ConformanceCases.LARGE))) {
                fills(cases, type, shape);
                draws(cases, type, shape);
            }
        }
        for (DType type : ConformanceCases.FLOATING) {
            dropouts(cases, type);
        }
        return cases.stream();
    }

    private static void fills(List<Case> cases, DType type, Shape shape) {
        for (double value : new double[] {0, 1, 3, -2.75}) {
            add(cases, Tolerance.BITS, d -> new Fill.Full(new Spec(type, shape, d), value));
        }
        if (shape.rank() == 1) {
            add(cases, Tolerance.EXACT, d -> new Fill.Range(new Spec(type, shape, d), -3, 1));
            add(cases, Tolerance.CLOSE, d -> new Fill.Range(new Spec(type, shape, d), 5, -0.375));
        }
    }

    private static void draws(List<Case> cases, DType type, Shape shape) {
        add(cases, Tolerance.BITS, d -> new Random.Bernoulli(new Spec(type, shape, d), 0.3, SEED, COUNTER));
        if (type.isFloating()) {
            add(cases, Tolerance.BITS, d -> new Random.Uniform(new Spec(type, shape, d), 0, 1, SEED, COUNTER));
            add(cases, Tolerance.BITS, d -> new Random.Uniform(new Spec(type, shape, d), -2.3, 5.1, -7, 0));
            add(cases, Tolerance.BITS, d -> new Random.Normal(new Spec(type, shape, d), 0, 1, SEED, COUNTER));
            add(cases, Tolerance.BITS, d -> new Random.Normal(new Spec(type, shape, d), 2, 0.1, 1, 1L << 40));
        }
        if (type.isInteger()) {
            add(cases, Tolerance.BITS, d -> new Random.Integers(new Spec(type, shape, d), 0, 10, SEED, COUNTER));
            add(cases, Tolerance.BITS, d -> new Random.Integers(new Spec(type, shape, d), -5, (1L << 32) - 5, 3, 3));
        }
    }

    private static void dropouts(List<Case> cases, DType type) {
        for (long[] shape : new long[][] {{0}, {1}, {17}, {1037}, {5, 17}, {2, 3, 5, 4}}) {
            for (Layout layout : List.of(Layout.DENSE, Layout.TRANSPOSED, Layout.STEPPED, Layout.CHANNELS_LAST)) {
                cases.add(Case.of(new Random.Dropout(0.3, SEED, COUNTER), Tolerance.CLOSE,
                        Operand.of(type, Values.NORMAL, shape).with(layout)));
            }
        }
        cases.add(Case.of(new Random.Dropout(0, SEED, COUNTER), Tolerance.CLOSE, Operand.of(type, Values.NORMAL, 33)));
    }

    private static void add(List<Case> cases, Tolerance tolerance, Function<Device, Op> op) {
        cases.add(new Case(op, List.of(), tolerance, false));
    }
}
