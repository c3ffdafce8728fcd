package dev.starling.autograd;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;
import static org.assertj.core.api.Assertions.withPrecision;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Losses;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Activation;
import dev.starling.tensor.op.Rule;
import dev.starling.tensor.op.Update;
import dev.starling.tensor.op.View;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Function;
import org.junit.jupiter.api.Test;

class TapeTest {
    private static Tensor doubles(double... values) {
        return Tensor.of(values);
    }

    @Test
    void differentiatesAClosedForm() {
        Tensor x = doubles(1, 2, 3);
        Tensor w = doubles(0.5, -1, 2);
        Tape tape = new Tape().watch(x, w);
        Tensor y = tape.record(() -> x.mul(w).exp().sum());
        Gradients g = tape.backward(y);
        for (int i = 0; i < 3; i++) {
            double e = Math.exp(x.toDoubles()[i] * w.toDoubles()[i]);
            assertThat(g.of(x).toDoubles()[i]).isCloseTo(e * w.toDoubles()[i], within(1e-12 * e));
            assertThat(g.of(w).toDoubles()[i]).isCloseTo(e * x.toDoubles()[i], within(1e-12 * e));
        }
    }

    @Test
    void addsUpGradientsOfATensorUsedTwiceAndThroughViews() {
        Tensor x = doubles(1, 2, 3, 4);
        Tape tape = new Tape().watch(x);
        Tensor y = tape.record(() -> x.add(x).sum().add(x.reshape(2, 2).t().narrow(0, 0, 1).square().sum()));
        assertThat(tape.backward(y).of(x).toDoubles()).containsExactly(4, 2, 8, 2);
    }

    /** Slices that divide a tensor in any order, overlap, leave gaps, run backwards, or have no gradient. */
    @Test
    void addsUpGradientsOfSlices() {
        Tensor w = doubles(1, 2, 3, 4, 5, 6);
        for (long[][] slices : new long[][][] {{{0, 1, 2}, {2, 1, 4}}, {{4, 1, 2}, {0, 1, 1}, {1, 1, 3}},
            {{0, 1, 3}, {2, 1, 4}}, {{0, 1, 2}, {3, 1, 3}}, {{0, 1, 6}, {0, 1, 6}}, {{5, -1, 3}, {0, 1, 3}},
            {{0, 2, 3}, {1, 2, 3}}, {{1, 1, 2}}, {{0, 1, 6}, {3, 1, 0}}, {{0, 1, 3}, {3, 1, 2}, {5, -1, 1}}}) {
            Tape tape = new Tape().watch(w);
            Tensor[] y = tape.record(() -> {
                Tensor x = w.reshape(1, 6).mul(2).reshape(6, 1);
                Tensor sum = Tensor.scalar(0.0);
                for (int i = 0; i < slices.length; i++) {
                    long[] s = slices[i];
                    Tensor part = Tensor.compute(new View.Slice(new long[] {s[0], 0}, new long[] {s[1], 1},
                            new long[] {s[2], 1}), x);
                    sum = sum.add(part.square().mul(i + 1).sum());
                }
                return new Tensor[] {sum, tape.backward(sum).of(w).square().sum()};
            });
            double[] weights = new double[6];
            for (int i = 0; i < slices.length; i++) {
                for (int j = 0; j < slices[i][2]; j++) {
                    weights[(int) (slices[i][0] + j * slices[i][1])] += 8 * (i + 1);
                }
            }
            double[] first = tape.backward(y[0]).of(w).toDoubles();
            double[] second = tape.backward(y[1]).of(w).toDoubles();
            for (int i = 0; i < 6; i++) {
                assertThat(first[i]).isEqualTo(weights[i] * (i + 1));
                assertThat(second[i]).isEqualTo(2 * weights[i] * weights[i] * (i + 1));
            }
        }
    }

    @Test
    void recordsOnlyWhatDependsOnWatchedTensors() {
        Tensor x = doubles(1, 2);
        Tensor c = doubles(3, 4);
        Tape tape = new Tape().watch(x);
        Tensor y = tape.record(() -> {
            c.exp().sum();
            Tape.noGrad(() -> x.exp());
            return x.mul(c).sum();
        });
        assertThat(tape.size()).isEqualTo(2);
        assertThat(tape.backward(y).of(x).toDoubles()).containsExactly(3, 4);
        assertThat(tape.backward(y).get(c)).isNull();
        assertThatThrownBy(() -> tape.backward(y).of(c)).isInstanceOf(TensorException.class);
    }

    @Test
    void differentiatesTwiceAndThrice() {
        Tensor x = doubles(0.7);
        Tape tape = new Tape().watch(x);
        Tensor third = tape.record(() -> {
            Tensor first = tape.backward(x.sin().sum()).of(x);
            return tape.backward(first.sum()).of(x);
        });
        assertThat(third.item()).isCloseTo(-Math.sin(0.7), within(1e-12));
        assertThat(tape.backward(third).of(x).item()).isCloseTo(-Math.cos(0.7), within(1e-12));
    }

    @Test
    void givesHessianAndProductsOfAQuadraticForm() {
        Tensor a = Tensor.of(new double[] {2, 1, 1, 3}, 2, 2);
        Function<Tensor, Tensor> f = x -> x.matmul(a).matmul(x).mul(0.5);
        Tensor x = doubles(1, -1);
        assertThat(Derivatives.hessian(f, x).toDoubles()).containsExactly(2, 1, 1, 3);
        assertThat(Derivatives.hvp(f, x, doubles(1, 2)).toDoubles()).containsExactly(4, 7);
        assertThat(Derivatives.gradient(f, x).toDoubles()).containsExactly(1, -2);
        Function<Tensor, Tensor> g = v -> Tensor.of(new double[] {1, 2, 3, 4, 5, 6}, 3, 2).matmul(v).square();
        Tensor jacobian = Derivatives.jacobian(g, x);
        assertThat(jacobian.toDoubles()).containsExactly(-2, -4, -6, -8, -10, -12);
        assertThat(Derivatives.jvp(g, x, doubles(1, 1)).toDoubles()).containsExactly(-6, -14, -22);
        assertThat(Derivatives.vjp(g, x, doubles(1, 0, 1)).toDoubles()).containsExactly(-12, -16);
    }

    @Test
    void keepsAGradientThatTheSinkHolds() {
        try (Scope scope = Scope.open()) {
            Tensor w = Tensor.of(new float[] {1, 2, 3});
            Tensor v = Tensor.of(new float[] {4, 5, 6});
            Tape tape = new Tape().watch(w, v);
            // The sum passes its own gradient on, which the backward pass did not allocate; the product allocates a
            // gradient.
            Tensor loss = tape.record(() -> w.sum().add(v.mul(v).sum()));
            List<Tensor> held = new ArrayList<>();
            tape.backward(loss, (t, g) -> {
                g.storage().hold();
                held.add(g);
            });
            assertThat(held).noneMatch(Tensor::isClosed);
            assertThat(held.get(0).add(held.get(1)).toFloats()).containsExactly(9, 11, 13);
        }
    }

    /** Both gradients are one tensor: a view of the pass's seed, or the result of an operation in a recorded pass. */
    @Test
    void countsEachHoldOfASinkOnSharedMemory() {
        try (Scope scope = Scope.open()) {
            Tensor a = doubles(1, 2);
            Tensor b = doubles(3, 4);
            Tape tape = new Tape().watch(a, b);
            Tensor sum = tape.record(() -> a.add(b).sum());
            Tensor squares = tape.record(() -> a.add(b).square().sum());
            List<Tensor> held = new ArrayList<>();
            GradientSink sink = (t, g) -> {
                g.storage().hold();
                held.add(g);
            };
            tape.backward(sum, sink);
            new Tape().record(() -> {
                tape.backward(squares, sink);
                return squares;
            });
            held.get(0).storage().drop();
            held.get(2).storage().drop();
            assertThat(held.get(1).toDoubles()).containsExactly(1, 1);
            assertThat(held.get(3).toDoubles()).containsExactly(8, 12);
            held.get(3).storage().drop();
            assertThat(held.get(3).isClosed()).isTrue();
        }
    }

    /** The hook and the sink go on using the gradient; the gradient of the sink's own tape is the same tensor. */
    @Test
    void hooksAndSinksPassGradientsToOtherTapes() {
        try (Scope scope = Scope.open()) {
            Tensor x = doubles(1, 2);
            Tensor c = doubles(5, 7);
            Tape tape = new Tape().watch(x);
            Tensor[] middle = new Tensor[1];
            Tensor loss = tape.record(() -> {
                middle[0] = x.mul(3);
                return middle[0].square().sum();
            });
            tape.hook(middle[0], g -> Derivatives.vjp(t -> t.mul(2), middle[0], g).add(g));
            List<Tensor> kept = new ArrayList<>();
            tape.backward(loss, (t, g) -> {
                kept.add(Derivatives.vjp(u -> u.add(c), t, g));
                g.storage().hold();
                kept.add(g);
            });
            assertThat(kept).noneMatch(Tensor::isClosed);
            assertThat(kept.get(0).sharesMemoryWith(kept.get(1))).isTrue();
            assertThat(kept.get(0).add(kept.get(1)).toDoubles()).containsExactly(108, 216);
        }
    }

    @Test
    void refusesBackwardAndResetDuringItsOwnBackwardPass() {
        Tensor x = doubles(3);
        Tape tape = new Tape().watch(x);
        Tensor[] y = tape.record(() -> new Tensor[] {x.square().sum(), x.mul(5).sum()});
        List<Double> seen = new ArrayList<>();
        tape.backward(y[0], (t, g) -> {
            assertThatThrownBy(() -> tape.backward(y[1])).isInstanceOf(TensorException.class)
                    .hasMessageContaining("backward: must not be called").hasMessageContaining("use another tape");
            assertThatThrownBy(tape::reset).isInstanceOf(TensorException.class)
                    .hasMessageContaining("reset: must not be called");
            seen.add(g.item());
        });
        assertThat(seen).containsExactly(6.0);
        assertThatThrownBy(() -> tape.backward(y[0], (t, g) -> tape.reset())).isInstanceOf(TensorException.class);
        assertThat(tape.backward(y[1]).of(x).item()).isEqualTo(5);
        assertThat(tape.reset().size()).isZero();
    }

    @Test
    void passesEachGradientToTheSinkOnceAtItsLastContribution() {
        Tensor a = doubles(2);
        Tensor b = doubles(3);
        Tensor c = doubles(5);
        for (int run = 0; run < 2; run++) {
            Tape tape = new Tape().watch(a, b, c);
            Tensor y = tape.record(() -> a.mul(b).mul(a).mul(c).sum());
            List<String> seen = new ArrayList<>();
            tape.backward(y, (t, g) -> seen.add((t == a ? "a" : t == b ? "b" : "c") + "=" + g.item()));
            assertThat(seen).containsExactly("c=12.0", "a=60.0", "b=20.0");
        }
    }

    @Test
    void callsHooksAndUsesWhatTheyReturn() {
        Tensor x = doubles(3);
        Tape tape = new Tape().watch(x);
        Tensor[] middle = new Tensor[1];
        Tensor y = tape.record(() -> {
            middle[0] = x.square();
            return middle[0].mul(5).sum();
        });
        tape.hook(middle[0], g -> g.mul(10)).hook(x, g -> g.add(1));
        assertThat(tape.backward(y).of(x).item()).isEqualTo(301);
    }

    @Test
    void namesTheOperationThatFirstMadeNaN() {
        Tensor x = doubles(-1, 4);
        Tape tape = new Tape().watch(x).detectAnomalies();
        assertThatThrownBy(() -> tape.record(() -> x.mul(2).sqrt().exp().sum()))
                .isInstanceOfSatisfying(TensorException.class, e -> {
                    assertThat(e.problem()).isEqualTo(TensorException.Problem.ANOMALY);
                    assertThat(e.op()).isEqualTo("sqrt");
                });
        Tensor zero = doubles(0);
        Tape second = new Tape().watch(zero).detectAnomalies();
        Tensor y = second.record(() -> zero.sqrt().mul(0).sum());
        assertThatThrownBy(() -> second.backward(y)).hasMessageContaining("sqrt").hasMessageContaining("gradient");
    }

    @Test
    void refusesResultsThatWereChangedInPlace() {
        Tensor x = doubles(1, 2);
        Tape tape = new Tape().watch(x);
        Tensor[] y = new Tensor[1];
        Tensor sum = tape.record(() -> {
            y[0] = x.sigmoid();
            Tensor.apply(new Update.Assign(), y[0], doubles(5, 5));
            return y[0].sum();
        });
        assertThatThrownBy(() -> tape.backward(sum)).isInstanceOfSatisfying(TensorException.class,
                e -> assertThat(e.problem()).isEqualTo(TensorException.Problem.VERSION))
                .hasMessageContaining("sigmoid").hasMessageContaining("result");
    }

    @Test
    void derivativesOfConstantsAreZero() {
        Tensor x = doubles(1, 2);
        Tensor c = doubles(3);
        Tensor v = doubles(1, 1);
        assertThat(Derivatives.gradient(t -> c, x).toDoubles()).containsExactly(0, 0);
        assertThat(Derivatives.gradient(t -> Derivatives.gradient(u -> u.sum(), t).sum(), x).toDoubles())
                .containsExactly(0, 0);
        assertThat(Derivatives.vjp(t -> c, x, doubles(1)).toDoubles()).containsExactly(0, 0);
        assertThat(Derivatives.jvp(t -> c, x, v).toDoubles()).containsExactly(0);
        assertThat(Derivatives.jacobian(t -> c, x).toDoubles()).containsExactly(0, 0);
        assertThat(Derivatives.hvp(t -> c, x, v).toDoubles()).containsExactly(0, 0);
        assertThat(Derivatives.hessian(t -> c, x).toDoubles()).containsExactly(0, 0, 0, 0);
        assertThatThrownBy(() -> Derivatives.gradient(t -> v, x)).hasMessageContaining("one element");
    }

    @Test
    void jacobiansOfNothingAreEmpty() {
        assertThat(Derivatives.jacobian(t -> t.narrow(0, 0, 0), doubles(1, 2)).shape()).hasToString("[0, 2]");
        assertThat(Derivatives.hessian(t -> t.sum(), doubles()).shape()).hasToString("[0, 0]");
    }

    @Test
    void moreTiesThanANarrowTypeCountsShareTheGradient() {
        Tensor x = Tensor.full(DType.F16, 0, 70_000);
        Tensor gradient = Derivatives.gradient(t -> t.max(), x);
        assertThat(gradient.dtype()).isEqualTo(DType.F16);
        assertThat(gradient.min().item()).isCloseTo(1 / 70_000.0, within(1e-7));
    }

    @Test
    void gradientsOfHalfFloatsSquareInSinglePrecision() {
        Tensor x = Tensor.of(new float[] {300}).to(DType.F16);
        Tensor other = Tensor.of(new float[] {300}).to(DType.F16);
        assertThat(Derivatives.gradient(t -> t.asinh(), x).item()).isCloseTo(1 / 300.0, within(1e-5));
        assertThat(Derivatives.gradient(t -> t.acosh(), x).item()).isCloseTo(1 / 300.0, within(1e-5));
        assertThat(Derivatives.gradient(t -> t.atan(), x).item()).isCloseTo(1 / 90_001.0, within(1e-7));
        assertThat(Derivatives.gradient(t -> Tensor.compute(Activation.SOFTSIGN, t), x).item())
                .isCloseTo(1 / 90_601.0, within(1e-7));
        assertThat(Derivatives.gradient(t -> t.atan2(other), x).item()).isCloseTo(1 / 600.0, within(1e-5));
        assertThat(Derivatives.gradient(t -> other.atan2(t), x).item()).isCloseTo(-1 / 600.0, within(1e-5));
    }

    @Test
    void impossibleEventsHaveGradientZero() {
        double impossible = Double.NEGATIVE_INFINITY;
        Tensor rows = Tensor.of(new double[] {impossible, impossible, 0, 0}, 2, 2);
        assertThat(Derivatives.gradient(t -> t.logSumExp(false, 1).narrow(0, 1, 1).sum(), rows).abs().toDoubles())
                .containsExactly(0, 0, 0.5, 0.5);
        Tensor target = Tensor.of(new long[] {1}, 1, 1);
        Tensor log = Tensor.of(new float[] {(float) impossible, (float) impossible, 0}, 1, 1, 3);
        assertThat(Derivatives.gradient(t -> Losses.ctcLoss(t, target, null, 0, Losses.Reduce.SUM, true), log).abs()
                .toDoubles()).containsExactly(0, 0, 0);
    }

    @Test
    void recomputedStagesHaveGradientsOnOuterTapes() {
        Tensor w = doubles(4);
        Tensor x = doubles(2);
        Tape outer = new Tape().watch(w);
        Tensor y = outer.record(() -> {
            Tape inner = new Tape().watch(x);
            return inner.record(() -> Recompute.checkpoint(s -> s.mul(w), x, null).add(w).sum());
        });
        assertThat(outer.backward(y).of(w).toDoubles()).containsExactly(3);
    }

    @Test
    void recordsOnceWhereItRecordsAlreadyBelowAnotherTape() {
        Tensor w = doubles(4);
        Tensor x = doubles(2);
        Tape outer = new Tape().watch(w);
        Tape inner = new Tape().watch(x);
        Tensor y = outer.record(() -> inner.record(() -> outer.record(() -> x.mul(w)).square().sum()));
        assertThat(outer.size()).isEqualTo(inner.size());
        assertThat(outer.backward(y).of(w).toDoubles()).containsExactly(32);
        assertThat(inner.backward(y).of(x).toDoubles()).containsExactly(64);
    }

    @Test
    void recomputesStagesThatReturnWhatTapesKnowOrHaveNoGradient() {
        Tensor x = doubles(1, 2);
        Tensor w = doubles(3, 4);
        List<Function<Tensor, Tensor>> stages = List.of(t -> t, t -> w, t -> t.round(), t -> t.mul(w));
        for (Function<Tensor, Tensor> stage : stages) {
            Tape plain = new Tape().watch(x, w);
            Tape recomputing = new Tape().watch(x, w);
            Gradients expected = plain.backward(plain.record(() -> stage.apply(x).mul(2).add(x.mul(w)).sum()));
            Gradients actual = recomputing.backward(recomputing.record(() ->
                    Recompute.checkpoint(stage, x, null).mul(2).add(x.mul(w)).sum()));
            assertThat(actual.of(x).toDoubles()).isEqualTo(expected.of(x).toDoubles());
            assertThat(actual.of(w).toDoubles()).isEqualTo(expected.of(w).toDoubles());
        }
    }

    @Test
    void gradientsStayAsTheyAreWhenTheTapeIsReset() {
        Tensor a = doubles(1);
        Tensor b = doubles(2);
        Tape tape = new Tape().watch(a, b);
        Gradients gradients = tape.backward(tape.record(() -> a.mul(5).add(b.mul(7)).sum()));
        tape.reset().watch(b);
        assertThat(gradients.of(a).item()).isEqualTo(5);
        assertThat(gradients.of(b).item()).isEqualTo(7);
        assertThat(gradients.get(doubles(1))).isNull();
    }

    @Test
    void gradientsAtZeroAreThoseOfPyTorch() {
        Tensor x = doubles(0, 3);
        assertThat(Derivatives.gradient(t -> t.pow(0).sum(), x).toDoubles()).containsExactly(0, 0);
        assertThat(Derivatives.gradient(t -> t.pow(doubles(0, 0)).sum(), x).toDoubles()).containsExactly(0, 0);
        assertThat(Derivatives.gradient(t -> t.norm(0).sum(), doubles(0, 0)).toDoubles()).containsExactly(0, 0);
        assertThat(Derivatives.gradient(t -> t.norm(0), doubles(0, 2)).toDoubles()).containsExactly(0, 1);
        assertThat(Derivatives.gradient(t -> Derivatives.gradient(u -> u.pow(1).sum(), t).sum().add(t.sum()), x)
                .toDoubles()).containsExactly(1, 1);
    }

    @Test
    void refusesOperandsThatWereChangedInPlace() {
        Tensor x = doubles(1, 2);
        Tape tape = new Tape().watch(x);
        Tensor y = tape.record(() -> x.square().sum());
        Tensor.apply(new Update.Assign(), x, doubles(5, 5));
        assertThatThrownBy(() -> tape.backward(y)).isInstanceOfSatisfying(TensorException.class,
                e -> assertThat(e.problem()).isEqualTo(TensorException.Problem.VERSION));
    }

    @Test
    void explainsWhatCannotBeDifferentiated() {
        Tensor x = doubles(1, 2);
        Tape tape = new Tape().watch(x);
        Tensor vector = tape.record(() -> x.mul(2));
        assertThatThrownBy(() -> tape.backward(vector)).hasMessageContaining("one element")
                .hasMessageContaining("sum()");
        assertThatThrownBy(() -> tape.backward(doubles(1))).hasMessageContaining("does not depend");
        assertThatThrownBy(() -> tape.watch(doubles(1))).hasMessageContaining("before anything is recorded");
        assertThatThrownBy(() -> new Tape().watch(Tensor.of(new long[] {1}))).hasMessageContaining("floating");
    }

    @Test
    void givesTheSameGradientsWithRecomputationInLessMemory() {
        Tensor x = Scope.detached(() -> Tensor.ones(1 << 16).mul(0.3));
        Generator generator = Generator.seeded(5);
        Function<Tensor, Tensor> stage = t -> {
            Tensor h = t;
            for (int i = 0; i < 8; i++) {
                h = h.mul(x).tanh().add(generator.uniform(1 << 16));
            }
            return h;
        };
        float[][] gradients = new float[2][];
        long[] live = new long[2];
        for (int run = 0; run < 2; run++) {
            boolean recompute = run == 1;
            generator.restore(new Generator.State(5, 0));
            try (Scope scope = Scope.open()) {
                long before = Device.cpu().memory().live();
                Tape tape = new Tape().watch(x);
                Tensor y = tape.record(() -> {
                    Tensor first = recompute ? Recompute.checkpoint(stage, x, generator) : stage.apply(x);
                    return (recompute ? Recompute.checkpoint(stage, first, generator) : stage.apply(first)).sum();
                });
                live[run] = Device.cpu().memory().live() - before;
                gradients[run] = tape.backward(y).of(x).toFloats();
            }
        }
        assertThat(gradients[1]).containsExactly(gradients[0], withPrecision(1e-6f));
        assertThat(live[1]).isLessThan(live[0] / 4);
    }

    @Test
    void freesGradientsThatAreNoLongerNeeded() {
        Tensor x = Scope.detached(() -> Tensor.ones(1 << 16));
        try (Scope scope = Scope.open()) {
            Tape tape = new Tape().watch(x);
            Tensor y = tape.record(() -> {
                Tensor h = x;
                for (int i = 0; i < 50; i++) {
                    h = h.mul(1.01).sin();
                }
                return h.sum();
            });
            long before = Device.cpu().memory().live();
            Tensor g = tape.backward(y).of(x);
            assertThat(Device.cpu().memory().live() - before).isLessThan(4 * 4 * (1 << 16));
            assertThat(g.isClosed()).isFalse();
        }
    }

    @Test
    void trainsTwoModelsOnTwoThreadsConcurrently() throws Exception {
        try (ExecutorService threads = Executors.newFixedThreadPool(2)) {
            List<Callable<double[]>> jobs = List.of(() -> descend(1), () -> descend(2));
            List<double[]> results = new ArrayList<>();
            for (Future<double[]> f : threads.invokeAll(jobs)) {
                results.add(f.get());
            }
            assertThat(results.get(0)).containsExactly(descend(1));
            assertThat(results.get(1)).containsExactly(descend(2));
        }
    }

    private static double[] descend(double target) {
        Tensor w = Scope.detached(() -> Tensor.of(new double[] {0, 0, 0}));
        Tape tape = new Tape();
        for (int i = 0; i < 200; i++) {
            try (Scope step = Scope.open()) {
                tape.reset().watch(w);
                Tensor loss = tape.record(() -> w.sub(target).square().sum());
                tape.backward(loss, (t, g) -> Tensor.apply(new Rule.Sgd(0, 0, 0, false).step(0.1, 1), t, g));
            }
        }
        assertThat(w.toDoubles()[0]).isCloseTo(target, within(1e-9));
        return w.toDoubles();
    }
}
