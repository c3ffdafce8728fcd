package dev.starling.nn.energy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.autograd.Gradients;
import dev.starling.autograd.Tape;
import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.nn.Parameter;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.History;
import dev.starling.nn.train.Metric;
import dev.starling.nn.train.Trainer;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Compares machines that are small enough to enumerate all their states with the formulas. */
class EnergyTest {
    private static final int VISIBLE = 4;
    private static final int HIDDEN = 3;
    /** Number of chains. Means over them have deviations of about 0.007. */
    private static final int ROWS = 10_000;

    private final Generator g = Generator.seeded(3);
    private Scope scope;

    @BeforeEach
    void open() {
        scope = Scope.open();
    }

    @AfterEach
    void close() {
        scope.close();
    }

    private Rbm machine(VisibleUnits units) {
        Rbm rbm = Rbm.of(units, VISIBLE, HIDDEN, g);
        rbm.parameters().values().forEach(p -> p.set(g.normal(p.master().spec(), 0, 0.7)));
        return rbm;
    }

    /** Returns all states of {@code bits} units, {@code [2^bits, bits]}. */
    private static Tensor states(int bits) {
        float[] all = new float[bits << bits];
        for (int i = 0; i < all.length; i++) {
            all[i] = i / bits >> i % bits & 1;
        }
        return Tensor.of(all, 1L << bits, bits);
    }

    private static double energy(Rbm rbm, double[] v, double[] h) {
        double[] w = rbm.weight().master().toDoubles();
        double[] b = rbm.visibleBias().master().toDoubles();
        double[] c = rbm.hiddenBias().master().toDoubles();
        double sum = 0;
        for (int i = 0; i < v.length; i++) {
            sum += rbm.units() == VisibleUnits.BERNOULLI ? -b[i] * v[i] : (v[i] - b[i]) * (v[i] - b[i]) / 2;
        }
        for (int j = 0; j < h.length; j++) {
            sum -= c[j] * h[j];
            for (int i = 0; i < v.length; i++) {
                sum -= h[j] * w[j * v.length + i] * v[i];
            }
        }
        return sum;
    }

    private static double[] row(Tensor x, int i) {
        return x.get(i).toDoubles();
    }

    @Test
    void computesTheFreeEnergyAsASumOverHiddenStates() {
        for (VisibleUnits units : VisibleUnits.values()) {
            Rbm rbm = machine(units);
            Tensor v = units == VisibleUnits.BERNOULLI ? states(VISIBLE) : g.normal(5, VISIBLE);
            Tensor h = states(HIDDEN);
            double[] free = rbm.freeEnergy(v).toDoubles();
            double[] given = rbm.forward(v).toDoubles();
            for (int i = 0; i < free.length; i++) {
                double sum = 0;
                double[] on = new double[HIDDEN];
                for (int j = 0; j < 1 << HIDDEN; j++) {
                    double[] hidden = row(h, j);
                    double p = Math.exp(-energy(rbm, row(v, i), hidden));
                    sum += p;
                    for (int k = 0; k < HIDDEN; k++) {
                        on[k] += hidden[k] * p;
                    }
                }
                assertThat(free[i]).isCloseTo(-Math.log(sum), within(1e-5));
                for (int k = 0; k < HIDDEN; k++) {
                    assertThat(given[i * HIDDEN + k]).isCloseTo(on[k] / sum, within(1e-6));
                }
            }
        }
    }

    @Test
    void samplesStatesWithTheirProbabilities() {
        Rbm rbm = machine(VisibleUnits.BERNOULLI);
        Tensor v = g.bernoulli(0.5, 40_000, VISIBLE).to(DType.F32);
        for (int i = 0; i < 30; i++) {
            v = rbm.sampleVisible(rbm.sampleHidden(v, g), g);
        }
        Tensor all = states(VISIBLE);
        double[] p = rbm.freeEnergy(all).neg().softmax(0).toDoubles();
        long[] visits = new long[p.length];
        double[] samples = v.toDoubles();
        for (int i = 0; i < samples.length; i += VISIBLE) {
            int state = 0;
            for (int k = 0; k < VISIBLE; k++) {
                state |= (int) samples[i + k] << k;
            }
            visits[state]++;
        }
        for (int i = 0; i < p.length; i++) {
            double deviation = Math.sqrt(p[i] * (1 - p[i]) / 40_000);
            assertThat(visits[i] / 40_000.0).isCloseTo(p[i], within(5 * deviation));
        }
    }

    @Test
    void samplesGaussianUnitsWithTheirMeanAndUnitVariance() {
        Rbm rbm = machine(VisibleUnits.GAUSSIAN);
        Tensor h = Tensor.of(new float[] {1, 0, 1}, 1, HIDDEN).expand(50_000, HIDDEN);
        Tensor v = rbm.sampleVisible(h, g);
        double[] w = rbm.weight().master().toDoubles();
        double[] b = rbm.visibleBias().master().toDoubles();
        for (int i = 0; i < VISIBLE; i++) {
            Tensor unit = v.narrow(1, i, 1);
            double mean = b[i] + w[i] + w[2 * VISIBLE + i];
            assertThat(unit.mean().item()).isCloseTo(mean, within(0.03));
            assertThat(unit.sub(mean).square().mean().item()).isCloseTo(1, within(0.04));
        }
    }

    /** After many steps the samples follow the model's distribution, so the gradient is that of the log-likelihood. */
    @Test
    void approachesTheGradientOfTheLikelihoodWithLongChains() {
        for (VisibleUnits units : VisibleUnits.values()) {
            Rbm rbm = machine(units);
            Tensor data = units == VisibleUnits.BERNOULLI ? g.bernoulli(0.3, ROWS, VISIBLE).to(DType.F32)
                    : g.normal(ROWS, VISIBLE);
            Tensor[] expected = gradients(rbm, () -> rbm.freeEnergy(data).mean().add(logPartition(rbm)));
            assertClose(divergence(ContrastiveDivergence.of(rbm, 20), rbm, data), expected);
            assertThat(expected[0].abs().max().item()).isGreaterThan(0.1);
        }
    }

    /**
     * Each call advances the chains by one step. After many calls they follow the model's distribution for any data.
     */
    @Test
    void samplesTheModelWithPersistentChains() {
        Rbm rbm = machine(VisibleUnits.BERNOULLI);
        Tensor data = Tensor.zeros(10, VISIBLE);
        Layer trained = ContrastiveDivergence.persistent(rbm, 1, ROWS, g);
        for (int i = 0; i < 15; i++) {
            Mode.training(g, () -> trained.forward(data));
        }
        assertClose(divergence(trained, rbm, data),
                gradients(rbm, () -> rbm.freeEnergy(data).mean().add(logPartition(rbm))));
    }

    /** The expectation over chains of k steps can be computed because there are few states and few transitions. */
    @Test
    void reducesTheBiasWithMoreSteps() {
        Rbm rbm = machine(VisibleUnits.BERNOULLI);
        rbm.weight().set(rbm.weight().master().mul(3));
        Tensor data = Tensor.zeros(ROWS, VISIBLE);
        Tensor exact = gradients(rbm, () -> rbm.freeEnergy(data).mean().add(logPartition(rbm)))[0];
        Tensor all = states(VISIBLE);
        Tensor transitions = transitions(rbm);
        // All chains start at state 0.
        Tensor p = Tensor.arange(1 << VISIBLE).eq(0).to(DType.F32).reshape(1 << VISIBLE, 1);
        double before = Double.POSITIVE_INFINITY;
        for (int k = 1; k <= 4; k++) {
            p = transitions.matmul(p);
            Tensor reached = p.reshape(1 << VISIBLE);
            Tensor[] expected = gradients(rbm,
                    () -> rbm.freeEnergy(data).mean().sub(rbm.freeEnergy(all).mul(reached).sum()));
            assertClose(divergence(ContrastiveDivergence.of(rbm, k), rbm, data), expected);
            double bias = expected[0].sub(exact).abs().max().item();
            assertThat(bias).isBetween(1e-4, 0.9 * before);
            before = bias;
        }
    }

    /** Returns the probability of a transition from a visible state (column) to another (row) in one Gibbs step. */
    private static Tensor transitions(Rbm rbm) {
        return probabilities(rbm.visible(states(HIDDEN)), states(VISIBLE))
                .matmul(probabilities(rbm.forward(states(VISIBLE)), states(HIDDEN)));
    }

    /** Returns the probability of each state (row) given each row of means of independent units (column). */
    private static Tensor probabilities(Tensor means, Tensor states) {
        return states.matmul(means.log().transpose(0, 1))
                .add(states.neg().add(1).matmul(means.neg().add(1).log().transpose(0, 1))).exp();
    }

    /** Computes it by enumeration. For Gaussian units each hidden state has a closed form, up to a constant. */
    private static Tensor logPartition(Rbm rbm) {
        if (rbm.units() == VisibleUnits.BERNOULLI) {
            return rbm.freeEnergy(states(VISIBLE)).neg().exp().sum().log();
        }
        Tensor h = states(HIDDEN);
        Tensor shift = h.matmul(rbm.weight().value());
        return h.mul(rbm.hiddenBias().value()).sum(1).add(shift.mul(rbm.visibleBias().value()).sum(1))
                .add(shift.square().sum(1).mul(0.5)).exp().sum().log();
    }

    private Tensor[] divergence(Layer trained, Rbm rbm, Tensor data) {
        return gradients(rbm, () -> Mode.training(g, () ->
                ContrastiveDivergence.loss().of(trained.forward(data), data)));
    }

    /** Returns the gradients with respect to weight, visible bias and hidden bias. */
    private static Tensor[] gradients(Rbm rbm, Supplier<Tensor> loss) {
        Tensor[] parameters = rbm.parameters().values().stream().map(Parameter::master).toArray(Tensor[]::new);
        Tape tape = new Tape();
        tape.watch(parameters);
        Gradients gradients = tape.backward(tape.record(loss));
        return Stream.of(parameters).map(gradients::of).toArray(Tensor[]::new);
    }

    /** Compares with a tolerance for the error of sampling. */
    private static void assertClose(Tensor[] sampled, Tensor[] expected) {
        for (int i = 0; i < expected.length; i++) {
            assertThat(sampled[i].sub(expected[i]).abs().max().item()).isLessThan(0.03);
        }
    }

    @Test
    void increasesTheLikelihoodWithAndWithoutPersistentChains() {
        Tensor stripes = stripes();
        for (boolean persistent : new boolean[] {false, true}) {
            Rbm rbm = Rbm.of(VisibleUnits.BERNOULLI, 9, 12, g);
            Layer trained = persistent ? ContrastiveDivergence.persistent(rbm, 1, 100, g)
                    : ContrastiveDivergence.of(rbm, 5);
            double before = logLikelihood(rbm, stripes, 9);
            History history = train(trained, ContrastiveDivergence.loss(), stripes.tile(30, 1), 150);
            assertThat(before).isCloseTo(-9 * Math.log(2), within(0.1));
            // At best there are fourteen states: log(1 / 14) is -2.64.
            assertThat(logLikelihood(rbm, stripes, 9)).isBetween(-3.6, -2.63);
            assertThat(history.last().training().metric("reconstruction error")).isLessThan(0.12);
            assertThat(trained.state().containsKey("chains")).isEqualTo(persistent);
        }
    }

    /**
     * Two clusters of unit variance around m and -m, whose density is known and which one hidden unit can distinguish.
     */
    @Test
    void trainsAGaussianMachineOnAMixture() {
        double m = 1.5;
        Tensor data = g.normal(2000, VISIBLE).add(g.bernoulli(0.5, 2000, 1).to(DType.F32).mul(2).sub(1).mul(m));
        Rbm rbm = Rbm.of(VisibleUnits.GAUSSIAN, VISIBLE, HIDDEN, g);
        double before = rbm.freeEnergy(data).mean().add(logPartition(rbm)).item();
        train(ContrastiveDivergence.of(rbm, 1), ContrastiveDivergence.loss(), data, 40, 0.02);
        double after = rbm.freeEnergy(data).mean().add(logPartition(rbm)).item();
        // log cosh x = softplus(2x) - x - log 2
        Tensor x = data.sum(1).mul(m);
        Tensor logCosh = x.mul(2).softplus().sub(x).sub(Math.log(2));
        double mixture = data.square().sum(1).add(VISIBLE * m * m).mul(0.5).sub(logCosh).mean().item();
        assertThat(before).isGreaterThan(mixture + 1);
        assertThat(after).isCloseTo(mixture, within(0.1));
    }

    private History train(Layer trained, Loss loss, Tensor rows, int epochs) {
        return train(trained, loss, rows, epochs, 0.3);
    }

    private History train(Layer trained, Loss loss, Tensor rows, int epochs, double rate) {
        try (DataLoader data = DataLoader.of(TensorDataset.of(rows, rows)).batchSize(100).shuffle().build()) {
            return Trainer.of(trained, loss, Sgd.over(trained).rate(rate).build()).data(data).epochs(epochs)
                    .metrics(ContrastiveDivergence.reconstructionError()).build().run();
        }
    }

    /** Returns the fourteen images of 3×3 that consist of whole rows or whole columns. */
    private static Tensor stripes() {
        float[] images = new float[14 * 9];
        for (int i = 0; i < 14; i++) {
            int bits = i < 8 ? i : i - 7;
            for (int at = 0; at < 9; at++) {
                images[i * 9 + at] = bits >> (i < 8 ? at / 3 : at % 3) & 1;
            }
        }
        return Tensor.of(images, 14, 9);
    }

    private static double logLikelihood(Rbm rbm, Tensor data, int bits) {
        double partition = rbm.freeEnergy(states(bits)).neg().to(DType.F64).exp().sum().item();
        return -rbm.freeEnergy(data).mean().item() - Math.log(partition);
    }

    @Test
    void trainsOneMachinePerStageAndSharesWeightsWithTheClassifier() {
        Tensor stripes = stripes();
        DeepBeliefNetwork network = DeepBeliefNetwork.of(VisibleUnits.BERNOULLI, g, 9, 12, 6);
        List<Layer> stages = network.stages(1);
        Tensor top = network.machines().get(1).weight().master().copy();
        train(stages.get(0), ContrastiveDivergence.loss(), stripes.tile(20, 1), 20);
        assertThat(network.machines().get(1).weight().master().toDoubles()).isEqualTo(top.toDoubles());
        Tensor bottom = network.machines().get(0).weight().master().copy();
        train(stages.get(1), ContrastiveDivergence.loss(), stripes.tile(20, 1), 20);
        assertThat(network.machines().get(0).weight().master().toDoubles()).isEqualTo(bottom.toDoubles());
        assertThat(network.machines().get(1).weight().master().toDoubles()).isNotEqualTo(top.toDoubles());

        Layer classifier = network.classifier(2, g);
        assertThat(classifier.parameters().get("0.weight")).isSameAs(network.machines().get(0).weight());
        assertThat(network.forward(stripes).shape().dims()).containsExactly(14, 6);
        Tensor rows = Tensor.concat(0, Tensor.zeros(8), Tensor.ones(6)).to(DType.I64);
        try (DataLoader data = DataLoader.of(TensorDataset.of(stripes, rows)).batchSize(14).build()) {
            History history = Trainer.of(classifier, Loss.crossEntropy(), Adam.over(classifier).rate(0.02).build())
                    .data(data).epochs(300).metrics(Metric.accuracy()).build().run();
            assertThat(history.last().training().metric("accuracy")).isEqualTo(1);
        }
    }

    @Test
    void checksDropout() {
        DeepBeliefNetwork network = DeepBeliefNetwork.of(VisibleUnits.BERNOULLI, g, 3, 2);
        for (double dropout : new double[] {-0.5, 1, Double.NaN}) {
            assertThatThrownBy(() -> network.classifier(2, dropout, g)).isInstanceOf(TensorException.class)
                    .hasMessageContaining("0 <= probability < 1");
        }
        assertThat(network.classifier(2, 0, g).parameters()).containsKey("2.weight");
    }

    @Test
    void checksSizesAndSteps() {
        assertThatThrownBy(() -> Rbm.of(VisibleUnits.GAUSSIAN, 0, 3, g)).isInstanceOf(TensorException.class)
                .hasMessageContaining("0 visible and 3 hidden");
        assertThatThrownBy(() -> DeepBeliefNetwork.of(VisibleUnits.BERNOULLI, g, 5))
                .isInstanceOf(TensorException.class).hasMessageContaining("two sizes");
        Rbm rbm = machine(VisibleUnits.BERNOULLI);
        assertThatThrownBy(() -> ContrastiveDivergence.of(rbm, 0)).isInstanceOf(TensorException.class);
        assertThatThrownBy(() -> ContrastiveDivergence.persistent(rbm, 1, 0, g)).isInstanceOf(TensorException.class);
        assertThatThrownBy(() -> rbm.forward(Tensor.ones(2, 5))).isInstanceOf(TensorException.class);
    }
}
