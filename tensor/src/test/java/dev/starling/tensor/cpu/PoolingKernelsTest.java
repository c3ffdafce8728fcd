package dev.starling.tensor.cpu;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.cpu.rows.PoolRows;
import dev.starling.tensor.cpu.rows.RowLoops;
import dev.starling.tensor.op.Pooling;
import dev.starling.tensor.op.Pooling.Window;
import dev.starling.tensor.spi.ChannelsLast;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

class PoolingKernelsTest {
    /** A window and the shape of its input. */
    record Case(Window window, long... shape) { }

    private Scope scope;

    @BeforeEach
    void open() {
        scope = Scope.open();
    }

    @AfterEach
    void close() {
        scope.close();
    }

    static Stream<Case> cases() {
        Window even = Window.of(2, 2, 2, 0);
        Window dilated = new Window(new int[] {2, 3}, new int[] {1, 2}, new int[] {0, 1}, new int[] {2, 1}, false);
        Window ceiled = new Window(new int[] {3, 2}, new int[] {2, 3}, new int[] {1, 0}, new int[] {1, 1}, true);
        Window sparse = new Window(new int[] {1, 2}, new int[] {3, 4}, new int[2], new int[] {1, 1}, false);
        return Stream.of(new Case(even, 2, 1, 2, 2), new Case(even, 3, 15, 6, 8), new Case(even, 2, 16, 5, 7),
                new Case(even, 1, 17, 4, 4), new Case(even, 1, 32, 8, 6), new Case(even, 2, 67, 3, 3),
                new Case(even, 5, 48, 16, 16), new Case(Window.of(2, 3, 2, 1), 2, 19, 9, 8),
                new Case(Window.of(2, 3, 1, 1), 2, 16, 5, 5), new Case(Window.of(2, 5, 2, 2), 1, 3, 4, 11),
                new Case(Window.of(1, 4, 3, 2), 3, 33, 14), new Case(Window.of(1, 1, 1, 0), 2, 5, 3),
                new Case(Window.of(3, 2, 2, 0), 2, 18, 4, 4, 6), new Case(Window.of(3, 3, 2, 1), 1, 7, 5, 4, 6),
                new Case(dilated, 2, 20, 7, 9), new Case(ceiled, 2, 18, 8, 7), new Case(sparse, 2, 16, 8, 11),
                new Case(even, 1, 3, 2, 1040), new Case(Window.of(2, 3, 1, 1), 1, 2, 3, 530),
                new Case(Window.of(2, 9, 1, 4), 1, 3, 9, 10));
    }

    @ParameterizedTest
    @MethodSource("cases")
    void agreesWithTheReference(Case c) {
        for (PoolRows rows : RowLoops.all().stream().map(RowLoops::pool).toList()) {
            Oracle.Kernel kernel = (op, in, out) -> PoolingKernels.run((Pooling) op, in, out, rows);
            Shape shape = Shape.of(c.shape);
            for (Tensor x : Oracle.layouts(Oracle.random(7, c.shape))) {
                Tensor[] y = Oracle.check(kernel, new Pooling.MaxPool(c.window), 0, x);
                Tensor g = Oracle.random(8, y[0].shape().dims());
                for (Tensor grad : Oracle.layouts(g)) {
                    Oracle.check(kernel, new Pooling.MaxPoolGradient(c.window, shape), 1e-6, grad, y[1]);
                    Oracle.check(kernel, new Pooling.AvgPoolGradient(c.window, true, shape), 1e-6, grad);
                    Oracle.check(kernel, new Pooling.AvgPoolGradient(c.window, false, shape), 1e-6, grad);
                }
                Oracle.check(kernel, new Pooling.MaxPoolGradient(c.window, shape), 1e-6, g, y[1].contiguous());
                Oracle.check(kernel, new Pooling.AvgPool(c.window, true), 1e-6, x);
                Oracle.check(kernel, new Pooling.AvgPool(c.window, false), 1e-6, x);
            }
            Oracle.check(kernel, new Pooling.MaxPool(c.window), 0, Oracle.withSpecials(Oracle.random(9, c.shape)));
        }
    }

    /** As a single sum in f32, the mean of so many equal elements would be 0.06% too large. */
    @Test
    void averagesLargeWindowsPrecisely() {
        Tensor x = Tensor.full(DType.F32, 0.1, 1, 2, 256, 256);
        Pooling op = new Pooling.AvgPool(Window.of(2, 256, 256, 0), true);
        for (PoolRows rows : RowLoops.all().stream().map(RowLoops::pool).toList()) {
            Tensor[] y = PoolingKernels.run(op, new Tensor[] {x}, op.infer(x.spec()), rows);
            assertThat(y[0].toDoubles()).containsExactly(new double[] {0.1, 0.1}, within(1e-5));
        }
    }

    @Test
    void keepsChannelsLast() {
        Tensor x = Oracle.random(1, 2, 5, 6, 6);
        Pooling op = new Pooling.MaxPool(Window.of(2, 2, 2, 0));
        for (Tensor y : PoolingKernels.run(op, new Tensor[] {x}, op.infer(x.spec()))) {
            assertThat(ChannelsLast.holds(y)).isTrue();
        }
    }

    @Test
    void choosesTheFirstOfEqualElementsAndPropagatesNan() {
        float nan = Float.NaN;
        Tensor x = Tensor.of(new float[] {1, 1, 3, nan, 1, 0, nan, 9}, 1, 1, 2, 4);
        Tensor[] y = Tensor.apply(new Pooling.MaxPool(Window.of(2, 2, 2, 0)), x);
        assertThat(y[0].toFloats()).containsExactly(1, nan);
        assertThat(y[1].toLongs()).containsExactly(0, 3);
    }

    @Test
    void reportsAnIndexOutsideOfThePlane() {
        Tensor g = Oracle.random(1, 1, 1, 1, 1);
        Tensor index = Tensor.of(new int[] {4}, 1, 1, 1, 1);
        Pooling op = new Pooling.MaxPoolGradient(Window.of(2, 2, 2, 0), Shape.of(1, 1, 2, 2));
        assertThatThrownBy(() -> Tensor.apply(op, g, index)).isInstanceOfSatisfying(TensorException.class,
                e -> assertThat(e.problem()).isEqualTo(TensorException.Problem.INDEX));
    }

    @Test
    void refusesChannelsOfMorePixelsThanIntegersNumber() {
        Pooling op = new Pooling.AvgPool(Window.of(2, 2, 2, 0), true);
        assertThatThrownBy(() -> op.infer(new Spec(DType.F32, Shape.of(1, 1, 65_536, 32_770), Device.cpu())))
                .isInstanceOf(TensorException.class).hasMessageContaining("fewer than 2^31 pixels");
        assertThat(op.infer(new Spec(DType.F32, Shape.of(1, 1, 65_536, 32_766), Device.cpu()))).hasSize(1);
    }

    @Test
    void leavesOtherTypesAndEmptyTensorsToTheReference() {
        Pooling op = new Pooling.MaxPool(Window.of(1, 1, 1, 0));
        for (Tensor x : List.of(Tensor.of(new double[] {1, 2}, 1, 1, 2), Tensor.zeros(0, 3, 4))) {
            Spec[] outputs = op.infer(x.spec());
            assertThat(PoolingKernels.run(op, new Tensor[] {x}, outputs)).isNull();
            assertThat(Tensor.apply(op, x)[0].spec()).isEqualTo(outputs[0]);
        }
    }
}
