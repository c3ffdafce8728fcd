package dev.starling.tensor.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.Normalization;
import dev.starling.tensor.spi.ChannelsLast;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class BatchNormKernelsTest {
    private static final Oracle.Kernel KERNEL = (op, in, out) -> NormalizationKernels.run((Normalization) op, in, out);
    private Scope scope;

    @BeforeEach
    void open() {
        scope = Scope.open();
    }

    @AfterEach
    void close() {
        scope.close();
    }

    private static void check(Tensor x, double tolerance) {
        long c = x.size(1);
        Tensor gamma = Oracle.random(2, c);
        Tensor beta = Oracle.random(3, c).flip(0);
        Tensor g = Oracle.random(4, x.shape().dims());
        for (Epilogue epilogue : List.of(Epilogue.NONE, Epilogue.RELU)) {
            Tensor[] y = Oracle.check(KERNEL, new Normalization.BatchNorm(1e-3, epilogue), tolerance, x, gamma, beta);
            for (Tensor grad : Oracle.layouts(g)) {
                Oracle.check(KERNEL, new Normalization.BatchNormGradient(epilogue), tolerance, grad, x, gamma, y[0],
                        y[1], y[2]);
            }
        }
    }

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 15, 16, 17, 31, 33, 64})
    void agreesWithTheReference(long channels) {
        for (Tensor x : Oracle.layouts(Oracle.random(1, 3, channels, 5, 4).add(2))) {
            check(x, 1e-5);
        }
    }

    @Test
    void normalisesVectorsLinesAndVolumes() {
        check(Oracle.random(1, 9, 20), 1e-5);
        check(Oracle.random(1, 4, 20, 6), 1e-5);
        check(Oracle.random(1, 2, 20, 3, 4, 5), 1e-5);
        check(Oracle.random(1, 6, 3, 17, 19).add(2), 1e-5);
    }

    @Test
    void keepsItsPrecisionFarFromZero() {
        Tensor x = Oracle.random(1, 4, 18, 9, 9).mul(16).round().add(40_000);
        Tensor one = Tensor.ones(18);
        Oracle.check(KERNEL, new Normalization.BatchNorm(1e-5, Epilogue.NONE), 3e-4, x, one, one);
    }

    @ParameterizedTest
    @ValueSource(floats = {100.3f, 10.3f, -3e4f})
    void keepsItsPrecisionIfTheFirstPixelIsFarFromAllOthers(float first) {
        float[] elements = new float[128 * 2 * 32 * 32];
        elements[0] = first;
        elements[1024] = 1;
        Tensor one = Tensor.ones(2);
        Oracle.check(KERNEL, new Normalization.BatchNorm(1e-5, Epilogue.NONE), 1e-4,
                Tensor.of(elements, 128, 2, 32, 32), one, one);
    }

    @Test
    void passesOnNanWithinItsChannel() {
        float[] elements = Oracle.random(1, 2, 3, 4).toFloats();
        elements[5] = Float.NaN;
        Tensor one = Tensor.ones(3);
        for (Tensor x : Oracle.layouts(Tensor.of(elements, 2, 3, 4))) {
            for (Epilogue epilogue : List.of(Epilogue.NONE, Epilogue.RELU)) {
                Oracle.check(KERNEL, new Normalization.BatchNorm(1e-5, epilogue), 1e-5, x, one, one);
            }
        }
    }

    @Test
    void keepsChannelsLast() {
        Tensor x = Oracle.random(1, 2, 5, 6, 6);
        Tensor one = Tensor.ones(5);
        Tensor y = Tensor.apply(new Normalization.BatchNorm(1e-5, Epilogue.RELU), x, one, one)[0];
        assertThat(ChannelsLast.holds(y)).isTrue();
    }
}
