package dev.starling.tensor.conformance;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Cast;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Reduction;
import dev.starling.tensor.op.Sorting;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/**
 * The gradients that operations define, on the reference device in f64, against methods that do not share their
 * formulas.
 */
class GradientDefinitionTest {
    private static final double STEP = 1e-5;
    private static final long MAX_ELEMENTS = 2000;

    private static Stream<Case> cases() {
        return ConformanceCases.all().filter(c -> c.hasGradient() && c.dtype() == DType.F64 && c.operands().stream()
                .allMatch(o -> o.shape().count() <= MAX_ELEMENTS));
    }

    /** The slope along a random direction is the inner product of direction and gradient. */
    @TestFactory
    Stream<DynamicTest> agreeWithFiniteDifferences() {
        return Conformance.grouped(cases().filter(GradientDefinitionTest::isSmooth), "slope of ",
                GradientDefinitionTest::slopes);
    }

    /**
     * Returns whether there is a slope; there is none where results are rounded to narrower types or equal elements
     * compete.
     */
    private static boolean isSmooth(Case c) {
        Operand x = c.operands().getFirst();
        return switch (c.on(Device.reference())) {
            case Cast cast -> cast.target() == DType.F64;
            case Reduction r -> x.layout() != Layout.REPEATED && x.values() != Values.TIES;
            case Sorting s -> x.layout() != Layout.REPEATED && x.values() != Values.TIES;
            default -> true;
        };
    }

    /** Fused gradients equal those composed of differentiable operations. */
    @TestFactory
    Stream<DynamicTest> agreeWhenComposed() {
        return Conformance.grouped(cases(), "composed gradient of ", c -> Conformance.difference(
                new Tolerance(1000, 10_000), c.gradients(Device.reference(), true),
                c.gradients(Device.reference(), false)));
    }

    private static String slopes(Case c) {
        Tensor[] gradients = c.gradients(Device.reference(), false);
        for (int i = 0; i < gradients.length; i++) {
            if (gradients[i] == null || gradients[i].count() == 0) {
                continue;
            }
            Tensor x = c.inputs(Device.reference())[i].contiguous();
            Tensor direction = Operand.of(DType.F64, Values.NORMAL, x.shape().dims()).on(Device.reference(), 50 + i);
            double expected = (along(c, i, x.add(direction.mul(STEP))) - along(c, i, x.sub(direction.mul(STEP))))
                    / (2 * STEP);
            double actual = gradients[i].mul(direction).sum().item();
            double scale = 1 + gradients[i].mul(direction).abs().sum().item();
            if (!(Math.abs(actual - expected) <= 1e-6 * scale)) {
                return "gradient of operand " + i + " gives the slope " + actual + " instead of " + expected;
            }
        }
        return null;
    }

    /** Returns the inner product of the outputs with fixed gradients, where operand {@code i} is {@code x}. */
    private static double along(Case c, int i, Tensor x) {
        Tensor[] inputs = c.inputs(Device.reference());
        inputs[i] = x;
        Op op = c.on(Device.reference());
        Tensor[] outputs = Tensor.apply(op, inputs);
        Tensor[] incoming = Case.incoming(op, outputs);
        double sum = 0;
        for (int k = 0; k < outputs.length; k++) {
            sum += incoming[k] == null ? 0 : outputs[k].mul(incoming[k]).sum().item();
        }
        return sum;
    }
}
