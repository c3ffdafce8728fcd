package dev.starling.nn.energy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.autograd.Tape;
import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
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
import dev.starling.tensor.Shaping;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Machines so small that all their states can be counted, beside the formulas. */
class EnergyTest {
    private static final int VISIBLE = 4;
    private static final int HIDDEN = 3;

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

    /** All states of {@code bits} units, {@code [2^bits, bits]}. */
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
    void freeEnergyIsTheLogarithmOfTheSumOverHiddenStates() {
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
    void gibbsSamplingVisitsStatesAsOftenAsTheyAreProbable() {
        Rbm rbm = machine(VisibleUnits.BERNOULLI);
        Tensor v = g.bernoulli(0.5, 40_000, VISIBLE).to(DType.F32);
        for (int i = 0; i < 30; i++) {
            v = rbm.sampleVisible(rbm.sampleHidden(v, g), g);
        }
        Tensor all = states(VISIBLE);
        double[] p = rbm.freeEnergy(all).neg().softmax(0).toDoubles();
        long[] seen = new long[p.length];
        double[] samples = v.toDoubles();
        for (int i = 0; i < samples.length; i += VISIBLE) {
            int state = 0;
            for (int k = 0; k < VISIBLE; k++) {
                state |= (int) samples[i + k] << k;
            }
            seen[state]++;
        }
        for (int i = 0; i < p.length; i++) {
            double deviation = Math.sqrt(p[i] * (1 - p[i]) / 40_000);
            assertThat(seen[i] / 40_000.0).isCloseTo(p[i], within(5 * deviation));
        }
    }

    @Test
    void gaussianUnitsHaveTheirMeanAndUnitVariance() {
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

    /** After many steps the samples are the model's, so that the gradient is that of the log-likelihood. */
    @Test
    void gradientIsThatOfTheLikelihoodWhenChainsAreLong() {
        Rbm rbm = machine(VisibleUnits.BERNOULLI);
        int rows = 40_000;
        Tensor data = g.bernoulli(0.3, rows, VISIBLE).to(DType.F32);
        Tensor w = rbm.weight().master();
        Tensor sampled = gradient(ContrastiveDivergence.of(rbm, 30), data, w);
        Tape tape = new Tape();
        tape.watch(w);
        Tensor exact = tape.record(() -> rbm.freeEnergy(data).mean().add(
                rbm.freeEnergy(states(VISIBLE)).neg().exp().sum().log()));
        Tensor expected = tape.backward(exact).of(w);
        assertThat(sampled.sub(expected).abs().max().item()).isLessThan(0.015);
        assertThat(expected.abs().max().item()).isGreaterThan(0.1);
    }

    private Tensor gradient(Layer trained, Tensor data, Tensor of) {
        Tape tape = new Tape();
        tape.watch(of);
        Tensor loss = tape.record(() -> Mode.training(g, () ->
                ContrastiveDivergence.loss().of(trained.forward(data), data)));
        return tape.backward(loss).of(of);
    }

    @Test
    void trainingRaisesTheLikelihoodWithAndWithoutPersistentChains() {
        Tensor stripes = stripes();
        for (boolean persistent : new boolean[] {false, true}) {
            Rbm rbm = Rbm.of(VisibleUnits.BERNOULLI, 9, 12, g);
            Layer trained = persistent ? ContrastiveDivergence.persistent(rbm, 1, 100, g)
                    : ContrastiveDivergence.of(rbm, 5);
            double before = logLikelihood(rbm, stripes, 9);
            History history = train(trained, ContrastiveDivergence.loss(), stripes.tile(50, 1), 150);
            assertThat(before).isCloseTo(-9 * Math.log(2), within(0.1));
            // Fourteen states at best: log(1 / 14) is -2.64.
            assertThat(logLikelihood(rbm, stripes, 9)).isBetween(-3.6, -2.63);
            assertThat(history.last().training().metric("reconstruction error")).isLessThan(0.12);
            assertThat(trained.state().containsKey("chains")).isEqualTo(persistent);
        }
    }

    private History train(Layer trained, Loss loss, Tensor rows, int epochs) {
        try (DataLoader data = DataLoader.of(TensorDataset.of(rows, rows)).batchSize(100).shuffle().build()) {
            return Trainer.of(trained, loss, Sgd.over(trained).rate(0.3).build()).data(data).epochs(epochs)
                    .metrics(ContrastiveDivergence.reconstructionError()).build().run();
        }
    }

    /** The fourteen images of 3×3 that consist of whole rows or whole columns. */
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
    void stagesTrainOneMachineEachAndTheClassifierSharesTheirWeights() {
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
        Tensor rows = Shaping.concat(0, Tensor.zeros(8), Tensor.ones(6)).to(DType.I64);
        try (DataLoader data = DataLoader.of(TensorDataset.of(stripes, rows)).batchSize(14).build()) {
            History history = Trainer.of(classifier, Loss.crossEntropy(), Adam.over(classifier).rate(0.02).build())
                    .data(data).epochs(300).metrics(Metric.accuracy()).build().run();
            assertThat(history.last().training().metric("accuracy")).isEqualTo(1);
        }
    }

    @Test
    void sizesAndStepsAreChecked() {
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
