package dev.starling.tensor.op;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Convolution.Geometry;
import java.util.Arrays;
import org.junit.jupiter.api.Test;

class FlopsTest {
    private static Spec spec(long... dims) {
        return new Spec(DType.F32, Shape.of(dims), Device.cpu());
    }

    private static long of(Op op, Spec... in) {
        return Flops.of(op, in, op.infer(in));
    }

    @Test
    void productsAndTheirGradients() {
        assertThat(of(new Contraction.MatMul(), spec(7, 2, 3), spec(3, 5))).isEqualTo(2 * 7 * 2 * 3 * 5);
        assertThat(of(new Contraction.Linear(Epilogue.NONE), spec(2, 3), spec(5, 3), spec(5)))
                .isEqualTo(2 * 2 * 3 * 5 + 2 * 5);
        assertThat(of(new Contraction.LinearWeightGradient(), spec(2, 5), spec(2, 3)))
                .isEqualTo(2 * 2 * 3 * 5 + 2 * 5);
        assertThat(of(new Contraction.LinearInputGradient(Epilogue.RELU), spec(2, 5), spec(5, 3), spec(2, 3)))
                .isEqualTo(2 * 2 * 3 * 5 + 2 * 3);
    }

    @Test
    void refusesOperandsAndResultsOfOtherOperations() {
        Op conv = new Convolution.Conv(Geometry.of(2, 3, 1, 1, 2), Epilogue.NONE);
        assertThatThrownBy(() -> Flops.of(conv, new Spec[] {spec(7)}, new Spec[] {spec(2, 3), spec(2, 3)}))
                .isInstanceOf(TensorException.class);
        assertThatThrownBy(() -> Flops.of(new Contraction.MatMul(), new Spec[] {spec(2, 3), spec(3, 5)}, new Spec[0]))
                .isInstanceOf(TensorException.class).hasMessageContaining("has 1 results, got 0");
    }

    @Test
    void aConvolutionAndItsGradientsHaveTheSameProducts() {
        Geometry geometry = new Geometry(new int[] {1, 1}, new int[] {1, 1}, new int[] {1, 1}, 2);
        Spec x = spec(2, 6, 5, 4);
        Spec weight = spec(8, 3, 3, 3);
        Spec y = spec(2, 8, 5, 4);
        long products = 2L * 2 * 8 * 5 * 4 * 3 * 9;
        assertThat(of(new Convolution.Conv(geometry, Epilogue.NONE), x, weight)).isEqualTo(products);
        assertThat(of(new Convolution.ConvInputGradient(geometry, x.shape()), y, weight)).isEqualTo(products);
        assertThat(of(new Convolution.ConvWeightGradient(geometry, weight.shape(), false), x, y)).isEqualTo(products);
    }

    @Test
    void attentionComputesTwoProductsAndItsGradientFive() {
        Spec q = spec(2, 8, 6);
        Spec k = spec(2, 10, 6);
        Spec v = spec(2, 10, 4);
        Attention.ScaledDotProduct op = new Attention.ScaledDotProduct(1, false);
        long scores = 2 * 8 * 10;
        assertThat(of(op, q, k, v)).isEqualTo(2 * scores * (6 + 4));
        assertThat(of(new Attention.ScaledDotProduct(1, true), q, k, v)).isEqualTo(scores * (6 + 4));
        Spec[] results = op.infer(q, k, v);
        assertThat(of(new Attention.ScaledDotProductGradient(1, false), results[0], q, k, v, results[0], results[1]))
                .isEqualTo(2 * scores * (3 * 6 + 2 * 4));
    }

    @Test
    void aRecurrentLayerAndItsGradient() {
        Spec[] in = {spec(7, 2, 3), spec(2, 5), spec(2, 5), spec(20, 3), spec(20, 5)};
        Recurrence.Lstm layer = new Recurrence.Lstm(false, true);
        assertThat(of(layer, in)).isEqualTo(2 * 7 * 2 * (20 * 3 + 20 * 5));
        Spec[] results = layer.infer(in);
        Spec[] operands = {results[0], results[1], results[2], results[0], results[3], in[0], in[1], in[2], in[3],
            in[4]};
        assertThat(of(layer.gradient(true), operands)).isEqualTo(2 * 7 * 2 * 2 * (20 * 3 + 20 * 5));
        assertThat(of(layer.gradient(false), operands)).isEqualTo(2 * 7 * 2 * (20 * 3 + 2 * 20 * 5));
    }

    @Test
    void othersCountElementsAndMovesNothing() {
        assertThat(of(Unary.EXP, spec(4, 5))).isEqualTo(20);
        assertThat(of(new Reduction.Sum(new Axes(0), false), spec(4, 5))).isEqualTo(20);
        assertThat(Arrays.stream(new Op[] {new Movement.Copy(), new View.Reshape(Shape.of(20))})
                .mapToLong(op -> of(op, spec(4, 5))).sum()).isZero();
    }
}
