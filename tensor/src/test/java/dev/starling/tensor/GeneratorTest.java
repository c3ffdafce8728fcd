package dev.starling.tensor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.tensor.op.Philox;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Streams against the definition of random numbers, {@link Philox}, and against their distributions' moments. */
class GeneratorTest {
    private Scope scope;

    @BeforeEach
    void open() {
        scope = Scope.open("test");
    }

    @AfterEach
    void close() {
        scope.close();
    }

    /** Numbers just below the upper bound would round to it in 16 bits. */
    @Test
    void uniformNumbersOfEveryTypeAreBelowTheUpperBound() {
        double[][] bounds = {{0, 1}, {-3, -1}, {-1, 0}, {0.1, 0.7}, {-5, 60_000}};
        for (Device device : new Device[] {Device.reference(), Device.cpu()}) {
            for (DType type : new DType[] {DType.BF16, DType.F16, DType.F32}) {
                for (double[] bound : bounds) {
                    Tensor x = Generator.seeded(8).uniform(new Spec(type, Shape.of(20_000), device), bound[0],
                            bound[1]);
                    assertThat(x.max().item()).as(type + " below " + bound[1]).isLessThan((float) bound[1])
                            .isCloseTo(bound[1], within((bound[1] - bound[0]) * 0.01));
                }
            }
        }
    }

    @Test
    void drawsMatchTheDefinitionOnEveryDevice() {
        for (Device device : new Device[] {Device.reference(), Device.cpu()}) {
            Device.with(device, () -> {
                Generator g = Generator.seeded(-42);
                g.uniform(9);
                assertThat(g.state()).isEqualTo(new Generator.State(-42, 3));
                float[] uniform = g.uniform(2, 3).toFloats();
                float[] normal = g.normal(5).toFloats();
                for (int i = 0; i < 5; i++) {
                    assertThat(uniform[i]).isEqualTo(Philox.uniformAt(-42, 3, i));
                    assertThat(normal[i]).isEqualTo(Philox.normalAt(-42, 5, i));
                }
                assertThat(g.state()).isEqualTo(new Generator.State(-42, 7));
                return null;
            });
        }
    }

    @Test
    void theLongestAdvanceGoesForward() {
        Generator g = Generator.seeded(1);
        assertThat(g.advance(Long.MAX_VALUE)).isZero();
        assertThat(g.state().counter()).isEqualTo(1L << 61);
    }

    @Test
    void aRestoredStateRepeatsWhatFollowed() {
        Generator g = Generator.seeded(1);
        g.permutation(10);
        Generator.State state = g.state();
        float[] first = g.normal(33).toFloats();
        g.restore(state);
        assertThat(g.normal(33).toFloats()).isEqualTo(first);
        assertThat(Generator.of(state).normal(33).toFloats()).isEqualTo(first);
        assertThat(g.normal(33).toFloats()).isNotEqualTo(first);
    }

    @Test
    void splitsDependOnSeedAndKeyAlone() {
        Generator g = Generator.seeded(1);
        float[] split = g.split(3).uniform(50).toFloats();
        g.uniform(10);
        assertThat(g.split(3).uniform(50).toFloats()).isEqualTo(split);
        assertThat(g.split(4).uniform(50).toFloats()).isNotEqualTo(split);
        assertThat(Generator.seeded(2).split(3).uniform(50).toFloats()).isNotEqualTo(split);
        assertThat(Generator.seeded(0).split(0).seed()).isNotZero();
        assertThat(g.split(0).split(1).seed()).isNotEqualTo(g.split(1).split(0).seed());
    }

    @Test
    void momentsMatchTheDistributions() {
        int n = 200_000;
        Generator g = Generator.seeded(5);
        Spec f64 = new Spec(DType.F64, Shape.of(n), Device.cpu());
        Tensor uniform = g.uniform(f64, -1, 3);
        assertThat(uniform.mean().item()).isCloseTo(1, within(0.02));
        assertThat(uniform.variance(0, false).item()).isCloseTo(16.0 / 12, within(0.02));
        assertThat(uniform.min().item()).isGreaterThanOrEqualTo(-1);
        assertThat(uniform.max().item()).isLessThan(3);
        Tensor normal = g.normal(f64, 2, 0.5);
        assertThat(normal.mean().item()).isCloseTo(2, within(0.01));
        assertThat(normal.variance(0, false).item()).isCloseTo(0.25, within(0.01));
        assertThat(g.bernoulli(0.3, n).sum().item() / n).isCloseTo(0.3, within(0.01));
        assertThat(g.bernoulli(0, 100).sum().itemLong()).isZero();
        assertThat(g.bernoulli(1, 100).sum().itemLong()).isEqualTo(100);
        Tensor integers = g.integers(-2, 3, n);
        assertThat(integers.dtype()).isEqualTo(DType.I64);
        for (int i = -2; i < 3; i++) {
            assertThat(integers.eq(i).sum().item() / n).isCloseTo(0.2, within(0.01));
        }
    }

    @Test
    void permutationsAreEvenlyDistributed() {
        Generator g = Generator.seeded(9);
        long[] order = g.permutation(1000).toLongs();
        Arrays.sort(order);
        assertThat(order).isEqualTo(Tensor.arange(1000).toLongs());
        assertThat(g.order(0)).isEmpty();
        Map<String, Integer> seen = new HashMap<>();
        for (int i = 0; i < 24_000; i++) {
            seen.merge(Arrays.toString(g.order(4)), 1, Integer::sum);
        }
        assertThat(seen).hasSize(24);
        double chiSquare = seen.values().stream().mapToDouble(c -> (c - 1000.0) * (c - 1000.0) / 1000).sum();
        assertThat(chiSquare).as("23 degrees of freedom").isLessThan(49.7);
    }

    @Test
    void faultsAreTyped() {
        Generator g = Generator.seeded(0);
        assertThatThrownBy(() -> g.bernoulli(1.5, 3)).isInstanceOf(TensorException.class);
        assertThatThrownBy(() -> g.bernoulli(Double.NaN, 3)).isInstanceOf(TensorException.class);
        assertThatThrownBy(() -> g.integers(3, 3, 1)).isInstanceOf(TensorException.class);
        assertThatThrownBy(() -> g.order(-1)).isInstanceOf(TensorException.class);
    }
}
