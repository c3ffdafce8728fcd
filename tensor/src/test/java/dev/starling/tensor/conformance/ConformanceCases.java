package dev.starling.tensor.conformance;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Spec;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Op;
import java.util.List;
import java.util.stream.Stream;

/** All cases that every backend must pass. */
final class ConformanceCases {
    static final List<DType> ALL = List.of(DType.values());
    static final List<DType> FLOATING = ALL.stream().filter(DType::isFloating).toList();
    static final List<DType> INDICES = List.of(DType.I64, DType.I32);
    /** Sizes that are empty, single, odd, and around the widths of vectors. */
    static final long[] SIZES = {0, 1, 7, 15, 16, 17, 31, 33, 64, 1037};
    /** A size that several threads share. */
    static final long LARGE = 100_003;
    /** The types in which large cases run: one of each width and kind; the others use the same code. */
    private static final List<DType> LARGE_TYPES = List.of(DType.F32, DType.BF16, DType.I64, DType.U8);

    private ConformanceCases() {
    }

    static Stream<Case> all() {
        return Stream.of(ElementwiseCases.all(), ReductionCases.all(), MovementCases.all(), SelectionCases.all(),
                ContractionCases.all(), ConvolutionCases.all(), PoolingCases.all(), NormalizationCases.all(),
                AttentionCases.all(), RecurrenceCases.all(), CreationCases.all(), UpdateCases.all()).flatMap(s -> s);
    }

    /** Returns whether {@code op} accepts operands like these. */
    static boolean accepts(Op op, List<Operand> operands) {
        try {
            op.infer(operands.stream().map(o -> new Spec(o.dtype(), o.shape(), Device.reference()))
                    .toArray(Spec[]::new));
            return true;
        } catch (TensorException e) {
            if (e.problem() != TensorException.Problem.DTYPE) {
                throw new AssertionError(op + " of " + operands, e);
            }
            return false;
        }
    }

    /** Returns the case in each type that the operation supports, the same for all operands. */
    static Stream<Case> inAllTypes(Case c) {
        return ALL.stream().map(t -> new Case(c.op(), c.operands().stream().map(o -> o.with(t)).toList(),
                c.tolerance(), c.smooth())).filter(k -> accepts(k.on(Device.reference()), k.operands()))
                .filter(k -> LARGE_TYPES.contains(k.dtype()) || k.operands().stream().allMatch(
                        o -> o.shape().count() < LARGE));
    }

    /** Returns the case with each of its operands, one at a time, in each layout. */
    static Stream<Case> inLayouts(Case c, Layout... layouts) {
        Stream.Builder<Case> all = Stream.builder();
        all.add(c);
        for (Layout layout : layouts) {
            for (int i = 0; i < c.operands().size(); i++) {
                List<Operand> operands = new java.util.ArrayList<>(c.operands());
                operands.set(i, operands.get(i).with(layout));
                all.add(new Case(c.op(), operands, c.tolerance(), c.smooth()));
            }
        }
        return all.build();
    }
}
