package dev.starling.tensor.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.jit.WarmKernels;
import dev.starling.tensor.op.FormulaOp;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Rule;
import dev.starling.tensor.op.Update;
import java.util.Arrays;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** The CPU against the reference, the reference against known values, and the suite against itself. */
class ConformanceTest {
    /** Most cases are too short to reach the vector loops of kernels that warm up. */
    @BeforeAll
    static void useVectorsImmediately() {
        WarmKernels.start(true);
    }

    @AfterAll
    static void warmUpAsUsual() {
        WarmKernels.start(false);
    }

    @TestFactory
    Stream<DynamicTest> cpuConforms() {
        return Conformance.of(Device.cpu());
    }

    @TestFactory
    Stream<DynamicTest> referenceGivesKnownValues() {
        return Stream.concat(KnownValues.on(Device.reference()), BadIndices.on(Device.reference()));
    }

    @Test
    void everyOperationHasCases() {
        assertEquals(names(definitions()),
                names(ConformanceCases.all().map(c -> definition(c.on(Device.reference())))));
    }

    private static Set<String> names(Stream<?> definitions) {
        return definitions.map(Object::toString).collect(Collectors.toCollection(TreeSet::new));
    }

    @Test
    void everyDifferentiableOperationHasGradientCases() {
        Set<String> covered = names(ConformanceCases.all().filter(Case::hasGradient)
                .map(c -> definition(c.on(Device.reference()))));
        Set<String> differentiable = names(ConformanceCases.all().map(c -> c.on(Device.reference()))
                .filter(Op::differentiable).map(ConformanceTest::definition));
        assertEquals(differentiable, covered);
    }

    @Test
    void onlyNanPassesForNan() {
        Device.with(Device.reference(), () -> {
            Tensor nan = Tensor.of(new double[] {Double.NaN});
            Tensor one = Tensor.of(new double[] {1});
            Tensor infinity = Tensor.of(new double[] {Double.POSITIVE_INFINITY});
            Tolerance wide = new Tolerance(1e30, 1e30);
            for (Tolerance tolerance : new Tolerance[] {Tolerance.BITS, Tolerance.EXACT, wide}) {
                assertNull(tolerance.difference(nan, nan));
                assertNull(tolerance.difference(infinity, infinity));
                assertNotNull(tolerance.difference(nan, one));
                assertNotNull(tolerance.difference(one, nan));
                assertNotNull(tolerance.difference(nan, infinity));
                assertNotNull(tolerance.difference(one, infinity));
                assertNotNull(tolerance.difference(infinity, one));
                assertNotNull(tolerance.difference(infinity, infinity.neg()));
            }
            assertNotNull(wide.difference(one, one.to(DType.F32)));
            assertNotNull(wide.difference(one, one.reshape(1, 1)));
            return null;
        });
    }

    /**
     * Returns what defines operations: fields of constants, and records of operations and, in place of the step of a
     * rule, of rules.
     */
    static Stream<Object> definitions() {
        Stream<Class<?>> records = Stream.concat(leaves(Op.class).filter(type -> type != Update.Step.class),
                leaves(Rule.class));
        return Stream.concat(FormulaOps.fields().values().stream(), records);
    }

    /** Returns the field or record that defines an operation. */
    static Object definition(Op op) {
        return op instanceof FormulaOp constant ? FormulaOps.fields().get(constant)
                : op instanceof Update.Step step ? step.rule().getClass() : op.getClass();
    }

    /** Returns the leaf records below a sealed interface. */
    static Stream<Class<?>> leaves(Class<?> type) {
        return type == FormulaOp.class ? Stream.empty() : type.isRecord() ? Stream.of(type)
                : Arrays.stream(type.getPermittedSubclasses()).flatMap(ConformanceTest::leaves);
    }
}
