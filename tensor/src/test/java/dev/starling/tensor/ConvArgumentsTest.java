package dev.starling.tensor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.tensor.op.Convolution;
import dev.starling.tensor.op.Convolution.Geometry;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.Pooling.Window;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Supplier;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;

/** Strides, paddings, dilations, groups and kernels of any size give a correct result or a typed error. */
class ConvArgumentsTest {
    private static final int[] EXTREMES = {Integer.MIN_VALUE, -1, 0, 1, 2, 3, 1 << 20, 1 << 29, 1 << 30,
        (1 << 30) + 1, Integer.MAX_VALUE};
    private static final long MAX_ELEMENTS = 1 << 20;

    @Test
    void convolvesOrRefusesExtremeGeometries() {
        int right = 0;
        for (int stride : EXTREMES) {
            for (int padding : EXTREMES) {
                for (int dilation : EXTREMES) {
                    Geometry geometry = Geometry.of(1, stride, padding, dilation, 1);
                    Shape y = output(geometry, Shape.of(2, 3, 5), Shape.of(4, 3, 3));
                    if (y != null && y.count() < MAX_ELEMENTS) {
                        check(geometry, y);
                        right++;
                    }
                }
            }
        }
        assertThat(right).isGreaterThan(30);
    }

    private static Shape output(Geometry geometry, Shape x, Shape weight) {
        try {
            return new Convolution.Conv(geometry, Epilogue.NONE).infer(new Spec(DType.F32, x, Device.cpu()),
                    new Spec(DType.F32, weight, Device.cpu()))[0].shape();
        } catch (TensorException e) {
            assertThat(e).hasMessageStartingWith("conv: ").hasMessageContaining("f32[2, 3, 5]@cpu");
            assertThat(e.remedy()).isNotEmpty();
            return null;
        }
    }

    private static void check(Geometry geometry, Shape y) {
        Tensor x = Tensor.arange(0, 30, 1).reshape(2, 3, 5);
        Tensor w = Tensor.arange(-18, 18, 1).reshape(4, 3, 3);
        Tensor b = Tensor.arange(0, 4, 1);
        Tensor g = Tensor.arange(0, y.count(), 1).mul(0.5).floor().reshape(y);
        List<Convolution> ops = List.of(new Convolution.Conv(geometry, Epilogue.RELU),
                new Convolution.ConvInputGradient(geometry, x.shape()),
                new Convolution.ConvWeightGradient(geometry, w.shape(), true));
        List<Tensor[]> operands = List.of(new Tensor[] {x, w, b}, new Tensor[] {g, w}, new Tensor[] {x, g});
        for (int i = 0; i < ops.size(); i++) {
            Tensor[] actual = Tensor.apply(ops.get(i), operands.get(i));
            Tensor[] onReference = operands.get(i).clone();
            for (int k = 0; k < onReference.length; k++) {
                onReference[k] = onReference[k].to(Device.reference());
            }
            Tensor[] expected = Tensor.apply(ops.get(i), onReference);
            for (int k = 0; k < actual.length; k++) {
                assertThat(actual[k].toDoubles()).as("%s %s", ops.get(i), geometry)
                        .containsExactly(expected[k].toDoubles());
            }
        }
    }

    @Test
    void refusesGroupsThatDoNotDivide() {
        for (int groups : new int[] {Integer.MIN_VALUE, -1, 0, 3, 1 << 30, Integer.MAX_VALUE}) {
            assertRefused("conv: ", () -> Convolutions.conv1d(ones(1, 4, 5), ones(4, 4, 3), null, 1, 1, 1, groups));
            assertRefused("conv", () -> Convolutions.convTranspose1d(ones(1, 4, 5), ones(4, 4, 3), null, 1, 1, 0, 1,
                    groups));
        }
    }

    @Test
    void refusesGeometriesOfOtherRanks() {
        Geometry uneven = new Geometry(new int[] {1, 1}, new int[] {0}, new int[] {1, 1}, 1);
        Geometry four = new Geometry(new int[] {1, 1, 1, 1}, new int[4], new int[] {1, 1, 1, 1}, 1);
        Geometry none = new Geometry(new int[0], new int[0], new int[0], 1);
        assertRefused("convolution: the number of spatial dimensions", () -> Geometry.of(4, 1, 0, 1, 1));
        assertRefused("convolution: the number of spatial dimensions", () -> Geometry.of(-1, 1, 0, 1, 1));
        assertRefused("conv: needs", () -> Convolutions.conv(ones(1, 1, 2, 2), ones(1, 1, 2, 2), null, uneven,
                Epilogue.NONE));
        assertRefused("conv: needs", () -> Convolutions.conv(ones(1, 1, 2, 2, 2, 2), ones(1, 1, 2, 2, 2, 2), null,
                four, Epilogue.NONE));
        assertRefused("conv: needs", () -> Convolutions.conv(ones(1, 1), ones(1, 1), null, none, Epilogue.NONE));
        assertRefused("convTranspose: needs", () -> Convolutions.convTranspose(ones(1, 1, 2, 2), ones(1, 1, 2, 2),
                null, uneven, 0, 0));
    }

    @Test
    void geometriesKeepNoArrayOfTheirCaller() {
        int[] values = {1, 1};
        Geometry geometry = new Geometry(values, values, values, 1);
        Window window = new Window(values, values, values, values, false);
        values[0] = 2;
        assertThat(geometry).isEqualTo(Geometry.of(2, 1, 1, 1, 1));
        assertThat(window).isEqualTo(Window.of(2, 1, 1, 1));
    }

    @Test
    void transposesOrRefusesExtremeGeometries() {
        for (int stride : EXTREMES) {
            for (int padding : EXTREMES) {
                for (int outputPadding : EXTREMES) {
                    long size = stride - 2L * padding + 3 + outputPadding;
                    if (size >= MAX_ELEMENTS && size <= Integer.MAX_VALUE && stride > 0 && padding >= 0) {
                        continue;
                    }
                    assertRefusedOrSmall(() -> Convolutions.convTranspose1d(ones(1, 1, 2), ones(1, 1, 3), null, stride,
                            padding, outputPadding, 1, 1));
                }
            }
        }
        assertRefused("convTranspose: 0 <= output padding < stride", () -> Convolutions.convTranspose1d(ones(1, 1, 2),
                ones(1, 1, 3), null, 2, 0, 2, 1, 1));
        assertRefused("convTranspose: the output's size must be", () -> Convolutions.convTranspose2d(ones(1, 1, 3, 3),
                ones(1, 1, 3, 3), null, Integer.MAX_VALUE, 0, 0, 1, 1));
    }

    @Test
    void poolsOrRefusesExtremeWindows() {
        for (int kernel : EXTREMES) {
            for (int stride : EXTREMES) {
                for (int padding : EXTREMES) {
                    Window window = Window.of(2, kernel, stride, padding);
                    assertRefusedOrSmall(() -> Pools.maxPool(ones(1, 2, 5, 4), window));
                    assertRefusedOrSmall(() -> Pools.avgPool(ones(1, 2, 5, 4), window, true));
                }
            }
        }
        Window wide = new Window(new int[] {1 << 20}, new int[] {Integer.MAX_VALUE}, new int[] {1 << 19}, new int[] {1},
                false);
        assertThat(Pools.maxPool(Tensor.arange(0, 10, 1).reshape(1, 2, 5), wide).toDoubles()).containsExactly(4, 9);
        Window skip = new Window(new int[] {1}, new int[] {Integer.MAX_VALUE}, new int[] {0}, new int[] {1}, false);
        Convolutions.conv1d(ones(1, 1, 5), ones(1, 1, 3), null, Integer.MAX_VALUE, 0, 1, 1);
        Tensor gradient = Tensor.compute(new dev.starling.tensor.op.Pooling.AvgPoolGradient(skip, true,
                Shape.of(1, 1, 5)), ones(1, 1, 1));
        assertThat(gradient.toDoubles()).containsExactly(1, 0, 0, 0, 0);
    }

    @Test
    void refusesAdaptiveSizesThatAreOutOfProportion() {
        Tensor x = ones(1, 2, 5, 4);
        for (int size : new int[] {Integer.MIN_VALUE, -1, 0, 1 << 20, 1 << 30, Integer.MAX_VALUE}) {
            assertRefused("adaptiveAvgPool: ", () -> Pools.adaptiveAvgPool(x, size, 1));
            assertRefused("adaptiveMaxPool: ", () -> Pools.adaptiveMaxPool(x, 1, size));
        }
        assertThat(Pools.adaptiveMaxPool(x, 7, 9).shape()).isEqualTo(Shape.of(1, 2, 7, 9));
        assertThat(Pools.adaptiveAvgPool(x, 7, 9).shape()).isEqualTo(Shape.of(1, 2, 7, 9));
    }

    private static Tensor ones(long... dims) {
        return Tensor.ones(dims);
    }

    private static void assertRefused(String message, ThrowingCallable call) {
        assertThatThrownBy(call).isInstanceOf(TensorException.class).hasMessageStartingWith(message);
    }

    private static void assertRefusedOrSmall(Supplier<Tensor> call) {
        List<Tensor> results = new ArrayList<>();
        try (Scope _ = Scope.open()) {
            results.add(call.get());
            assertThat(results.getFirst().count()).isLessThan(MAX_ELEMENTS);
            assertThat(Arrays.stream(results.getFirst().toDoubles()).allMatch(v -> v >= 0 && v <= 3)).isTrue();
        } catch (TensorException e) {
            assertThat(e.remedy()).isNotEmpty();
        }
    }
}
