package dev.starling.tensor.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.tensor.DType;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.rows.LayerNormRows;
import dev.starling.tensor.cpu.rows.RowLoops;
import dev.starling.tensor.op.Normalization;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class LayerNormKernelsTest {
    private static final List<LayerNormRows> ROWS = RowLoops.all().stream().map(RowLoops::layerNorm).toList();
    private Scope scope;

    @BeforeEach
    void open() {
        scope = Scope.open();
    }

    @AfterEach
    void close() {
        scope.close();
    }

    private static Oracle.Kernel kernel(LayerNormRows rows) {
        return (op, in, out) -> LayerNormKernels.run((Normalization) op, in, out, rows);
    }

    @ParameterizedTest
    @CsvSource({"1,2", "3,1", "5,15", "64,16", "65,17", "130,100", "7,1031", "200,33"})
    void agreesWithTheReference(int n, int columns) {
        Tensor gamma = Oracle.random(2, columns);
        Tensor beta = Oracle.random(3, columns).flip(0);
        for (LayerNormRows rows : ROWS) {
            for (Tensor x : Oracle.layouts(Oracle.random(4, n, columns).add(3))) {
                Tensor[] y = Oracle.check(kernel(rows), new Normalization.LayerNorm(1e-3), 3e-6, x, gamma, beta);
                for (Tensor g : Oracle.layouts(Oracle.random(5, n, columns))) {
                    Oracle.check(kernel(rows), new Normalization.LayerNormGradient(), 5e-6, g, x, gamma, y[1], y[2]);
                }
            }
        }
    }

    @Test
    void normalisesSeveralTrailingDimensions() {
        Tensor x = Oracle.random(1, 3, 2, 4, 5);
        Tensor gamma = Oracle.random(2, 4, 5).transpose(0, 1).copy().transpose(0, 1);
        for (LayerNormRows rows : ROWS) {
            Tensor[] y = Oracle.check(kernel(rows), new Normalization.LayerNorm(1e-5), 3e-6, x, gamma, gamma);
            Oracle.check(kernel(rows), new Normalization.LayerNormGradient(), 5e-6, x, x, gamma, y[1], y[2]);
        }
    }

    @Test
    void keepsItsPrecisionFarFromZero() {
        Tensor x = Oracle.random(1, 9, 300).mul(16).round().add(40_000);
        Tensor one = Tensor.ones(300);
        for (LayerNormRows rows : ROWS) {
            Oracle.check(kernel(rows), new Normalization.LayerNorm(1e-5), 3e-4, x, one, Tensor.zeros(300));
        }
    }

    @Test
    void acceptsAnEpsilonThatNoFloatHolds() {
        Tensor x = Tensor.concat(0, Oracle.random(1, 5, 33).mul(1e-15), Tensor.zeros(2, 33));
        Tensor one = Tensor.ones(33);
        for (LayerNormRows rows : ROWS) {
            Oracle.check(kernel(rows), new Normalization.LayerNorm(1e-50), 3e-6, x, one, one);
        }
    }

    @Test
    void passesOnNanWithinItsRow() {
        Tensor x = Tensor.of(new float[] {1, Float.NaN, 3, 1, 2, 3, 1, Float.POSITIVE_INFINITY, 0}, 3, 3);
        Tensor one = Tensor.ones(3);
        for (LayerNormRows rows : ROWS) {
            Oracle.check(kernel(rows), new Normalization.LayerNorm(1e-5), 3e-6, x, one, one);
        }
    }

    @Test
    void leavesOtherTypesAndEmptyTensorsToTheReference() {
        Normalization op = new Normalization.LayerNorm(1e-5);
        for (Tensor x : List.of(Tensor.zeros(2, 3).to(DType.F64), Tensor.zeros(0, 3))) {
            Tensor one = Tensor.full(x.dtype(), 1, 3);
            Tensor[] in = {x, one, one};
            assertThat(LayerNormKernels.run(op, in, op.infer(x.spec(), one.spec(), one.spec()))).isNull();
            assertThat(Tensor.compute(op, in).spec()).isEqualTo(x.spec());
        }
    }
}
