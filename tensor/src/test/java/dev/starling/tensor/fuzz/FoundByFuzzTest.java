package dev.starling.tensor.fuzz;

import static org.assertj.core.api.Assertions.assertThat;
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
import dev.starling.tensor.op.Recurrence;
import dev.starling.tensor.op.Rule;
import dev.starling.tensor.op.Update;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Supplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Regression tests of defects that the fuzz tests found, on both devices. */
class FoundByFuzzTest {
    /** Of integers between two numbers of 8 bits, f32 is the middle. */
    @Test
    void integersAreRoundedOnceTo16Bits() {
        for (Device device : List.of(Device.cpu(), Device.reference())) {
            for (DType type : List.of(DType.I32, DType.I64)) {
                Tensor x = Tensor.of(new long[] {16842753, 1077936129, -16842753}, 3).to(type).to(device);
                assertThat(x.to(DType.BF16).toDoubles()).containsExactly(16908288, 1082130432, -16908288);
            }
        }
    }

    @Test
    void boundedFunctionsKeepTheirBounds() {
        Tensor x = Tensor.linspace(-12, 12, 20_001);
        assertThat(x.tanh().abs().max().item()).isEqualTo(1);
        assertThat(x.erf().abs().max().item()).isEqualTo(1);
        Tensor left = x.narrow(0, 0, 10_000);
        assertThat(left.gelu().max().item()).isLessThanOrEqualTo(0);
    }

    @Test
    void zerosHaveTheSignOfTheReference() {
        for (Device device : List.of(Device.cpu(), Device.reference())) {
            Tensor a = Tensor.of(new float[] {-0f, -1, 0, 1}, 4).to(device);
            Tensor b = Tensor.of(new float[] {2, Float.NEGATIVE_INFINITY, -3, 2}, 4).to(device);
            assertThat(a.floorDivide(b).toDoubles()).containsExactly(-0d, 0, -0d, 0);
            assertThat(a.clamp(0, 1).toDoubles()).containsExactly(-0d, 0, 0, 1);
        }
    }

    /** The elements of a reversed view are behind its first one. */
    @Test
    void updatesReadTheOldElementsOfAReversedView() {
        Tensor x = Tensor.arange(1001).to(DType.F32);
        Tensor.apply(new Update.Blend(1, 1), x.narrow(0, 0, 1000), x.narrow(0, 1, 1000).flip(0));
        assertThat(x.narrow(0, 0, 1000).toFloats()).containsOnly(1000);
    }

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
            Update adam = new Rule.Adam(0.9, 0.99, 1e-6, 0, true).step(0.1, 1);
            Tensor.apply(adam, p, Tensor.full(DType.F32, 0.5, 3), mean, square);
            assertArrayEquals(new float[] {0.275f, 0.275f, 0.275f}, mean.toFloats(), 1e-6f);
            assertArrayEquals(new float[] {0.9925f, 0.9925f, 0.9925f}, square.toFloats(), 1e-6f);
            assertTrue(Double.isNaN(p.get(0).item()));
            assertEquals(INFINITY, p.get(1).item());
        });
    }

    @Test
    void anInfiniteRateIsRefused() {
        onBoth(() -> {
            for (double bad : new double[] {INFINITY, -INFINITY, Double.NaN}) {
                Tensor p = Tensor.ones(3);
                Tensor state = Tensor.zeros(3);
                assertThrows(TensorException.class, () -> Tensor.apply(new Rule.Sgd(0.9, 0.1, 0, false).step(bad, 1), p,
                        Tensor.ones(3), state));
                Update adam = new Rule.Adam(0.9, 0.99, 1e-6, 0, true).step(bad, 1);
                assertThrows(TensorException.class, () -> Tensor.apply(adam, p, Tensor.ones(3), state, state));
                assertThrows(TensorException.class, () -> Tensor.apply(new Update.Blend(bad, 1), p, Tensor.ones(3)));
                assertArrayEquals(new float[] {1, 1, 1}, p.toFloats());
            }
        });
    }

    /** Values beyond a sequence's end do not affect gradients, nor does a last state that overflows. */
    @Test
    void recurrentWeightGradientsIgnoreValuesThatNoStepReads() {
        List<Recurrence.Forward> layers = List.of(new Recurrence.Rnn(true, false, true),
                new Recurrence.Rnn(true, true, true), new Recurrence.Gru(false, true),
                new Recurrence.Gru(true, true), new Recurrence.Lstm(false, true), new Recurrence.Lstm(true, true));
        for (Recurrence.Forward layer : layers) {
            assertArrayEquals(recurrentGradients(layer, 0), recurrentGradients(layer, Double.NaN));
            assertArrayEquals(recurrentGradients(layer, 0), recurrentGradients(layer, INFINITY));
        }
    }

    private static double[] recurrentGradients(Recurrence.Forward layer, double padding) {
        boolean two = layer.cell() == Recurrence.Cell.LSTM;
        int gates = layer.cell().gates();
        Tensor x = Tensor.concat(0, Tensor.ones(3, 1, 3), Tensor.full(DType.F32, padding, 2, 1, 3));
        Tensor h = Tensor.ones(1, 2);
        List<Tensor> in = new ArrayList<>(List.of(x, h, Tensor.ones(gates * 2, 3), Tensor.ones(gates * 2, 2),
                Tensor.of(new long[] {3})));
        List<Tensor> slopes = new ArrayList<>(List.of(Tensor.ones(5, 1, 2), h));
        if (two) {
            in.add(2, h);
            slopes.add(h);
        }
        Tensor[] out = Tensor.apply(layer, in.toArray(Tensor[]::new));
        if (padding == INFINITY && layer.cell() == Recurrence.Cell.RELU && !layer.reverse()) {
            Tensor.apply(new Update.Assign(), out[0].get(2), Tensor.full(DType.F32, padding));
        }
        slopes.addAll(List.of(out[0], out[out.length - 1]));
        slopes.addAll(in);
        Tensor[] gradients = Tensor.apply(layer.gradient(true), slopes.toArray(Tensor[]::new));
        int w = two ? 3 : 2;
        return Tensor.concat(0, gradients[w].reshape(-1), gradients[w + 1].reshape(-1)).toDoubles();
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
                Tensor.compute(Activation.GELU_TANH_GRADIENT, Tensor.of(new double[] {INFINITY, -INFINITY, 1e200,
                    -1e200}), Tensor.full(DType.F64, 2, 4)).toDoubles()));
    }

    /** Covers the range between the overflow of the exponential of -x and results of 0. */
    @Test
    void siluOfNumbersFarBelowZeroIsNotZero() {
        onBoth(() -> {
            double y = Tensor.of(new double[] {-712}).silu().item();
            double exact = -712 * Math.exp(-712 + 50) * Math.exp(-50);
            assertEquals(1, y / exact, 1e-12);
        });
    }

    /** Widths that are whole vectors, and widths with a remainder. */
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
    void clampsABoundBeyondTheTypeToTheType() {
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
