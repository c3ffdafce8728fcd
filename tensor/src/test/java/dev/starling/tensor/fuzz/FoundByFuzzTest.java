package dev.starling.tensor.fuzz;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Functions;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Activation;
import dev.starling.tensor.op.Backward;
import dev.starling.tensor.op.Contraction;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.Normalization;
import dev.starling.tensor.op.Update;
import java.util.Arrays;
import java.util.List;
import java.util.function.Supplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What the fuzz found and has been mended, on both devices. */
class FoundByFuzzTest {
    private static final double INFINITY = Double.POSITIVE_INFINITY;

    private Scope scope;

    @BeforeEach
    void open() {
        scope = Scope.open();
    }

    @AfterEach
    void close() {
        scope.close();
    }

    private static void onBoth(Runnable body) {
        for (Device device : List.of(Device.cpu(), Device.reference())) {
            Device.with(device, (Supplier<Void>) () -> {
                body.run();
                return null;
            });
        }
    }

    @Test
    void decoupledDecayLeavesTheMomentsAlone() {
        onBoth(() -> {
            Tensor p = Tensor.of(new float[] {Float.NaN, Float.POSITIVE_INFINITY, 1});
            Tensor mean = Tensor.full(DType.F32, 0.25, 3);
            Tensor square = Tensor.ones(3);
            Update adam = new Update.Adam(0.1, 0.9, 0.99, 1e-6, 0, true, 1);
            Tensor.apply(adam, p, Tensor.full(DType.F32, 0.5, 3), mean, square);
            assertArrayEquals(new float[] {0.275f, 0.275f, 0.275f}, mean.toFloats(), 1e-6f);
            assertArrayEquals(new float[] {0.9925f, 0.9925f, 0.9925f}, square.toFloats(), 1e-6f);
            assertTrue(Double.isNaN(p.get(0).item()));
            assertEquals(INFINITY, p.get(1).item());
        });
    }

    @Test
    void denseLayersWithoutOutputsOrInputsHaveGradients() {
        onBoth(() -> {
            for (long[] s : new long[][] {{0, 1}, {1, 0}, {3, 0}, {0, 0}}) {
                Tensor x = Tensor.ones(s[1]);
                Tensor weight = Tensor.ones(s[0], s[1]);
                Tensor y = Functions.linear(x, weight, null);
                Tensor[] gradients = new Contraction.Linear(Epilogue.NONE).vjp(new Backward(new Tensor[] {x, weight},
                        new Tensor[] {y}, new Tensor[] {Tensor.ones(s[0])}, new boolean[] {true, true}));
                assertArrayEquals(new double[(int) s[1]], gradients[0].toDoubles(), s[0] == 0 ? 0 : 3);
                assertEquals(weight.shape(), gradients[1].shape());
            }
        });
    }

    @Test
    void theSlopeOfGeluIsOneAndZeroAtTheEnds() {
        onBoth(() -> assertArrayEquals(new double[] {2, 0, 2, 0},
                Tensor.compute(new Activation.GeluGradient(true), Tensor.of(new double[] {INFINITY, -INFINITY, 1e200,
                    -1e200}), Tensor.full(DType.F64, 2, 4)).toDoubles()));
    }

    /** Between where the exponential of -x overflows and where the result is 0. */
    @Test
    void siluOfNumbersFarBelowZeroIsNotZero() {
        onBoth(() -> {
            double y = Tensor.of(new double[] {-712}).silu().item();
            double exact = -712 * Math.exp(-712 + 50) * Math.exp(-50);
            assertEquals(1, y / exact, 1e-12);
        });
    }

    /** Widths in whole vectors, and in what is left behind them. */
    @Test
    void aGateOfNanIsClosedAndNoGatePassesInfinity() {
        onBoth(() -> {
            for (int c : new int[] {1, 7, 8, 17, 33}) {
                Tensor one = Tensor.ones(c);
                Tensor x = Tensor.ones(4, c);
                Tensor nan = Tensor.full(DType.F32, Double.NaN, 4, c);
                double[] beta = Tensor.apply(new Normalization.BatchNormGradient(Epilogue.RELU), x, x, one, nan, one,
                        one)[2].toDoubles();
                assertArrayEquals(new double[c], beta);
                beta = Tensor.apply(new Normalization.BatchNormGradient(Epilogue.NONE), x.mul(-INFINITY), x, one, nan,
                        one, one)[2].toDoubles();
                assertTrue(Arrays.stream(beta).allMatch(b -> b == -INFINITY));
            }
        });
    }

    @Test
    void anEndBeyondTheTypeIsTheTypesEnd() {
        onBoth(() -> {
            assertArrayEquals(new long[] {Integer.MIN_VALUE, Integer.MIN_VALUE},
                    Tensor.of(new int[] {1, -1}).clamp(-INFINITY, -INFINITY).toLongs());
            assertArrayEquals(new long[] {255, 255}, Tensor.of(new long[] {1, 9}).to(DType.U8).clamp(300, 400)
                    .toLongs());
        });
    }

    @Test
    void dimensionsInTheWrongOrderAreRefused() {
        TensorException e = assertThrows(TensorException.class, () -> Tensor.ones(2, 3, 4).flatten(2, 0));
        assertEquals("flatten", e.op());
    }
}
