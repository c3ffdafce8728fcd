package dev.starling.jmh;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.starling.jmh.pytorch.Torch;
import dev.starling.nn.Initializer;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.bytedeco.javacpp.PointerScope;
import org.bytedeco.pytorch.FanModeType;
import org.bytedeco.pytorch.Nonlinearity;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.kFanIn;
import org.bytedeco.pytorch.kFanOut;
import org.bytedeco.pytorch.kLeakyReLU;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Initial weights and PyTorch's, which come from different random numbers: equal means, deviations, and ends of the
 * range, within what chance does to some ten thousand numbers.
 */
class InitializerParityTest {
    private static final double LEAKY = Math.sqrt(5);
    private static final List<Case> CASES = List.of(
            new Case("Initializer.constant", Initializer.constant(0.3), w -> torch.constant_(w, new Scalar(0.3))),
            new Case("Initializer.uniform", Initializer.uniform(-1, 3), w -> torch.uniform_(w, -1, 3)),
            new Case("Initializer.normal", Initializer.normal(1, 2), w -> torch.normal_(w, 1, 2)),
            // trunc_normal_ draws from the part of the distribution between the ends by its inverse.
            new Case("Initializer.truncatedNormal", Initializer.truncatedNormal(0.5, 1, -1, 1), w -> truncated(w, 0.5,
                    -1, 1)),
            new Case("Initializer.kaimingUniform", Initializer.kaimingUniform(Initializer.Fan.IN), w ->
                    torch.kaiming_uniform_(w, 0, new FanModeType(new kFanIn()), new Nonlinearity(new kLeakyReLU()))),
            new Case("Initializer.kaimingUniform", Initializer.kaimingUniform(Initializer.Fan.OUT), w ->
                    torch.kaiming_uniform_(w, 0, new FanModeType(new kFanOut()), new Nonlinearity(new kLeakyReLU()))),
            new Case("Initializer.kaimingNormal", Initializer.kaimingNormal(Initializer.Fan.IN), w ->
                    torch.kaiming_normal_(w, 0, new FanModeType(new kFanIn()), new Nonlinearity(new kLeakyReLU()))),
            new Case("Initializer.xavierUniform", Initializer.xavierUniform(), w -> torch.xavier_uniform_(w, 1)),
            new Case("Initializer.xavierNormal", Initializer.xavierNormal(), w -> torch.xavier_normal_(w, 1)),
            // What reset_parameters of nn.Linear and nn.Conv2d calls.
            new Case("Initializer.fanInUniform", Initializer.fanInUniform(), w -> torch.kaiming_uniform_(w, LEAKY,
                    new FanModeType(new kFanIn()), new Nonlinearity(new kLeakyReLU()))),
            new Case("Initializer.orthogonal", Initializer.orthogonal(1.5), w -> torch.orthogonal_(w, 1.5)));

    private record Case(String row, Initializer ours, UnaryOperator<Tensor> theirs) { }

    @BeforeAll
    static void useOneThread() {
        Torch.threads(1);
        torch.manual_seed(3);
    }

    private static Tensor truncated(Tensor w, double mean, double low, double high) {
        double root = Math.sqrt(2);
        torch.uniform_(w, erf((low - mean) / root), erf((high - mean) / root));
        return w.erfinv_().mul_(new Scalar(root)).add_(new Scalar(mean));
    }

    private static double erf(double x) {
        return torch.erf(Torch.tensor(new double[] {x}, 1)).item_double();
    }

    static Stream<Case> initialisers() {
        return CASES.stream();
    }

    @Test
    void comparesAllInitialisers() throws IOException {
        ParityPage.requireAll("Initialisers", CASES.stream().map(Case::row).toList());
    }

    @ParameterizedTest
    @MethodSource("initialisers")
    void drawsAsPyTorch(Case c) {
        for (long[] shape : new long[][] {{64, 32, 3, 3}, {150, 100}, {24, 48, 9}}) {
            try (Scope scope = Scope.open("test"); PointerScope theirs = new PointerScope()) {
                double[] ours = c.ours.draw(Shape.of(shape), Generator.seeded(5)).toDoubles();
                double[] expected = Torch.doubles(c.theirs.apply(torch.empty(shape)));
                double deviation = deviation(expected);
                double range = Math.max(1e-6, deviation);
                assertThat(mean(ours)).isCloseTo(mean(expected), within(6 * range / Math.sqrt(ours.length)));
                assertThat(deviation(ours)).isCloseTo(deviation, within(0.03 * range));
                boolean bounded = !c.row.endsWith("ormal") || c.row.contains("truncated");
                assertThat(max(ours)).isCloseTo(max(expected), within((bounded && !c.row.contains("orthogonal") ? 0.02
                        : 1.5) * range));
            }
        }
    }

    private static double mean(double... values) {
        return Arrays.stream(values).average().orElseThrow();
    }

    private static double deviation(double... values) {
        double mean = mean(values);
        return Math.sqrt(Arrays.stream(values).map(v -> (v - mean) * (v - mean)).average().orElseThrow());
    }

    private static double max(double... values) {
        return Arrays.stream(values).max().orElseThrow();
    }
}
