package dev.starling.nn.layer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.nn.Graph;
import dev.starling.autograd.Tape;
import dev.starling.nn.Initializer;
import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.nn.Parameter;
import dev.starling.nn.Precision;
import dev.starling.nn.Sequential;
import dev.starling.nn.Summary;
import dev.starling.nn.model.Gpt2;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Norms;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class LayerTest {
    private final Generator g = Generator.seeded(1);
    private Scope scope;

    @BeforeEach
    void open() {
        scope = Scope.open();
    }

    @AfterEach
    void close() {
        scope.close();
    }

    @Test
    void updatesRunningStatisticsInTrainingAndUsesThemInInference() {
        BatchNorm norm = BatchNorm.of(1, 0, 0.5);
        Tensor x = Tensor.of(new float[] {1, 2, 3, 6}, 4, 1);
        // Mean 3, unbiased variance (4 + 1 + 0 + 9)/3; half-way from 0 and 1.
        Tensor y = Mode.training(g, () -> norm.forward(x));
        double deviation = Math.sqrt(14 / 4.0);
        assertThat(y.toDoubles()).usingComparatorWithPrecision(1e-6).containsExactly(-2 / deviation, -1 / deviation, 0,
                3 / deviation);
        assertThat(norm.state().get("running_mean").value().item()).isCloseTo(1.5, within(1e-6));
        assertThat(norm.state().get("running_var").value().item()).isCloseTo(0.5 + 7 / 3.0, within(1e-5));
        Tensor z = norm.forward(x);
        double running = Math.sqrt(0.5 + 7 / 3.0);
        assertThat(z.toDoubles()).usingComparatorWithPrecision(1e-5).containsExactly(-0.5 / running, 0.5 / running,
                1.5 / running, 4.5 / running);
        assertThat(norm.state().get("running_mean").value().item()).isCloseTo(1.5, within(1e-6));
    }

    @Test
    void dropsElementsOnlyInTraining() {
        Dropout dropout = new Dropout(0.25);
        Tensor x = Tensor.ones(100_000);
        assertThat(dropout.forward(x)).isSameAs(x);
        Tensor y = Mode.training(g, () -> dropout.forward(x));
        assertThat(y.eq(0).sum().item() / 100_000).isCloseTo(0.25, within(0.01));
        assertThat(y.max().item()).isCloseTo(4 / 3.0, within(1e-6));
        assertThat(Mode.training(g, () -> Mode.inference(() -> dropout.forward(x)))).isSameAs(x);
        assertThatThrownBy(() -> new Dropout(1)).isInstanceOf(TensorException.class);
        assertThatThrownBy(Mode::generator).isInstanceOf(TensorException.class)
                .hasMessageContaining("Mode.training");
    }

    @Test
    void looksUpRowsOfAnEmbedding() {
        Embedding table = Embedding.of(Parameter.of(Tensor.of(new float[] {1, 2, 3, 4, 5, 6}, 3, 2)));
        assertThat(table.forward(Tensor.of(new long[] {2, 0}, 1, 2)).toFloats()).containsExactly(5, 6, 1, 2);
        assertThatThrownBy(() -> table.forward(Tensor.of(new long[] {3}))).isInstanceOf(TensorException.class);
    }

    /** Computes attention element by element from the layer's weights. */
    @Test
    void computesAttentionAsDefinedInItsPaper() {
        int n = 2;
        int length = 3;
        int width = 4;
        int heads = 2;
        MultiHeadAttention attention = MultiHeadAttention.of(width, heads, g).causal();
        Tensor x = g.normal(n, length, width);
        double[] in = attention.state().get("project.weight").value().toDoubles();
        double[] inBias = attention.state().get("project.bias").value().toDoubles();
        double[] out = attention.state().get("out.weight").value().toDoubles();
        double[] outBias = attention.state().get("out.bias").value().toDoubles();
        double[] expected = new double[n * length * width];
        int head = width / heads;
        for (int b = 0; b < n; b++) {
            double[][] qkv = new double[length][];
            for (int t = 0; t < length; t++) {
                qkv[t] = affine(in, inBias, x.narrow(0, b, 1).narrow(1, t, 1).toDoubles());
            }
            for (int t = 0; t < length; t++) {
                double[] mixed = new double[width];
                for (int h = 0; h < heads; h++) {
                    double[] weights = new double[t + 1];
                    double sum = 0;
                    for (int s = 0; s <= t; s++) {
                        for (int k = 0; k < head; k++) {
                            weights[s] += qkv[t][h * head + k] * qkv[s][width + h * head + k] / Math.sqrt(head);
                        }
                        weights[s] = Math.exp(weights[s]);
                        sum += weights[s];
                    }
                    for (int s = 0; s <= t; s++) {
                        for (int k = 0; k < head; k++) {
                            mixed[h * head + k] += weights[s] / sum * qkv[s][2 * width + h * head + k];
                        }
                    }
                }
                System.arraycopy(affine(out, outBias, mixed), 0, expected, (b * length + t) * width, width);
            }
        }
        assertThat(attention.forward(x).toDoubles()).usingComparatorWithPrecision(1e-5).containsExactly(expected);
    }

    private static double[] affine(double[] weight, double[] bias, double[] x) {
        double[] y = bias.clone();
        for (int i = 0; i < y.length; i++) {
            for (int k = 0; k < x.length; k++) {
                y[i] += weight[i * x.length + k] * x[k];
            }
        }
        return y;
    }

    @Test
    void doesNotFuseALayerWithSeveralReaders() {
        Linear linear = Linear.of(3, 3, g);
        Layer graph = Graph.of(x -> {
            Graph.Node y = x.then(linear);
            return y.then(new Relu()).add(y);
        });
        Tensor x = g.normal(4, 3);
        Tensor y = linear.forward(x);
        assertThat(graph.forward(x).toFloats()).isEqualTo(y.relu().add(y).toFloats());
        Layer chain = Graph.of(n -> n.then(linear).then(new Relu()));
        assertThat(chain.forward(x).toFloats()).isEqualTo(y.relu().toFloats());
        Graph.Node[] foreign = new Graph.Node[1];
        Graph.of(n -> foreign[0] = n);
        assertThatThrownBy(() -> Graph.of(n -> n.add(foreign[0]))).isInstanceOf(TensorException.class);
    }

    @Test
    void drawsInitialWeightsWithTheMomentsOfTheirPapers() {
        long[] shape = {64, 32, 3, 3};
        double in = 32 * 9;
        double out = 64 * 9;
        assertMoments(Initializer.kaimingUniform(Initializer.Fan.IN), shape, Math.sqrt(2 / in), Math.sqrt(6 / in));
        assertMoments(Initializer.kaimingUniform(Initializer.Fan.OUT), shape, Math.sqrt(2 / out), Math.sqrt(6 / out));
        assertMoments(Initializer.kaimingNormal(Initializer.Fan.OUT), shape, Math.sqrt(2 / out), 1);
        assertMoments(Initializer.xavierUniform(), shape, Math.sqrt(2 / (in + out)), Math.sqrt(6 / (in + out)));
        assertMoments(Initializer.xavierNormal(), shape, Math.sqrt(2 / (in + out)), 1);
        assertMoments(Initializer.fanInUniform(), shape, Math.sqrt(1 / in / 3), Math.sqrt(1 / in));
        assertThat(Parameter.of(Initializer.constant(3), g, 2).value().toFloats()).containsExactly(3, 3);
        assertThatThrownBy(() -> Parameter.of(Initializer.xavierNormal(), g, 2)).isInstanceOf(TensorException.class);
    }

    private void assertMoments(Initializer initializer, long[] shape, double deviation, double bound) {
        Tensor w = Parameter.of(initializer, g, shape).value();
        double n = w.count();
        assertThat(w.mean().item()).isCloseTo(0, within(5 * deviation / Math.sqrt(n)));
        assertThat(Math.sqrt(w.square().mean().item())).isCloseTo(deviation, within(0.02 * deviation));
        assertThat(w.abs().max().item()).isLessThanOrEqualTo(bound);
    }

    @Test
    void drawsTruncatedAndOrthogonalWeights() {
        Tensor w = Initializer.truncatedNormal(1, 2, -1, 3).draw(Shape.of(100, 100), g);
        assertThat(w.min().item()).isBetween(-1.0, -0.9);
        assertThat(w.max().item()).isBetween(2.9, 3.0);
        assertThat(w.mean().item()).isCloseTo(1, within(0.05));
        // The deviation of a standard normal distribution within ±1 is 0.5396.
        assertThat(w.sub(1).square().mean().item()).isCloseTo(4 * 0.5396 * 0.5396, within(0.05));
        assertThatThrownBy(() -> Initializer.truncatedNormal(0, 1, 50, 51).draw(Shape.of(9), g))
                .isInstanceOf(TensorException.class).hasMessageContaining("wider bounds");
        for (long[] shape : new long[][] {{7, 7}, {3, 8}, {9, 2, 2}}) {
            Tensor q = Initializer.orthogonal(2).draw(Shape.of(shape), g).reshape(shape[0], -1);
            Tensor product = q.size(0) <= q.size(1) ? q.matmul(q.transpose(0, 1)) : q.transpose(0, 1).matmul(q);
            assertThat(product.sub(Tensor.eye(product.size(0)).mul(4)).abs().max().item()).isLessThan(1e-5);
        }
    }

    /** A channel or a sample is dropped as a whole, and what is kept grows so that the mean stays. */
    @Test
    void dropsChannelsAndSamplesOnlyInTraining() {
        Tensor x = Tensor.ones(400, 5, 6);
        for (Layer layer : new Layer[] {new Dropout2d(0.25), new StochasticDepth(0.25)}) {
            Tensor y = Mode.training(g, () -> layer.forward(x));
            Tensor parts = y.reshape(layer instanceof Dropout2d ? 2000 : 400, -1);
            assertThat(parts.max(1).toFloats()).isEqualTo(parts.neg().max(1).neg().toFloats());
            assertThat(parts.eq(0).sum().item() / y.count()).isCloseTo(0.25, within(0.06));
            assertThat(y.mean().item()).isCloseTo(1, within(0.08));
            assertThat(layer.forward(x)).isSameAs(x);
        }
        assertThatThrownBy(() -> new StochasticDepth(1)).isInstanceOf(TensorException.class);
    }

    @Test
    void ignoresThePaddingOfTextsAndBags() {
        Embedding table = Embedding.of(6, 3, g).padding(2);
        Tensor index = Tensor.of(new long[] {1, 2, 5, 2, 2, 2}, 2, 3);
        Tensor weight = table.weight().value();
        Tape tape = new Tape().watch(weight);
        Tensor sum = tape.record(() -> table.forward(index).sum());
        assertThat(tape.backward(sum).of(weight).sum(1).toFloats()).containsExactly(0, 3, 0, 0, 0, 3);
        Tensor rows = table.forward(index);
        assertThat(rows.narrow(1, 1, 1).abs().sum().item()).isZero();
        float[] first = weight.narrow(0, 1, 1).toFloats();
        float[] last = weight.narrow(0, 5, 1).toFloats();
        for (EmbeddingBag.Join join : EmbeddingBag.Join.values()) {
            EmbeddingBag bag = EmbeddingBag.of(6, 3, join, g).padding(2);
            bag.parameters().get("weight").set(weight);
            float[] expected = new float[6];
            for (int i = 0; i < 3; i++) {
                expected[i] = switch (join) {
                    case SUM -> first[i] + last[i];
                    case MEAN -> (first[i] + last[i]) / 2;
                    case MAX -> Math.max(first[i], last[i]);
                };
            }
            assertThat(bag.forward(index).toFloats()).usingComparatorWithPrecision(1e-6f).containsExactly(expected);
        }
    }

    /** In f16 the squares of these weights are 0, and the sum of these rows is infinite. */
    @Test
    void sumsInF32IfLayersComputeInF16() {
        Linear linear = Linear.withoutBias(4, 3, g);
        linear.weight().set(linear.weight().master().mul(1e-4));
        WeightNorm norm = WeightNorm.of(linear);
        Tensor x = g.normal(5, 4);
        assertThat(Precision.of(DType.F16).forward(norm, x).toFloats())
                .containsExactly(norm.forward(x).toFloats(), within(2e-6f));
        EmbeddingBag bag = EmbeddingBag.of(3, 2, EmbeddingBag.Join.MEAN, g).padding(0);
        bag.parameters().get("weight").set(Tensor.full(DType.F32, 100, 3, 2));
        Tensor index = Tensor.concat(1, Tensor.full(DType.I64, 1, 1, 1000), Tensor.full(DType.I64, 0, 1, 1));
        Tensor mean = Precision.of(DType.F16).run(() -> bag.forward(index));
        assertThat(mean.dtype()).isEqualTo(DType.F16);
        assertThat(mean.toFloats()).containsExactly(100, 100);
    }

    /** In f16 the number of values in a channel is infinite. */
    @Test
    void differentiatesTheMeanOfAChannelInF16() {
        int n = 70_000;
        Tensor x = Tensor.full(DType.F16, 1, n, 1);
        Tape tape = new Tape().watch(x);
        Tensor mean = tape.record(() -> Norms.batchNorm(x, null, null, 1e-5).mean().sum());
        Tensor gradient = tape.backward(mean).of(x);
        assertThat(gradient.max().item()).isCloseTo(1.0 / n, within(1e-7));
        assertThat(gradient.min().item()).isCloseTo(1.0 / n, within(1e-7));
    }

    @Test
    void interpolatesBetweenIntegersInFloats() {
        Tensor x = Tensor.of(new float[] {0, 100, 200, 50}, 1, 1, 2, 2);
        Tensor bytes = x.to(DType.U8);
        for (Layer layer : new Layer[] {Upsample.bilinear(2), Upsample.bicubic(2)}) {
            assertThat(layer.forward(bytes).toFloats()).isEqualTo(layer.forward(x).toFloats());
        }
        assertThat(Upsample.nearest(2).forward(bytes).dtype()).isEqualTo(DType.U8);
    }

    @Test
    void refusesShapesThatLayersCannotSplit() {
        Tensor x = Tensor.ones(2, 3, 5, 5);
        for (Layer layer : new Layer[] {new Glu(1), new PixelShuffle(2), new PixelUnshuffle(2), PRelu.of(4),
            InstanceNorm.of(4), EmbeddingBag.of(3, 2, EmbeddingBag.Join.SUM, g)}) {
            assertThatThrownBy(() -> layer.forward(x)).isInstanceOf(TensorException.class)
                    .hasMessageContaining("[2, 3, 5, 5]");
        }
    }

    @Test
    void countsParametersAndFlopsInASummary() {
        Linear shared = Linear.of(8, 8, g);
        Sequential net = Sequential.of(Conv2d.of(3, 8, 3).padding(1).build(g), BatchNorm.of(8), new Relu(),
                new GlobalAvgPool(), shared, Residual.of(shared), x -> x.mul(2));
        Summary summary = Summary.of(net, 2, 3, 4, 4);
        assertThat(summary.rows()).extracting(r -> r.path() + " " + r.layer()).containsExactly("0 Conv2d",
                "1 BatchNorm", "2 Relu", "3 GlobalAvgPool", "4 Linear", "4 Linear", "6 Function");
        Summary.Row conv = summary.rows().getFirst();
        assertThat(conv.parameters()).isEqualTo(8 * 27 + 8);
        // 2·27 operations for each of 2·8·4·4 results, and one for the bias.
        assertThat(conv.flops()).isEqualTo(2 * 8 * 16 * (2 * 27 + 1));
        assertThat(conv.output().dims()).containsExactly(2, 8, 4, 4);
        assertThat(summary.rows().get(4).flops()).isEqualTo(2 * 8 * (2 * 8 + 1));
        assertThat(summary.parameters()).isEqualTo(8 * 27 + 8 + 16 + 8 * 8 + 8);
        assertThat(summary.toString().lines().toList()).hasSize(11).element(2).asString()
                .matches("0 Conv2d +\\[2, 8, 4, 4\\] +224 +14.1 k");
        assertThat(summary.toString().lines().toList().getLast()).startsWith("total").contains(" 312 ");
    }

    /** Positions belong to the model itself, and the head shares the table of tokens. */
    @Test
    void showsParametersOfContainersInASummary() {
        try (Gpt2 model = Gpt2.of(50, 7, 8, 1, 2, g)) {
            Summary summary = Summary.of(model, Tensor.zeros(2, 7).to(DType.I64));
            Summary.Row first = summary.rows().getFirst();
            assertThat(first.layer()).isEqualTo("Gpt2");
            assertThat(first.parameters()).isEqualTo(7 * 8);
            assertThat(first.flops()).isGreaterThan(2 * 2 * 7 * 8 * 50);
            assertThat(summary.rows().stream().mapToLong(Summary.Row::parameters).sum())
                    .isEqualTo(summary.parameters());
            assertThat(summary.rows().stream().mapToLong(Summary.Row::flops).sum()).isEqualTo(summary.flops());
        }
    }

    @Test
    void movesAndConvertsParameters() {
        Linear linear = Linear.of(2, 2, g);
        float[] before = linear.weight().value().toFloats();
        Tensor old = linear.weight().value();
        linear.to(Device.reference());
        assertThat(linear.weight().value().device()).isEqualTo(Device.reference());
        assertThat(old.isClosed()).isTrue();
        assertThat(linear.weight().value().toFloats()).isEqualTo(before);
        linear.to(DType.F64).to(Device.cpu());
        assertThat(linear.forward(Tensor.full(DType.F64, 1, 1, 2)).dtype()).isEqualTo(DType.F64);
        linear.close();
        assertThat(linear.bias().value().isClosed()).isTrue();
        assertThatThrownBy(() -> linear.forward(Tensor.full(DType.F64, 1, 1, 2))).isInstanceOf(TensorException.class)
                .extracting(e -> ((TensorException) e).problem()).isEqualTo(TensorException.Problem.CLOSED);
    }

    @Test
    void keepsParametersAfterTheScopeOfTheirCreation() {
        Linear linear;
        try (Scope inner = Scope.open()) {
            linear = Linear.of(2, 2, g);
            assertThat(inner.size()).isZero();
        }
        assertThat(linear.forward(Tensor.ones(1, 2)).count()).isEqualTo(2);
        assertThatThrownBy(() -> linear.weight().set(Tensor.ones(2))).isInstanceOf(TensorException.class);
        linear.close();
    }
}
