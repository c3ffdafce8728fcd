package dev.starling.nn.optim;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.loss.Loss;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class LbfgsTest {
    private Scope scope;

    @BeforeEach
    void open() {
        scope = Scope.open();
    }

    @AfterEach
    void close() {
        scope.close();
    }

    private record Point(Parameter xy) implements Layer {
        static Point at(double x, double y) {
            return new Point(Parameter.of(Tensor.of(new double[] {x, y})));
        }

        @Override
        public Tensor forward(Tensor x) {
            return x;
        }

        @Override
        public void visit(Visitor visitor) {
            visitor.parameter("xy", xy);
        }

        /** Rosenbrock's valley, with the minimum 0 at (1, 1). */
        Tensor valley() {
            Tensor x = xy.value().narrow(0, 0, 1);
            Tensor y = xy.value().narrow(0, 1, 1);
            return y.sub(x.square()).square().mul(100).add(x.neg().add(1).square()).sum();
        }
    }

    @Test
    void followsRosenbrocksValley() {
        try (Point point = Point.at(-1.2, 1); Lbfgs lbfgs = Lbfgs.over(point).build()) {
            assertThat(lbfgs.step(point::valley)).isCloseTo(24.2, within(1e-9));
            double before = point.valley().item();
            for (int i = 0; i < 3; i++) {
                assertThat(lbfgs.step(point::valley)).isLessThanOrEqualTo(before);
                before = point.valley().item();
            }
            assertThat(point.xy.value().toDoubles()).usingComparatorWithPrecision(1e-6).containsExactly(1, 1);
        }
    }

    /** The minimum of a linear regression is known; parameters are several, and one of them is frozen. */
    @Test
    void solvesALeastSquaresProblem() {
        Generator random = Generator.seeded(1);
        try (Linear truth = Linear.of(6, 2, random); Linear model = Linear.of(6, 2, random);
                Lbfgs lbfgs = Lbfgs.over(model).history(5).build()) {
            Tensor x = random.normal(40, 6);
            Tensor y = truth.forward(x);
            model.bias().set(truth.bias().value());
            model.freeze("bias"::equals);
            float[] bias = model.bias().value().toFloats();
            lbfgs.step(() -> Loss.meanSquared().of(model.forward(x), y));
            lbfgs.step(() -> Loss.meanSquared().of(model.forward(x), y));
            assertThat(model.weight().value().toFloats()).usingComparatorWithPrecision(1e-4f)
                    .containsExactly(truth.weight().value().toFloats());
            assertThat(model.bias().value().toFloats()).isEqualTo(bias);
            model.unfreeze(path -> true);
            model.bias().set(Tensor.zeros(2));
            lbfgs.step(() -> Loss.meanSquared().of(model.forward(x), y));
            assertThat(model.bias().value().toFloats()).usingComparatorWithPrecision(1e-4f).containsExactly(bias);
        }
    }

    /** Each accepted length satisfies both conditions, also where the first is far too long or too short. */
    @Test
    void findsLengthsThatSatisfyTheWolfeConditions() {
        for (double first : new double[] {1e-4, 0.3, 1, 30, 1e4}) {
            Tensor direction = Tensor.of(new double[] {1.0});
            WolfeSearch.Point start = new WolfeSearch.Point(0, value(0), 0, Tensor.of(new double[] {slope(0)}));
            WolfeSearch.Point end = new WolfeSearch(start, direction, 1e-12, t ->
                    new WolfeSearch.Point(t, value(t), slope(t), direction)).from(first);
            assertThat(end.value()).isLessThanOrEqualTo(value(0) + 1e-4 * end.length() * slope(0));
            assertThat(Math.abs(slope(end.length()))).isLessThanOrEqualTo(-0.9 * slope(0));
        }
    }

    /** A function with two minima, which is NaN beyond 100. */
    private static double value(double t) {
        return t > 100 ? Double.NaN : Math.pow(t - 1, 2) * Math.pow(t - 4, 2) / 10 + 0.05 * t;
    }

    private static double slope(double t) {
        return t > 100 ? Double.NaN : (t - 1) * (t - 4) * (2 * t - 5) / 5 + 0.05;
    }

    /** The loss fails in the first search, and in a later one. */
    @Test
    void leavesTheParametersOfAFailedStep() {
        for (int evaluations : new int[] {1, 10}) {
            try (Point point = Point.at(-1.2, 1); Lbfgs lbfgs = Lbfgs.over(point).build()) {
                int[] left = {evaluations};
                assertThatThrownBy(() -> lbfgs.step(() -> {
                    if (left[0]-- == 0) {
                        throw new IllegalStateException("no loss");
                    }
                    return point.valley();
                })).hasMessage("no loss");
                assertThat(point.xy.value().toDoubles()).containsExactly(-1.2, 1);
            }
        }
    }

    @Test
    void refusesALossThatIsNotFinite() {
        try (Point point = Point.at(1, 2); Lbfgs lbfgs = Lbfgs.over(point).build()) {
            assertThatThrownBy(() -> lbfgs.step(() -> point.xy.value().sub(3).log().sum()))
                    .isInstanceOf(TensorException.class).hasMessageContaining("infinite or NaN");
            assertThat(point.xy.value().toDoubles()).containsExactly(1, 2);
            point.freeze(path -> true);
            assertThatThrownBy(() -> lbfgs.step(point::valley)).hasMessageContaining("frozen");
            assertThatThrownBy(() -> Lbfgs.over(point).history(0)).hasMessageContaining("at least 1");
        }
    }
}
