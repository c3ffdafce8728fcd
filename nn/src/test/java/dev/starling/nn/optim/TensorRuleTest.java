package dev.starling.nn.optim;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.nn.FarProvider;
import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.DoubleStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Compares optimisers of whole matrices with the formulas of their papers, in loops in double precision. */
class TensorRuleTest {
    private static final int STEPS = 10;
    private static final double RATE = 0.02;
    private static final double DECAY = 0.1;

    private Scope scope;

    @BeforeEach
    void open() {
        scope = Scope.open();
    }

    @AfterEach
    void close() {
        scope.close();
    }

    /** A tall matrix, a wide stack of matrices, and a bias. */
    private static final class Model implements Layer {
        private final Parameter tall = Parameter.of(Generator.seeded(1).normal(5, 3));
        private final Parameter wide = Parameter.of(Generator.seeded(2).normal(2, 2, 3));
        private final Parameter bias = Parameter.of(Generator.seeded(3).normal(4));

        @Override
        public Tensor forward(Tensor x) {
            return x;
        }

        @Override
        public void visit(Visitor visitor) {
            visitor.parameter("tall", tall);
            visitor.parameter("wide", wide);
            visitor.parameter("bias", bias);
        }
    }

    private static Tensor[] gradients(int step) {
        return new Tensor[] {Generator.seeded(100 + step).normal(5, 3), Generator.seeded(200 + step).normal(2, 2, 3),
            Generator.seeded(300 + step).normal(4)};
    }

    /** Computes the next weights of one parameter, whose state it keeps. */
    private interface Formula {
        double[] next(double[] p, double[] g, int step);
    }

    private static void assertFollows(TensorRuleBuilder<?> builder, Model model, Function<Parameter, Formula> formula) {
        List<Parameter> all = List.of(model.tall, model.wide, model.bias);
        double[][] expected = all.stream().map(p -> p.value().toDoubles()).toArray(double[][]::new);
        Formula[] formulas = all.stream().map(formula).toArray(Formula[]::new);
        try (model; Optimizer optimizer = builder.rate(RATE).weightDecay(DECAY).withoutDecay("bias"::equals).build()) {
            for (int t = 1; t <= STEPS; t++) {
                Tensor[] gradients = gradients(t);
                optimizer.step(gradients);
                for (int i = 0; i < formulas.length; i++) {
                    expected[i] = formulas[i].next(expected[i], gradients[i].toDoubles(), t);
                    assertThat(all.get(i).value().toDoubles()).as("parameter %d after step %d", i, t)
                            .usingComparatorWithPrecision(2e-5).containsExactly(expected[i]);
                }
            }
            assertThat(optimizer.steps()).isEqualTo(STEPS);
        }
    }

    private static double norm(double... x) {
        return Math.sqrt(Arrays.stream(x).map(v -> v * v).sum());
    }

    /** Adam's direction, including a decay. */
    private static double[] direction(double[] p, double[] g, double[][] s, int t, double epsilon, double decay) {
        double[] u = new double[p.length];
        for (int i = 0; i < u.length; i++) {
            s[0][i] = 0.9 * s[0][i] + 0.1 * g[i];
            s[1][i] = 0.999 * s[1][i] + 0.001 * g[i] * g[i];
            u[i] = s[0][i] / (1 - Math.pow(0.9, t)) / (Math.sqrt(s[1][i] / (1 - Math.pow(0.999, t))) + epsilon)
                    + decay * p[i];
        }
        return u;
    }

    @Test
    void followsTheFormulaOfLamb() {
        Model model = new Model();
        assertFollows(Lamb.over(model), model, parameter -> {
            double[][] s = new double[2][(int) parameter.shape().count()];
            return (p, g, t) -> {
                double[] u = direction(p, g, s, t, 1e-6, parameter == model.bias ? 0 : DECAY);
                double ratio = norm(p) / norm(u);
                double[] next = p.clone();
                Arrays.setAll(next, i -> p[i] - RATE * ratio * u[i]);
                return next;
            };
        });
    }

    /** Parameters of zeros, as biases begin, step by the direction itself. */
    @Test
    void movesParametersOfZerosByLamb() {
        Parameter zeros = Parameter.filled(0, 3);
        Layer layer = layer(zeros);
        try (layer; Optimizer lamb = Lamb.over(layer).rate(0.5).weightDecay(0).epsilon(0).build()) {
            lamb.step(Tensor.of(new float[] {2.0f, -3, 0.5f}));
            assertThat(zeros.value().toDoubles()).usingComparatorWithPrecision(1e-6).containsExactly(-0.5, 0.5, -0.5);
        }
    }

    private static Layer layer(Parameter parameter) {
        return new Layer() {
            @Override
            public Tensor forward(Tensor x) {
                return x;
            }

            @Override
            public void visit(Visitor visitor) {
                visitor.parameter("weight", parameter);
            }
        };
    }

    @Test
    void followsTheFormulaOfAdafactor() {
        Model model = new Model();
        assertFollows(Adafactor.over(model), model, parameter -> {
            long[] d = parameter.shape().dims();
            int columns = (int) d[d.length - 1];
            int rows = d.length == 1 ? 1 : (int) d[d.length - 2];
            int count = (int) parameter.shape().count();
            double[] rowSquare = new double[count / columns];
            double[] columnSquare = new double[count / rows];
            double[] square = new double[count];
            return (p, g, t) -> {
                double share = Math.pow(t, -0.8);
                double[] u = new double[count];
                for (int first = 0; d.length > 1 && first < count; first += rows * columns) {
                    double meanOfRows = 0;
                    for (int r = 0; r < rows; r++) {
                        double[] row = Arrays.copyOfRange(g, first + r * columns, first + (r + 1) * columns);
                        int at = first / columns + r;
                        rowSquare[at] += share * (norm(row) * norm(row) / columns - rowSquare[at]);
                        meanOfRows += rowSquare[at] / rows;
                    }
                    for (int c = 0; c < columns; c++) {
                        int begin = first + c;
                        double[] column = DoubleStream.iterate(0, r -> r < rows, r -> r + 1)
                                .map(r -> g[begin + (int) r * columns]).toArray();
                        int at = first / rows + c;
                        columnSquare[at] += share * (norm(column) * norm(column) / rows - columnSquare[at]);
                        for (int r = 0; r < rows; r++) {
                            u[begin + r * columns] = g[begin + r * columns] / Math.sqrt(rowSquare[first / columns + r]
                                    * columnSquare[at] / meanOfRows);
                        }
                    }
                }
                for (int i = 0; d.length == 1 && i < count; i++) {
                    square[i] += share * (g[i] * g[i] - square[i]);
                    u[i] = g[i] / Math.sqrt(square[i]);
                }
                double excess = Math.max(1, norm(u) / Math.sqrt(count));
                double rate = Math.max(1e-3, norm(p) / Math.sqrt(count)) * Math.min(RATE, 1 / Math.sqrt(t));
                double[] next = p.clone();
                Arrays.setAll(next, i -> p[i] * (1 - RATE * (parameter == model.bias ? 0 : DECAY))
                        - rate * u[i] / excess);
                return next;
            };
        });
    }

    /** With a rate above 1/√t, the rate is 1/√t. */
    @Test
    void boundsTheRateOfAdafactor() {
        Parameter one = Parameter.filled(2, 3);
        Layer layer = layer(one);
        try (layer; Optimizer adafactor = Adafactor.over(layer).rate(10).build()) {
            adafactor.step(Tensor.of(new float[] {1.0f, 1, 1}));
            assertThat(one.value().toDoubles()).usingComparatorWithPrecision(1e-5).containsExactly(0, 0, 0);
        }
    }

    /** In bf16, 300 + 1 is 300. */
    @Test
    void countsTheStepsOfAdafactorBeside16BitWeights() {
        Parameter weight = Parameter.filled(1, 2);
        Layer layer = layer(weight);
        layer.to(DType.BF16);
        try (layer; Optimizer adafactor = Adafactor.over(layer).build()) {
            Parameter count = adafactor.state().get("weight.count");
            count.set(Tensor.scalar(300));
            adafactor.step(Tensor.full(DType.BF16, 1, 2));
            assertThat(count.value().item()).isEqualTo(301);
            assertThat(weight.value().dtype()).isEqualTo(DType.BF16);
            assertThat(weight.value().toDoubles()).usingComparatorWithPrecision(4e-3).containsExactly(0.99, 0.99);
        }
    }

    /** In bf16, 0.5 + 0.001 is 0.5, and in f16 the square of 0.001, times 0.001, is 0. */
    @ParameterizedTest
    @EnumSource(value = DType.class, names = {"F16", "BF16"})
    void keepsTheMomentsOf16BitWeightsInF32(DType type) {
        Parameter weight = Parameter.filled(0, 2);
        Layer layer = layer(weight);
        layer.to(type);
        try (layer; Optimizer muon = Muon.over(layer).rate(0.5).build()) {
            muon.step(Tensor.full(type, 1e-3, 2));
            assertThat(weight.value().toDoubles()).usingComparatorWithPrecision(4e-3).containsExactly(-0.5, -0.5);
            Parameter ones = muon.state().get("weight.squareOfOnes");
            ones.set(Tensor.scalar(0.5));
            muon.step(Tensor.full(type, 1e-3, 2));
            assertThat(ones.value().item()).isCloseTo(0.5005, within(1e-6));
        }
    }

    /** In f16, the sum of 700 times 100 is infinite. */
    @Test
    void checksGradientsOf16BitsByTheirSumInF32() {
        Parameter weight = Parameter.filled(1, 700);
        Layer layer = layer(weight);
        layer.to(DType.F16).to(FarProvider.device());
        try (layer; Optimizer lamb = Lamb.over(layer).build()) {
            lamb.step(Tensor.full(DType.F16, 100, 700));
            assertThat(lamb.state().get("weight.mean").value().toFloats()).doesNotContain(0);
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void followsTheFormulaOfMuon(boolean nesterov) {
        Model model = new Model();
        assertFollows(Muon.over(model).momentum(0.9, nesterov), model, parameter -> {
            int count = (int) parameter.shape().count();
            double[][] s = new double[2][count];
            if (parameter == model.bias) {
                return (p, g, t) -> {
                    double[] u = direction(p, g, s, t, 1e-8, 0);
                    double[] next = p.clone();
                    Arrays.setAll(next, i -> p[i] - RATE * u[i]);
                    return next;
                };
            }
            int rows = (int) parameter.shape().dim(0);
            return (p, g, t) -> {
                double[] ahead = new double[count];
                for (int i = 0; i < count; i++) {
                    s[0][i] = 0.9 * s[0][i] + 0.1 * g[i];
                    ahead[i] = nesterov ? 0.9 * s[0][i] + 0.1 * g[i] : s[0][i];
                }
                double[] u = nearest(ahead, rows, count / rows);
                double scale = 0.2 * Math.sqrt(Math.max(rows, count / rows));
                double[] next = p.clone();
                Arrays.setAll(next, i -> p[i] * (1 - RATE * DECAY) - RATE * scale * u[i]);
                return next;
            };
        });
    }

    /** The iteration {@code x = 3.4445x - 4.775(xxᵀ)x + 2.0315(xxᵀ)²x}, element by element. */
    private static double[] nearest(double[] matrix, int rows, int columns) {
        double length = norm(matrix);
        double[] x = Arrays.stream(matrix).map(v -> v / length).toArray();
        for (int n = 0; n < 5; n++) {
            double[] cubic = product(product(x, transposed(x, rows, columns), rows, columns, rows), x, rows, rows,
                    columns);
            double[] quintic = product(product(x, transposed(x, rows, columns), rows, columns, rows), cubic, rows, rows,
                    columns);
            double[] before = x;
            x = new double[matrix.length];
            for (int i = 0; i < x.length; i++) {
                x[i] = 3.4445 * before[i] - 4.775 * cubic[i] + 2.0315 * quintic[i];
            }
        }
        return x;
    }

    private static double[] transposed(double[] a, int rows, int columns) {
        double[] t = new double[a.length];
        for (int i = 0; i < a.length; i++) {
            t[i % columns * rows + i / columns] = a[i];
        }
        return t;
    }

    private static double[] product(double[] a, double[] b, int rows, int inner, int columns) {
        double[] y = new double[rows * columns];
        for (int i = 0; i < y.length; i++) {
            for (int k = 0; k < inner; k++) {
                y[i] += a[i / columns * inner + k] * b[k * columns + i % columns];
            }
        }
        return y;
    }

    static List<Function<Layer, TensorRuleBuilder<?>>> builders() {
        return List.of(Lamb::over, Adafactor::over, m -> Muon.over(m).matrices("tall"::equals));
    }

    /** A resumed optimiser, a parameter that is frozen for a while, and a gradient that is not finite. */
    @ParameterizedTest
    @MethodSource("builders")
    void resumesAndSkips(Function<Layer, TensorRuleBuilder<?>> builder) {
        try (Model model = new Model(); Optimizer first = builder.apply(model).build()) {
            first.step(gradients(1));
            float[] wide = model.wide.value().toFloats();
            model.freeze("wide"::equals);
            first.step(gradients(2));
            assertThat(model.wide.value().toFloats()).isEqualTo(wide);
            model.unfreeze(path -> true);
            Tensor[] broken = gradients(3);
            broken[0] = broken[0].div(0);
            Map<String, Parameter> before = first.state();
            List<float[]> values = before.values().stream().map(p -> p.value().toFloats()).toList();
            assertThatThrownBy(() -> first.step(broken)).isInstanceOf(TensorException.class)
                    .hasMessageContaining("tall");
            first.step(Tensor.scalar(Double.NaN), gradients(3));
            assertThat(before.values().stream().map(p -> p.value().toFloats()).toList()).usingRecursiveComparison()
                    .isEqualTo(values);
            assertThat(model.wide.value().toFloats()).isEqualTo(wide);
            first.resume(2);
            try (Model copy = new Model(); Optimizer second = builder.apply(copy).build()) {
                model.state().forEach((path, p) -> copy.state().get(path).set(p.value()));
                assertThat(second.state().keySet()).isEqualTo(before.keySet());
                before.forEach((path, p) -> second.state().get(path).set(p.value()));
                second.resume(first.steps(), first.missed());
                for (int t = 3; t < 6; t++) {
                    first.step(gradients(t));
                    second.step(gradients(t));
                }
                model.state().forEach((path, p) -> assertThat(copy.state().get(path).value().toFloats()).as(path)
                        .isEqualTo(p.value().toFloats()));
                assertThat(second.settings()).isEqualTo(first.settings());
            }
        }
    }

    /** All gradients are finite, but the direction of one element is 0/0. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void changesNothingIfADirectionIsNotFinite(boolean far) {
        Parameter weight = Parameter.filled(1, 2);
        Layer layer = layer(weight);
        if (far) {
            layer.to(FarProvider.device());
        }
        try (layer; Optimizer lamb = Lamb.over(layer).epsilon(0).weightDecay(0).build()) {
            Tensor gradient = Tensor.of(new float[] {0, 1});
            if (far) {
                lamb.step(gradient);
                assertThat(lamb.skipped()).isTrue();
            } else {
                assertThatThrownBy(() -> lamb.step(gradient)).isInstanceOf(TensorException.class)
                        .hasMessageContaining("weight");
            }
            assertThat(weight.value().toFloats()).containsExactly(1, 1);
            lamb.state().forEach((path, p) -> assertThat(p.value().toFloats()).as(path).containsOnly(0));
            lamb.step(Tensor.ones(2));
            assertThat(weight.value().toFloats()).doesNotContain(1);
            lamb.state().forEach((path, p) -> assertThat(p.value().toFloats()).as(path).doesNotContain(0));
        }
    }

    @Test
    void describesItself() {
        try (Model model = new Model(); Optimizer muon = Muon.over(model).rate(0.5).build()) {
            assertThat(muon.toString()).startsWith("Orthogonal[momentum=0.95, nesterov=true], rate constant 0.5");
            assertThat(muon.settings().get("optimiser")).contains("Orthogonal", "of tall, wide", "Moments", "of bias");
            assertThat(muon.rule(0)).isNull();
        }
    }
}
