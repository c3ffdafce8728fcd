package dev.starling.autograd;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.autograd.CustomGradient.Pullback;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.function.Function;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class CustomGradientTest {
    private static final Function<Tensor[], Tensor> QUOTIENT = in -> in[0].div(in[1].exp());
    private static final Pullback OF_QUOTIENT = (in, y, g) -> new Tensor[] {g.div(in[1].exp()), g.mul(y).neg()};

    private Scope scope;

    @BeforeEach
    void open() {
        scope = Scope.open();
    }

    @AfterEach
    void close() {
        scope.close();
    }

    private static Tensor doubles(int seed) {
        return Generator.seeded(seed).normal(3, 4).to(DType.F64);
    }

    /** First and second derivatives, as factors of a larger expression. */
    @Test
    void agreesWithFiniteDifferences() {
        GradientCheck.check(in -> CustomGradient.apply(QUOTIENT, OF_QUOTIENT, in[0].square(), in[1]).mul(in[1]),
                doubles(1), doubles(2));
        Pullback wrong = (in, y, g) -> new Tensor[] {g.div(in[1].exp()), g.mul(y)};
        assertThatThrownBy(() -> GradientCheck.check(in -> CustomGradient.apply(QUOTIENT, wrong, in), doubles(1),
                doubles(2))).isInstanceOf(TensorException.class).hasMessageContaining("derivative");
    }

    @Test
    void replacesTheGradientOfTheFunction() {
        Tensor x = Tensor.of(new double[] {0.4, -1.6});
        assertThat(Derivatives.gradient(in -> CustomGradient.apply(v -> v[0].round(), (v, y, g) -> new Tensor[] {g}, in)
                .mul(3).sum(), x).toDoubles()).containsExactly(3, 3);
    }

    /** Gradient reversal: the function returns its input. */
    @Test
    void servesTheIdentity() {
        Tensor x = Tensor.of(new double[] {2.0, 5.0});
        assertThat(Derivatives.gradient(in -> CustomGradient.apply(v -> v[0], (v, y, g) -> new Tensor[] {g.neg()}, in)
                .square().sum(), x).toDoubles()).containsExactly(-4, -10);
    }

    /** The result is one constant in both calls. */
    @Test
    void passesGradientsOnWhereCallsReturnTheSameTensor() {
        Tensor a = Tensor.of(new double[] {2.0, 3.0});
        Tensor b = Tensor.of(new double[] {4.0, 5.0});
        Tensor hard = Tensor.of(new double[] {0.0, 1.0});
        Pullback unchanged = (in, r, g) -> new Tensor[] {g};
        Tape tape = new Tape().watch(a, b);
        Tensor y = tape.record(() -> CustomGradient.apply(in -> hard, unchanged, a).mul(2)
                .add(CustomGradient.apply(in -> hard, unchanged, b).mul(5)).sum());
        Gradients gradients = tape.backward(y);
        assertThat(gradients.of(a).toDoubles()).containsExactly(2, 2);
        assertThat(gradients.of(b).toDoubles()).containsExactly(5, 5);
    }

    @Test
    void servesFunctionsThatChangeTheirArgument() {
        Tensor x = Tensor.of(new double[] {-1.0, 0.0});
        Function<Tensor[], Tensor> function = in -> {
            in[0] = in[0].relu();
            return in[0].exp();
        };
        assertThat(Derivatives.gradient(t -> CustomGradient.apply(function, (in, y, g) ->
                new Tensor[] {g.mul(y).add(in[0])}, t).sum(), x).toDoubles()).containsExactly(0, 1);
        Tensor[] inputs = {x};
        CustomGradient.apply(function, (in, y, g) -> new Tensor[] {g}, inputs);
        assertThat(inputs).containsExactly(x);
    }

    /** Other tapes use the gradient of the result twice; afterwards the backward pass frees it. */
    @Test
    void differentiatesByOtherTapes() {
        Tensor a = Tensor.of(new double[] {2.0, -1.0});
        Tensor b = Tensor.of(new double[] {3.0, 5.0});
        Tensor[] seen = new Tensor[1];
        Pullback parts = (in, y, g) -> {
            seen[0] = g;
            return new Tensor[] {Derivatives.vjp(u -> u.mul(in[1]), in[0], g),
                Derivatives.vjp(v -> in[0].mul(v), in[1], g)};
        };
        Tape tape = new Tape().watch(a, b);
        Tensor loss = tape.record(() -> CustomGradient.apply(in -> in[0].mul(in[1]), parts, a, b).square().sum());
        Gradients gradients = tape.backward(loss);
        assertThat(gradients.of(a).toDoubles()).containsExactly(36, -50);
        assertThat(gradients.of(b).toDoubles()).containsExactly(24, 10);
        assertThat(seen[0].isClosed()).isTrue();
    }

    @Test
    void passesNoGradientWhereItReturnsNull() {
        Tensor a = Tensor.of(new double[] {2.0});
        Tensor b = Tensor.of(new double[] {3.0});
        Tape tape = new Tape().watch(a, b);
        Tensor y = tape.record(() -> CustomGradient.apply(in -> in[0].mul(in[1]), (in, r, g) ->
                new Tensor[] {g.mul(in[1]), null}, a, b).sum());
        Gradients gradients = tape.backward(y);
        assertThat(gradients.of(a).toDoubles()).containsExactly(3);
        assertThat(gradients.get(b)).isNull();
    }

    /** The outer tape sees the same step. */
    @Test
    void isRecordedByNestedTapes() {
        Tensor x = Tensor.of(new double[] {3.0});
        Tape outer = new Tape().watch(x);
        Tensor y = outer.record(() -> {
            Tape inner = new Tape().watch(x);
            Tensor cube = inner.record(() -> CustomGradient.apply(in -> in[0].pow(3), (in, r, g) ->
                    new Tensor[] {g.mul(in[0].square()).mul(3)}, x).sum());
            return inner.backward(cube).of(x).add(cube).sum();
        });
        // 3x² + x³ has the derivative 6x + 3x².
        assertThat(outer.backward(y).of(x).toDoubles()).containsExactly(18 + 27);
    }

    @Test
    void recordsOneStepOrNone() {
        Tensor x = Tensor.of(new double[] {1.0, 2.0});
        Tape tape = new Tape().watch(x);
        tape.record(() -> CustomGradient.apply(QUOTIENT, OF_QUOTIENT, x, x));
        assertThat(tape.size()).isEqualTo(1);
        Tensor constant = Tensor.of(new double[] {3.0});
        tape.record(() -> CustomGradient.apply(QUOTIENT, OF_QUOTIENT, constant, constant));
        assertThat(tape.size()).isEqualTo(1);
    }

    @Test
    void refusesGradientsThatDoNotFit() {
        Tensor x = Tensor.of(new double[] {1.0, 2.0});
        assertThatThrownBy(() -> Derivatives.gradient(in -> CustomGradient.apply(v -> v[0].exp(), (v, y, g) ->
                new Tensor[] {g, g}, in).sum(), x)).hasMessageContaining("one gradient for each of 1 inputs, got 2");
        assertThatThrownBy(() -> Derivatives.gradient(in -> CustomGradient.apply(v -> v[0].exp(), (v, y, g) ->
                new Tensor[] {g.sum()}, in).sum(), x)).isInstanceOf(TensorException.class)
                .hasMessageContaining("input 0 must have the input's shape");
    }
}
