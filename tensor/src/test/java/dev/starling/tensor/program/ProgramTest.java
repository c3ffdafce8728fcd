package dev.starling.tensor.program;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.tensor.Convolutions;
import dev.starling.tensor.Device;
import dev.starling.tensor.Functions;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Losses;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Activation;
import dev.starling.tensor.op.Update;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;

/** A program gives the results of the work that it captured. */
class ProgramTest {
    private final Generator data = Generator.seeded(3);

    /** Captures on one input, runs the program on others, and compares with the work, bit for bit. */
    private void check(Program.Work work, int runs, long... shape) {
        try (Scope scope = Scope.open()) {
            Tensor first = data.normal(shape);
            float[] expected = work.run(new Tensor[] {first})[0].toFloats();
            Program.Captured captured = Program.capture(null, work, first);
            assertThat(captured.outputs()[0].toFloats()).isEqualTo(expected);
            try (Program program = captured.program()) {
                for (int i = 0; i < runs; i++) {
                    Tensor x = data.normal(shape);
                    assertThat(program.run(x)[0].toFloats()).isEqualTo(work.run(new Tensor[] {x})[0].toFloats());
                }
            }
        }
    }

    @Test
    void aChainOfOperations() {
        check(in -> new Tensor[] {in[0].mul(2).exp().add(in[0]).softmax(1)}, 4, 5, 7);
    }

    @Test
    void anOperationOfSeveralStepsInAChain() {
        check(in -> new Tensor[] {Tensor.compute(Activation.SOFTSIGN, in[0].mul(2)).exp().add(in[0])}, 4, 5, 7);
    }

    @Test
    void viewsFollowTheInput() {
        check(in -> new Tensor[] {in[0].transpose(0, 1).narrow(0, 1, 3).matmul(in[0].narrow(1, 2, 4)).reshape(12)},
                4, 6, 7);
    }

    @Test
    void anOutputMayBeTheInputOrAConstant() {
        check(in -> new Tensor[] {in[0]}, 3, 4);
        check(in -> new Tensor[] {Tensor.ones(3).add(1)}, 3, 4);
    }

    /** Inputs are bound one by one, while outputs that are inputs change with those. */
    @Test
    void outputsThatAreInputsMayBecomeOtherInputs() {
        try (Scope scope = Scope.open()) {
            Random choice = new Random(5);
            Program.Work step = in -> new Tensor[] {in[0].sub(in[1]), in[0], in[1], in[2]};
            Tensor[] expected = {data.uniform(9), data.uniform(9), data.uniform(9)};
            Tensor[] actual = expected.clone();
            try (Program program = Program.capture(null, step, expected).program()) {
                for (int i = 0; i < 40; i++) {
                    Tensor[] results = step.run(expected);
                    Tensor[] outputs = program.run(actual);
                    for (int k = 0; k < results.length; k++) {
                        assertThat(outputs[k].toFloats()).as("run %d, output %d", i, k)
                                .isEqualTo(results[k].toFloats());
                    }
                    Tensor fresh = data.uniform(9);
                    for (int k = 0; k < expected.length; k++) {
                        int from = choice.nextInt(-1, 4);
                        expected[k] = from < 0 ? fresh : results[from];
                        actual[k] = from < 0 ? fresh : outputs[from];
                    }
                }
            }
        }
    }

    @Test
    void anOutputMayBeTheNextInput() {
        try (Scope scope = Scope.open()) {
            Tensor left = data.uniform(24, 24);
            Tensor right = data.uniform(24, 24);
            Program.Work step = in -> new Tensor[] {in[0].matmul(left).relu().matmul(right).mul(0.01).add(in[1]), in[0],
                in[1].mul(0.5)};
            Tensor x = data.uniform(24, 24);
            Tensor h = data.uniform(24, 24);
            try (Program program = Program.capture(null, step, x, h).program()) {
                Tensor[] expected = {x, h};
                Tensor[] actual = {x, h};
                for (int i = 0; i < 5; i++) {
                    Tensor[] results = step.run(expected);
                    Tensor[] outputs = program.run(actual);
                    for (int k = 0; k < results.length; k++) {
                        assertThat(outputs[k].toFloats()).isEqualTo(results[k].toFloats());
                    }
                    // The second time and later, the first input is an output that is that input itself.
                    expected = i == 0 ? new Tensor[] {x, results[0]} : new Tensor[] {results[1], results[i % 2 * 2]};
                    actual = i == 0 ? new Tensor[] {x, outputs[0]} : new Tensor[] {outputs[1], outputs[i % 2 * 2]};
                }
            }
        }
    }

    /** The state is an output, and each run has another second input, which its scope closes. */
    @Test
    void anOutputMayBeTheNextInputBesideInputsThatAreClosed() {
        try (Scope scope = Scope.open()) {
            Tensor state = Tensor.zeros(4);
            try (Program program = Program.capture(null, in -> new Tensor[] {in[0].add(in[1])}, state, Tensor.ones(4))
                    .program()) {
                for (int i = 1; i <= 5; i++) {
                    try (Scope step = Scope.open()) {
                        state = program.run(state, Tensor.ones(4))[0];
                    }
                    assertThat(state.toFloats()).containsOnly(i);
                }
            }
        }
    }

    /** Eager operations read an input before the program's update of the same memory, or behind it, as written. */
    @Test
    void anInputMayBeWhatTheProgramUpdates() {
        for (boolean late : new boolean[] {false, true}) {
            try (Scope scope = Scope.open()) {
                Tensor h = Tensor.ones(3, 3);
                Program.Work work = in -> {
                    Tensor y = in[0].mul(2);
                    Tensor.apply(new Update.Assign(), h, late ? in[0].add(1) : in[0].t());
                    return new Tensor[] {y.add(1)};
                };
                try (Program program = Program.capture(null, work, Tensor.zeros(3, 3)).program()) {
                    float[] before = data.uniform(3, 3).toFloats();
                    Tensor.apply(new Update.Assign(), h, Tensor.of(before, 3, 3));
                    float[] y = program.run(h)[0].toFloats();
                    for (int i = 0; i < 9; i++) {
                        assertThat(y[i]).isEqualTo(2 * before[i] + 1);
                        assertThat(h.toFloats()[i]).isEqualTo(late ? before[i] + 1 : before[i % 3 * 3 + i / 3]);
                    }
                }
            }
        }
    }

    @Test
    void refusesToChangeWhatJavaCodeFilled() {
        try (Scope scope = Scope.open()) {
            assertThatThrownBy(() -> Program.capture(null, in -> {
                Tensor b = Tensor.of(new float[2]);
                b.set(in[0]);
                return new Tensor[] {b.mul(2)};
            }, data.normal(2))).isInstanceOf(TensorException.class).hasMessageContaining("Java code filled")
                    .hasMessageContaining("Tensor.zeros");
            check(in -> {
                Tensor b = Tensor.zeros(2);
                b.set(in[0]);
                return new Tensor[] {b.mul(2)};
            }, 3, 2);
        }
    }

    @Test
    void fusedOperationsKeepTheMemoryLayout() {
        try (Scope scope = Scope.open()) {
            Tensor perChannel = data.normal(1, 3, 1, 1);
            Tensor perPixel = data.normal(2, 1, 4, 5);
            Tensor kernel = data.normal(3, 2, 3, 3);
            Program.Work work = in -> {
                Tensor image = Convolutions.conv2d(in[0], kernel, null, 1, 1, 1, 1);
                return new Tensor[] {perChannel.mul(in[0].narrow(0, 0, 1).sum()).mul(perPixel).add(image)
                        .flatten(1, -1).sum(1)};
            };
            check(work, 3, 2, 2, 4, 5);
        }
    }

    @Test
    void constantsDoNotShareMemoryWithEarlierValues() {
        check(in -> {
            Tensor early = in[0].cumsum(0).sum();
            return new Tensor[] {in[0].mul(Tensor.ones(16)).add(early)};
        }, 4, 16);
    }

    @Test
    void manyValuesShareMemory() {
        try (Scope scope = Scope.open()) {
            Program.Work work = in -> {
                Tensor x = in[0];
                for (int i = 0; i < 50; i++) {
                    x = x.mul(1.01).matmul(in[0]);
                }
                return new Tensor[] {x};
            };
            Tensor x = data.uniform(32, 32);
            try (Program program = Program.capture(null, work, x).program()) {
                program.run(x);
                assertThat(program.bytes()).isLessThanOrEqualTo(4 * 32 * 32 * 4);
                assertThat(program.run(x)[0].toFloats()).isEqualTo(work.run(new Tensor[] {x})[0].toFloats());
            }
        }
    }

    @Test
    void leavesOutUnusedOperationsAndComputesConstantsOnce() {
        try (Scope scope = Scope.open()) {
            Tensor x = data.normal(3, 3);
            try (Program program = Program.capture(null, in -> {
                in[0].exp().sum();
                return new Tensor[] {in[0].mul(Tensor.ones(3, 3).mul(3).sqrt())};
            }, x).program()) {
                assertThat(program.size()).isEqualTo(1);
            }
        }
    }

    /** The constant exists when the next run stores its earlier values. */
    @Test
    void aLateConstantSharesNoMemory() {
        check(in -> new Tensor[] {in[0].softmax(0).softmax(1).softmax(0).softmax(1).matmul(Tensor.ones(5, 5))}, 4, 5,
                5);
    }

    @Test
    void updatesKeepTheirOrderAndReadCurrentElements() {
        try (Scope scope = Scope.open()) {
            Tensor[] states = {Tensor.ones(4), Tensor.ones(4)};
            List<float[]> seen = new ArrayList<>();
            for (int mode = 0; mode < 2; mode++) {
                Tensor state = states[mode];
                Program.Work work = in -> {
                    Tensor before = state.mul(in[0]);
                    Tensor.apply(new Update.Blend(0.5, 2), state, in[0]);
                    return new Tensor[] {before.add(state.square())};
                };
                Generator inputs = Generator.seeded(9);
                Program program = null;
                for (int i = 0; i < 6; i++) {
                    Tensor x = inputs.normal(4);
                    Tensor y;
                    if (mode == 0) {
                        y = work.run(new Tensor[] {x})[0];
                    } else if (program == null) {
                        Program.Captured captured = Program.capture(null, work, x);
                        program = captured.program();
                        y = captured.outputs()[0];
                    } else {
                        y = program.run(x)[0];
                    }
                    if (i == 3) {
                        Tensor.apply(new Update.Assign(), state, Tensor.ones(4));
                    }
                    seen.add(y.toFloats());
                }
            }
            for (int i = 0; i < 6; i++) {
                assertThat(seen.get(i + 6)).isEqualTo(seen.get(i));
            }
            assertThat(states[1].toFloats()).isEqualTo(states[0].toFloats());
        }
    }

    @Test
    void randomNumbersAdvanceTheGenerator() {
        try (Scope scope = Scope.open()) {
            Tensor x = data.normal(6, 5);
            Generator eager = Generator.seeded(5);
            Generator replayed = Generator.seeded(5);
            java.util.function.Function<Generator, Program.Work> works = g -> in -> new Tensor[] {
                Functions.dropout(in[0], 0.5, g).add(g.normal(6, 5))};
            Program.Work work = works.apply(eager);
            Program.Captured captured = Program.capture(replayed, works.apply(replayed), x);
            assertThat(captured.outputs()[0].toFloats()).isEqualTo(work.run(new Tensor[] {x})[0].toFloats());
            try (Program program = captured.program()) {
                for (int i = 0; i < 4; i++) {
                    if (i == 2) {
                        eager.restore(Generator.seeded(77).state());
                        replayed.restore(Generator.seeded(77).state());
                    }
                    assertThat(program.run(x)[0].toFloats()).isEqualTo(work.run(new Tensor[] {x})[0].toFloats());
                    assertThat(replayed.state()).isEqualTo(eager.state());
                }
            }
        }
    }

    @Test
    void marksArriveInOrderWithTheOutputsUntilThen() {
        try (Scope scope = Scope.open()) {
            Tensor x = data.normal(8);
            Program.Captured captured = Program.capture(null, in -> {
                Tensor sum = in[0].sum();
                Program.mark(7);
                Tensor exp = sum.exp();
                Program.mark(8);
                return new Tensor[] {sum, exp};
            }, x);
            try (Program program = captured.program()) {
                for (int i = 0; i < 3; i++) {
                    Tensor other = data.normal(8);
                    List<Double> seen = new ArrayList<>();
                    program.run((label, out) -> seen.add(out[label - 7].item()), other);
                    assertThat(seen).containsExactly(other.sum().item(), other.sum().exp().item());
                }
                assertThatThrownBy(() -> program.run((label, out) -> {
                    throw new IllegalStateException("not finite");
                }, x)).hasMessage("not finite");
                assertThat(program.run(x)[0].item()).isEqualTo(x.sum().item());
            }
        }
    }

    @Test
    void runsAllocateNothing() {
        try (Scope scope = Scope.open()) {
            Tensor x = data.normal(16, 16);
            try (Program program = Program.capture(null, in -> new Tensor[] {
                in[0].matmul(in[0]).relu().sum(0).mul(2).softmax(0)}, x).program()) {
                program.run(x);
                program.run(x);
                long live = Device.cpu().memory().live();
                int owned = scope.size();
                float[] first = program.run(x)[0].toFloats();
                assertThat(Device.cpu().memory().live()).isEqualTo(live);
                assertThat(scope.size()).isEqualTo(owned);
                assertThat(program.run(x)[0].toFloats()).isEqualTo(first);
            }
        }
    }

    @Test
    void tensorsMadeByTheHostAreConstants() {
        check(in -> new Tensor[] {in[0].add(Tensor.of(new float[] {1, 2, 3}))}, 3, 2, 3);
    }

    @Test
    void namesWhatCannotBeCaptured() {
        try (Scope scope = Scope.open()) {
            Tensor x = data.normal(4);
            Generator g = Generator.seeded(1);
            refused(() -> Program.capture(null, in -> new Tensor[] {in[0].mul(in[0].sum().item())}, x), "read");
            refused(() -> Program.capture(null, in -> new Tensor[] {in[0].mul(in[0].toFloats()[0])}, x), "read");
            refused(() -> Program.capture(null, in -> new Tensor[] {x.add(in[0])}, x), "use the input tensors");
            refused(() -> Program.capture(null, in -> new Tensor[] {in[0].add(g.normal(4))}, x), "generator");
            refused(() -> Program.capture(g, in -> new Tensor[] {in[0].add(Generator.seeded(2).normal(4))}, x),
                    "generator");
            refused(() -> Program.capture(g, in -> new Tensor[] {in[0].mul(g.order(3)[0])}, x), "host");
            refused(() -> Program.capture(null, in -> {
                Tensor.apply(new Update.Assign(), in[0], Tensor.ones(4));
                return new Tensor[] {in[0]};
            }, x), "must not change an input");
            refused(() -> Recorder.with((op, in, out) -> { }, () -> Program.capture(null, in -> in, x)), "tape");
            refused(() -> Program.capture(null, in -> Program.capture(null, i -> i, in).outputs(), x), "captured");
            // In uncaptured code everything is allowed.
            Program.capture(null, in -> new Tensor[] {in[0].mul(Program.uncaptured(() -> in[0].sum().item()))}, x)
                    .program().close();
        }
    }

    private static void refused(org.assertj.core.api.ThrowableAssert.ThrowingCallable call, String words) {
        assertThatThrownBy(call).isInstanceOf(TensorException.class).hasMessageContaining(words);
    }

    @Test
    void refusesInputsThatDoNotFitAndClosedTensors() {
        try (Scope scope = Scope.open()) {
            Tensor weight = data.normal(4);
            Tensor x = data.normal(4);
            Program program = Program.capture(null, in -> new Tensor[] {in[0].mul(weight)}, x).program();
            assertThatThrownBy(() -> program.run(data.normal(5))).isInstanceOf(TensorException.class);
            assertThatThrownBy(() -> program.run(x, x)).isInstanceOf(TensorException.class);
            Tensor y = program.run(x)[0];
            assertThat(program.isCurrent()).isTrue();
            weight.close();
            assertThat(program.isCurrent()).isFalse();
            assertThatThrownBy(() -> program.run(x)).isInstanceOf(TensorException.class)
                    .hasMessageContaining("capture it again");
            program.close();
            assertThat(y.isClosed()).isTrue();
            assertThatThrownBy(y::toFloats).isInstanceOf(TensorException.class);
        }
    }

    @Test
    void acceptsAnyInputLayoutAndReportsIndexErrors() {
        try (Scope scope = Scope.open()) {
            Tensor x = data.normal(5, 3).transpose(0, 1);
            Program.Work work = in -> new Tensor[] {Losses.crossEntropy(in[0], in[1])};
            Tensor target = Tensor.of(new long[] {0, 4, 2});
            try (Program program = Program.capture(null, work, x, target).program()) {
                for (int i = 0; i < 3; i++) {
                    Tensor other = data.normal(5, 3).transpose(0, 1);
                    assertThat(program.run(other, target)[0].item())
                            .isEqualTo(work.run(new Tensor[] {other.contiguous(), target})[0].item());
                }
                Tensor bad = Tensor.of(new long[] {0, 9, 2});
                assertThatThrownBy(() -> program.run(x, bad)).isInstanceOf(TensorException.class);
                assertThat(program.run(x, target)[0].item()).isEqualTo(work.run(new Tensor[] {x, target})[0].item());
            }
        }
    }

    @Test
    void elementwiseChainsAreOneOperation() {
        Program.Work work = in -> {
            Tensor chain = in[0].mul(2).exp().add(in[0]).clamp(-1, 3).sub(in[1]).gt(in[1]).where(in[0], in[1].neg());
            return new Tensor[] {chain.abs().sum(), chain.relu()};
        };
        try (Scope scope = Scope.open()) {
            try (Program program = Program.capture(null, work, data.normal(6, 5), data.normal(5)).program()) {
                // The chain, whose result two operations need; its part of another shape; the magnitude; its sum; the
                // rectifier.
                assertThat(program.size()).isEqualTo(5);
                for (int i = 0; i < 4; i++) {
                    Tensor[] x = {i == 2 ? data.normal(5, 6).transpose(0, 1) : data.normal(6, 5), data.normal(5)};
                    Tensor[] expected = work.run(new Tensor[] {x[0].contiguous(), x[1]});
                    Tensor[] y = program.run(x);
                    assertThat(y[1].toFloats()).isEqualTo(expected[1].toFloats());
                    assertThat(y[0].item()).isEqualTo(expected[0].item());
                }
            }
        }
    }

    @Test
    void aChainReadsOperandsBeforeTheyChange() {
        try (Scope scope = Scope.open()) {
            Tensor state = Tensor.ones(4);
            Tensor x = data.normal(4);
            Program.Captured captured = Program.capture(null, in -> {
                Tensor before = state.mul(3);
                Tensor.apply(new Update.Blend(1, 1), state, in[0]);
                return new Tensor[] {before.add(state)};
            }, x);
            try (Program program = captured.program()) {
                assertThat(program.size()).isEqualTo(3);
                for (int i = 0; i < 3; i++) {
                    float[] was = state.mul(3).toFloats();
                    float[] sum = program.run(x)[0].toFloats();
                    float[] is = state.toFloats();
                    for (int k = 0; k < 4; k++) {
                        assertThat(sum[k]).isEqualTo(was[k] + is[k]);
                    }
                }
            }
        }
    }

    @Test
    void writesNothingAfterAListenerHasClosedIt() {
        try (Scope scope = Scope.open()) {
            Tensor weight = data.normal(7, 5);
            Tensor x = data.normal(3, 7);
            Program program = Program.capture(null, in -> {
                Tensor first = in[0].matmul(weight);
                Program.mark(0);
                return new Tensor[] {first, in[0].matmul(weight)};
            }, x).program();
            for (int i = 0; i < 3; i++) {
                program.run(x);
            }
            assertThatThrownBy(() -> program.run((label, outputs) -> program.close(), x))
                    .isInstanceOf(TensorException.class).hasMessageContaining("closed");
        }
    }

    @Test
    void refusesARunOfItselfInItsListener() {
        try (Scope scope = Scope.open()) {
            Tensor x = Tensor.ones(2);
            var captured = Program.capture(null, in -> {
                Tensor y = in[0].add(1);
                Program.mark(0);
                return new Tensor[] {y.mul(2)};
            }, x);
            try (Program program = captured.program()) {
                program.run(x);
                assertThatThrownBy(() -> program.run((label, values) -> program.run(x), x))
                        .hasMessageContaining("a program cannot run while it runs");
                assertThat(program.run(x)[0].toFloats()).containsExactly(4, 4);
            }
        }
    }

    @Test
    void closedDuringARunKeepsItsMemoryUntilThatRunEnds() {
        try (Scope scope = Scope.open()) {
            Tensor x = Tensor.of(new float[] {1, 2}, 2);
            Program program = Program.capture(null, in -> {
                Tensor y = in[0].mul(2);
                Program.mark(1);
                return new Tensor[] {y, y.mul(3).exp()};
            }, x).program();
            Tensor[] result = program.run(x);
            assertThatThrownBy(() -> program.run((label, values) -> {
                CompletableFuture.runAsync(program::close).join();
                assertThat(values[0].toFloats()).containsExactly(2, 4);
            }, x)).isInstanceOf(TensorException.class).hasMessageContaining("the program is closed");
            assertThat(result[0].isClosed()).isTrue();
            assertThatThrownBy(() -> program.run(x)).hasMessageContaining("the program is closed");
            program.close();
        }
    }

    @Test
    void twoThreadsCannotRunItAtOnce() {
        try (Scope scope = Scope.open()) {
            Tensor x = Tensor.of(new float[] {1, 2}, 2);
            try (Program program = Program.capture(null, in -> {
                Tensor y = in[0].mul(2);
                Program.mark(1);
                return new Tensor[] {y.mul(3)};
            }, x).program()) {
                program.run((label, values) -> {
                    CompletableFuture<Void> other = CompletableFuture.runAsync(() -> program.run(x));
                    assertThatThrownBy(other::join).hasMessageContaining("a program cannot run while it runs");
                }, x);
                assertThat(program.run(x)[0].toFloats()).containsExactly(6, 12);
            }
        }
    }
}
