package dev.starling.distributed.ps.config;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.AdamW;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Update;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** The oracle is {@code nn.optim}; for Adagrad, its formula in double precision. */
class ServerOptimizerTest {
    private static final int N = 133;
    private static final int STEPS = 40;

    private record Weights(Parameter weight) implements Layer {
        @Override
        public Tensor forward(Tensor input) {
            return input;
        }

        @Override
        public void visit(Visitor visitor) {
            visitor.parameter("weight", weight);
        }
    }

    private interface Factory {
        Optimizer of(Layer model);
    }

    static Stream<Arguments> rules() {
        return Stream.of(
                Arguments.of("sgd", (Factory) m -> Sgd.over(m).rate(0.1).build(),
                        new Update.Sgd(0.1, 0, 0, 0, false)),
                Arguments.of("sgd with decay", (Factory) m -> Sgd.over(m).rate(0.1).weightDecay(0.01).build(),
                        new Update.Sgd(0.1, 0, 0, 0.01, false)),
                Arguments.of("momentum", (Factory) m -> Sgd.over(m).rate(0.1).momentum(0.9).weightDecay(0.01).build(),
                        new Update.Sgd(0.1, 0.9, 0, 0.01, false)),
                Arguments.of("nesterov", (Factory) m -> Sgd.over(m).rate(0.1).momentum(0.9).nesterov().build(),
                        new Update.Sgd(0.1, 0.9, 0, 0, true)),
                Arguments.of("adam", (Factory) m -> Adam.over(m).rate(0.1).weightDecay(0.01).build(),
                        new Update.Adam(0.1, 0.9, 0.999, 1e-8, 0.01, false, 1)),
                Arguments.of("adamw", (Factory) m -> AdamW.over(m).rate(0.1).build(),
                        new Update.Adam(0.1, 0.9, 0.999, 1e-8, 0.01, true, 1)));
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("rules")
    void computesLikeTheOptimizerOfOneProcess(String name, Factory factory, Update op) {
        Random random = new Random(7);
        float[] start = gaussian(random);
        ServerOptimizer rule = ServerOptimizer.of(op);
        float[] p = start.clone();
        float[] first = new float[N];
        float[] second = new float[N];
        try (Scope scope = Scope.open("test"); Parameter weight = Parameter.of(Tensor.of(start, N));
                Optimizer oracle = factory.of(new Weights(weight))) {
            for (int step = 1; step <= STEPS; step++) {
                float[] g = gaussian(random);
                oracle.step(Tensor.of(g, N));
                rule.step(p, first, second, g, N, 0.1, step);
                float[] expected = weight.value().toFloats();
                for (int i = 0; i < N; i++) {
                    assertThat(p[i]).as("%s, step %d, element %d", name, step, i)
                            .isCloseTo(expected[i], org.assertj.core.data.Offset.offset(2e-6f));
                }
            }
        }
    }

    @Test
    void computesAdagradsFormula() {
        Random random = new Random(8);
        float[] p = gaussian(random);
        double[] expected = new double[N];
        double[] sums = new double[N];
        for (int i = 0; i < N; i++) {
            expected[i] = p[i];
        }
        float[] sum = new float[N];
        ServerOptimizer rule = new ServerOptimizer.Adagrad(1e-8, 0.02);
        for (int step = 1; step <= STEPS; step++) {
            float[] g = gaussian(random);
            rule.step(p, sum, null, g, N, 0.1, step);
            for (int i = 0; i < N; i++) {
                double gradient = g[i] + 0.02 * expected[i];
                sums[i] += gradient * gradient;
                expected[i] -= 0.1 * gradient / (Math.sqrt(sums[i]) + 1e-8);
                assertThat((double) p[i]).isCloseTo(expected[i], org.assertj.core.data.Offset.offset(1e-5));
            }
        }
    }

    @Test
    void changesNoElementBeyondTheEnd() {
        float[] p = {1, 2, 3};
        new ServerOptimizer.Sgd(0, 0, 0, false).step(p, null, null, new float[]{1, 1, 1}, 2, 0.5, 1);
        assertThat(p).containsExactly(0.5f, 1.5f, 3);
    }

    @Test
    void roundTripsThroughItsEncoding() throws IOException {
        for (ServerOptimizer rule : new ServerOptimizer[]{new ServerOptimizer.Sgd(0.9, 0.1, 0.2, true),
            new ServerOptimizer.Adam(0.8, 0.99, 1e-7, 0.3, true), new ServerOptimizer.Adagrad(1e-9, 0.4)}) {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            rule.write(new DataOutputStream(bytes));
            assertThat(ServerOptimizer.read(new DataInputStream(new ByteArrayInputStream(bytes.toByteArray()))))
                    .isEqualTo(rule);
        }
    }

    @Test
    void refusesUnsupportedUpdates() {
        assertThatThrownBy(() -> ServerOptimizer.of(new Update.Blend(1, 1))).isInstanceOf(TensorException.class)
                .hasMessageContaining("Blend").hasMessageContaining("use Sgd or Adam");
    }

    private static float[] gaussian(Random random) {
        float[] values = new float[N];
        for (int i = 0; i < N; i++) {
            values[i] = (float) random.nextGaussian();
        }
        return values;
    }
}
