package dev.starling.distributed.ps.store;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.nn.optim.Adagrad;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.AdamW;
import dev.starling.nn.optim.Lion;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Rmsprop;
import dev.starling.nn.optim.Sgd;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Rule;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** The oracle is the optimiser of one process, whose own tests compare it with formulas and with PyTorch. */
public class TrainedWeightsTest {
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

    private static Stream<Function<Layer, Optimizer>> builders() {
        return Stream.of(m -> Sgd.over(m).rate(0.1).build(),
                m -> Sgd.over(m).rate(0.1).weightDecay(0.01).build(),
                m -> Sgd.over(m).rate(0.1).momentum(0.9).weightDecay(0.01).build(),
                m -> Sgd.over(m).rate(0.1).momentum(0.9).nesterov().build(),
                m -> Adam.over(m).rate(0.1).weightDecay(0.01).build(), m -> AdamW.over(m).rate(0.1).build(),
                m -> Adagrad.over(m).rate(0.1).initialSum(0.5).weightDecay(0.01).build(),
                m -> Rmsprop.over(m).rate(0.1).weightDecay(0.01).build(),
                m -> Rmsprop.over(m).rate(0.1).momentum(0.9).centred().build(),
                m -> Lion.over(m).rate(0.1).weightDecay(0.01).build());
    }

    static Stream<Arguments> optimizers() {
        return builders().flatMap(optimizer -> Stream.of(1, 133, 5000).map(n -> Arguments.of(optimizer, n)));
    }

    @Test
    void comparesEveryRule() {
        Set<Class<?>> compared = new HashSet<>();
        try (Parameter weight = Parameter.filled(0, 1)) {
            builders().forEach(builder -> {
                try (Optimizer optimizer = builder.apply(new Weights(weight))) {
                    compared.add(optimizer.rule(0).getClass());
                }
            });
        }
        assertThat(compared).containsExactlyInAnyOrder(Rule.class.getPermittedSubclasses());
    }

    @ParameterizedTest
    @MethodSource("optimizers")
    void hasTheBitsOfTheOptimizerOfOneProcess(Function<Layer, Optimizer> optimizer, int n) {
        Random random = new Random(7);
        float[] start = gaussian(random, n);
        try (Scope scope = Scope.open("test"); Parameter weight = Parameter.of(Tensor.of(start, n));
                Optimizer oracle = optimizer.apply(new Weights(weight))) {
            Rule rule = oracle.rule(0);
            TrainedWeights weights = new TrainedWeights(rule, n, 1);
            weights.set(0, start, 0, n);
            for (int step = 1; step <= STEPS; step++) {
                float[] g = gaussian(random, n + 3);
                oracle.step(Tensor.of(g, n + 3).narrow(0, 0, n).copy());
                weights.step(g, 0.1, step);
                assertArray(weights, 0, weight, rule + " step " + step);
                List<Parameter> state = oracle.stateOf(0);
                for (int k = 0; k < state.size(); k++) {
                    assertArray(weights, k + 1, state.get(k), rule.slots().get(k) + " of " + rule + " step " + step);
                }
            }
        }
    }

    private static void assertArray(TrainedWeights weights, int array, Parameter expected, String what) {
        float[] got = new float[(int) expected.shape().count()];
        weights.get(array, got, 0, got.length);
        assertThat(got).as(what).isEqualTo(expected.value().toFloats());
    }

    @Test
    void takesEachStepWithItsOwnRateAndNumber() {
        Rule rule = new Rule.Adam(0.9, 0.999, 1e-8, 0.1, true);
        Random random = new Random(9);
        TrainedWeights weights = new TrainedWeights(rule, 5, 4);
        float[] p = new float[5];
        float[][] state = new float[2][5];
        for (int i = 0; i < 200; i++) {
            float[] g = gaussian(random, 5);
            long step = 1 + random.nextInt(9);
            double rate = random.nextInt(3) * 0.01;
            weights.step(g, rate, step);
            stepAlone(rule, rate, step, p, g, state);
            float[] got = new float[5];
            weights.get(0, got, 0, 5);
            assertThat(got).as("step %d with rate %s", step, rate).isEqualTo(p);
        }
    }

    /**
     * Takes a step as an optimiser of one process does.
     *
     * @param state the rule's arrays; more than it has are ignored
     */
    public static void stepAlone(Rule rule, double rate, long step, float[] p, float[] g, float[]... state) {
        try (Scope scope = Scope.open("step")) {
            Tensor[] operands = new Tensor[2 + rule.slots().size()];
            for (int k = 0; k < operands.length; k++) {
                operands[k] = Tensor.of(k == 0 ? p : k == 1 ? g : state[k - 2], p.length);
            }
            Tensor.apply(rule.step(rate, step), operands);
            for (int k = 0; k < operands.length; k++) {
                float[] to = k == 0 ? p : k == 1 ? g : state[k - 2];
                System.arraycopy(operands[k].toFloats(), 0, to, 0, to.length);
            }
        }
    }

    private static float[] gaussian(Random random, int n) {
        float[] values = new float[n];
        for (int i = 0; i < n; i++) {
            values[i] = (float) random.nextGaussian();
        }
        return values;
    }
}
