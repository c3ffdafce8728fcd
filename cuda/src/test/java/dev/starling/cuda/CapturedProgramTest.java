package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.cuda.emulated.FakeDriver;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Functions;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Losses;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Activation;
import dev.starling.tensor.op.Recurrence;
import dev.starling.tensor.op.Update;
import dev.starling.tensor.program.Program;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.MethodSource;

/** Programs as graphs of a GPU. The oracle is the same work without a program; on an emulated GPU bit for bit. */
@EnabledIf(value = "dev.starling.cuda.AnyGpu#isAvailable", disabledReason = "needs an NVIDIA GPU, or g++ on x86-64")
@ParameterizedClass
@MethodSource("dev.starling.cuda.AnyGpu#devices")
class CapturedProgramTest {
    private final Device gpu;

    private final Generator data = Generator.seeded(3);

    CapturedProgramTest(Device gpu) {
        this.gpu = gpu;
    }

    private Tensor normal(long... shape) {
        return data.normal(new Spec(DType.F32, Shape.of(shape), gpu), 0, 1);
    }

    /** A real GPU may round a product and a sum once if they are fused in a chain. */
    private void assertSame(Tensor actual, Tensor expected) {
        double[] a = actual.toDoubles();
        double[] e = expected.toDoubles();
        double tolerance = gpu.type().equals("cuda") ? 1e-5 : 0;
        assertThat(a.length).isEqualTo(e.length);
        for (int i = 0; i < a.length; i++) {
            assertThat(a[i]).isCloseTo(e[i], within(tolerance * (1 + Math.abs(e[i]))));
        }
    }

    @Test
    void runsOnNewInputsFromHostAndDevice() {
        Program.Work work = in -> new Tensor[] {in[0].matmul(in[0].transpose(0, 1)).mul(0.5).softmax(1).sum(0),
            in[0].mul(2)};
        try (Scope scope = Scope.open();
                Program program = Program.capture(null, work, normal(5, 7)).program()) {
            for (int i = 0; i < 5; i++) {
                Tensor x = i % 2 == 0 ? normal(5, 7) : data.normal(5, 7);
                Tensor[] expected = work.run(new Tensor[] {x.to(gpu)});
                Tensor[] y = program.run(x);
                assertSame(y[0], expected[0]);
                assertSame(y[1], expected[1]);
                assertThat(program.isRecorded()).isEqualTo(i > 0);
            }
        }
    }

    /** A chain that one kernel cannot compute becomes two kernels, not one for each operation. */
    @Test
    void splitsChainsOfTwoTypesIntoTwoKernels() {
        Assumptions.assumeTrue(gpu.index() == EmulatedProvider.WITH_DRIVER && gpu.type().equals("cuda-emulated"),
                "counts launches of the fake driver");
        Program.Work work = in -> new Tensor[] {in[0].abs().mul(20).neg().to(DType.I64).neg().abs().neg()};
        try (Scope scope = Scope.open(); Program program = Program.capture(null, work, normal(5, 7)).program()) {
            Tensor x = normal(5, 7);
            for (int i = 0; i < 3; i++) {
                assertThat(program.run(x)[0].toDoubles()).isEqualTo(work.run(new Tensor[] {x})[0].toDoubles());
            }
            long before = FakeDriver.count("launches");
            program.run(x);
            // One of them copies the input.
            assertThat(FakeDriver.count("launches") - before).isLessThanOrEqualTo(3);
        }
    }

    /** A chain's numbers are arguments: other numbers need no new kernels. Infinite numbers are allowed. */
    @Test
    void reusesKernelsForChainsWithOtherNumbers() {
        Assumptions.assumeTrue(gpu.index() == EmulatedProvider.WITH_DRIVER && gpu.type().equals("cuda-emulated"),
                "counts kernels of the fake driver");
        try (Scope scope = Scope.open()) {
            Tensor x = normal(6, 8);
            long[] modules = new long[3];
            for (int i = 0; i < 3; i++) {
                double shift = i;
                Program.Work work = in -> new Tensor[] {
                    in[0].square().reciprocal().sub(shift).clamp(0, Double.POSITIVE_INFINITY)};
                try (Program program = Program.capture(null, work, x).program()) {
                    program.run(x);
                    assertSame(program.run(x)[0], work.run(new Tensor[] {x})[0]);
                    modules[i] = FakeDriver.count("modules");
                }
            }
            assertThat(modules[2]).isEqualTo(modules[1]);
        }
    }

    @Test
    void readsLengthsOfSequencesInEveryRun() {
        try (Scope scope = Scope.open()) {
            Tensor h = normal(3, 5);
            Tensor w = normal(15, 4);
            Tensor u = normal(15, 5);
            Program.Work work = in -> Tensor.apply(new Recurrence.Gru(true, true), in[0], h, w, u, in[1]);
            try (Program program = Program.capture(null, work, normal(6, 3, 4), lengths(6, 1, 3)).program()) {
                for (long length = 0; length < 4; length++) {
                    Tensor[] in = {normal(6, 3, 4), lengths(length, 5, 2 * length)};
                    Tensor[] expected = work.run(in);
                    Tensor[] y = program.run(in);
                    for (int i = 0; i < y.length; i++) {
                        assertSame(y[i], expected[i]);
                    }
                }
                assertThat(program.isRecorded()).isTrue();
            }
        }
    }

    private Tensor lengths(long... lengths) {
        return Tensor.of(lengths).to(gpu);
    }

    @Test
    void renewsRandomNumbersInEveryRun() {
        Generator eager = Generator.seeded(5);
        Generator replayed = Generator.seeded(5);
        try (Scope scope = Scope.open()) {
            Tensor x = normal(9, 5);
            Program.Captured captured = Program.capture(replayed, in -> draws(in[0], replayed), x);
            draws(x, eager);
            try (Program program = captured.program()) {
                for (int i = 0; i < 5; i++) {
                    Tensor y = program.run(x)[0];
                    assertSame(y, draws(x, eager)[0]);
                    assertThat(replayed.state()).isEqualTo(eager.state());
                }
                assertThat(program.isRecorded()).isTrue();
            }
        }
    }

    /** One operand is not dense, so that an operation takes two kernels. */
    private Tensor[] draws(Tensor x, Generator g) {
        return new Tensor[] {Functions.dropout(x.transpose(0, 1), 0.5, g).exp().mul(
                Functions.dropout(x, 0.3, g).transpose(0, 1)).add(g.uniform(new Spec(DType.F32, Shape.of(5, 9), gpu),
                0, 1))};
    }

    @Test
    void updatesInEveryRun() {
        try (Scope scope = Scope.open()) {
            Tensor sum = Tensor.zeros(6).to(gpu);
            Tensor x = normal(6);
            Program.Captured captured = Program.capture(null, in -> {
                Tensor.apply(new Update.Blend(1, 1), sum, in[0]);
                return new Tensor[] {sum.square()};
            }, x);
            try (Program program = captured.program()) {
                Tensor expected = x;
                for (int i = 0; i < 4; i++) {
                    Tensor other = normal(6);
                    expected = expected.add(other);
                    int version = sum.storage().version();
                    assertSame(program.run(other)[0], expected.square());
                    assertThat(sum.storage().version()).isGreaterThan(version);
                }
                assertThat(program.isRecorded()).isTrue();
                assertSame(sum, expected);
            }
        }
    }

    @Test
    void reservesTheMemoryOfAGraph() {
        try (Scope scope = Scope.open()) {
            Tensor x = normal(32, 32);
            Program.Work work = in -> new Tensor[] {in[0].exp().matmul(in[0]).relu().sum()};
            Program program = Program.capture(null, work, x).program();
            program.run(x);
            double expected = program.run(x)[0].item();
            for (int i = 0; i < 20; i++) {
                Tensor.full(DType.F32, 9, 32, 32).to(gpu);
            }
            assertSame(program.run(x)[0], Tensor.full(DType.F64, expected));
            long live = gpu.memory().live();
            program.run(x);
            assertThat(gpu.memory().live()).isEqualTo(live);
            program.close();
            assertThat(gpu.memory().live()).isLessThan(live);
        }
    }

    @Test
    void reportsBadIndicesOfAGraph() {
        try (Scope scope = Scope.open()) {
            Tensor logits = normal(3, 5);
            Tensor target = Tensor.of(new long[] {0, 4, 2});
            Program.Work work = in -> new Tensor[] {Losses.crossEntropy(in[0], in[1])};
            try (Program program = Program.capture(null, work, logits, target.to(gpu)).program()) {
                double expected = work.run(new Tensor[] {logits, target.to(gpu)})[0].item();
                for (int i = 0; i < 3; i++) {
                    assertSame(program.run(logits, target)[0], Tensor.full(DType.F64, expected));
                }
                assertThat(program.isRecorded()).isTrue();
                assertThatThrownBy(() -> program.run(logits, Tensor.of(new long[] {0, 5, 2}))[0].item())
                        .isInstanceOf(TensorException.class).hasMessageContaining("index 5 at position 1");
                assertSame(program.run(logits, target)[0], Tensor.full(DType.F64, expected));
            }
        }
    }

    /** Another thread than the one that recorded the graph. The error prevents its updates, also those of the graph. */
    @Test
    void reportsBadIndicesToTheThreadThatRuns() {
        try (Scope scope = Scope.open()) {
            Tensor table = Tensor.of(new float[] {1, 2, 4}).to(gpu);
            Tensor inside = Tensor.zeros(1).to(gpu);
            Tensor outside = Tensor.zeros(1).to(gpu);
            Update add = new Update.Blend(1, 1);
            Program.Work work = in -> {
                Tensor y = table.take(0, in[0]);
                Tensor.apply(add, inside, y);
                return new Tensor[] {y};
            };
            Tensor good = Tensor.of(new long[] {2}).to(gpu);
            Tensor bad = Tensor.of(new long[] {7}).to(gpu);
            try (Program program = Program.capture(null, work, good).program()) {
                program.run(good);
                program.run(good);
                CompletableFuture.runAsync(() -> {
                    try (Scope own = Scope.open()) {
                        Tensor y = program.run(bad)[0];
                        Tensor.applyAll(new Update[] {add}, new Tensor[][] {{outside, good.to(DType.F32)}}, null);
                        assertThatThrownBy(y::toFloats).isInstanceOf(TensorException.class)
                                .hasMessageContaining("index 7 at position 0");
                        assertThat(outside.toFloats()).containsExactly(0);
                        assertThat(inside.toFloats()).containsExactly(12);
                        assertThat(program.run(good)[0].toFloats()).containsExactly(4);
                        assertThat(program.isRecorded()).isTrue();
                    }
                }, Thread::startVirtualThread).join();
                assertThat(program.run(good)[0].toFloats()).containsExactly(4);
                assertThat(inside.toFloats()).containsExactly(20);
            }
        }
    }

    @Test
    void runsElementwiseChainsInOneKernel() {
        Program.Work work = in -> {
            Tensor chain = in[0].mul(2).exp().add(in[0]).clamp(-1, 3).sub(in[1]).gt(in[1]).where(in[0], in[1].neg());
            Tensor bounded = Tensor.compute(Activation.SOFTSIGN, chain);
            return new Tensor[] {bounded.mul(chain.square()).pow(3).to(DType.F64), chain.to(DType.I64).add(in[2]).mul(
                in[2])};
        };
        try (Scope scope = Scope.open()) {
            Tensor whole = Tensor.of(new long[] {3, -4, 5, 6, 7}).to(gpu);
            try (Program program = Program.capture(null, work, normal(6, 5), normal(5), whole).program()) {
                // The chain, its part of another shape, the operations after it in f32, and two in i64.
                assertThat(program.size()).isLessThanOrEqualTo(6);
                for (int i = 0; i < 4; i++) {
                    Tensor[] x = {normal(6, 5), normal(5), whole};
                    Tensor[] expected = work.run(x);
                    Tensor[] y = program.run(x);
                    assertSame(y[0], expected[0]);
                    assertThat(y[1].toLongs()).isEqualTo(expected[1].toLongs());
                }
                assertThat(program.isRecorded()).isTrue();
            }
        }
    }

    @Test
    void roundsSixteenBitChainsWhereTheirOperationsDo() {
        Program.Work work = in -> new Tensor[] {in[0].mul(in[1]).add(in[2]).gelu(), in[0].to(DType.F32).mul(3).exp()
            .to(DType.BF16)};
        try (Scope scope = Scope.open()) {
            Tensor[] x = new Tensor[3];
            for (int i = 0; i < x.length; i++) {
                x[i] = normal(7, 9).to(DType.BF16);
            }
            try (Program program = Program.capture(null, work, x).program()) {
                assertThat(program.size()).isEqualTo(2);
                for (int i = 0; i < 3; i++) {
                    Tensor[] expected = work.run(x);
                    Tensor[] y = program.run(x);
                    assertThat(y[0].toFloats()).isEqualTo(expected[0].toFloats());
                    assertThat(y[1].toFloats()).isEqualTo(expected[1].toFloats());
                }
            }
        }
    }

    @Test
    void copiesInputsOfSeveralTypesInAnyLayout() {
        Program.Work work = in -> new Tensor[] {in[0].mul(2), in[1].add(1), in[2].neg(), in[3].to(DType.I64)};
        try (Scope scope = Scope.open()) {
            Tensor half = normal(9).to(DType.BF16);
            Tensor whole = Tensor.of(new long[] {1, 2, 3, 4, 5}).to(gpu);
            Tensor bytes = Tensor.of(new long[] {1, 2, 3, 4, 5, 6}).to(DType.U8).to(gpu);
            Tensor wide = normal(4, 6);
            Tensor[] x = {half.narrow(0, 0, 4), whole, wide.narrow(1, 0, 3), bytes.narrow(0, 0, 4)};
            try (Program program = Program.capture(null, work, x).program()) {
                for (int i = 0; i < 3; i++) {
                    Tensor[] other = {half.narrow(0, 2 * i + 1, 4), whole.add(i), wide.narrow(1, i, 3),
                        bytes.narrow(0, i, 4)};
                    Tensor[] expected = work.run(other);
                    Tensor[] y = program.run(other);
                    for (int k = 0; k < y.length; k++) {
                        assertThat(y[k].toDoubles()).isEqualTo(expected[k].toDoubles());
                    }
                }
            }
        }
    }

    @Test
    void staysUsableAfterInputsThatDoNotFit() {
        Program.Work work = in -> new Tensor[] {in[0].add(in[1])};
        try (Scope scope = Scope.open();
                Program program = Program.capture(null, work, normal(3, 4), normal(3, 4)).program()) {
            for (int i = 0; i < 3; i++) {
                Tensor x = normal(3, 4);
                Tensor y = normal(3, 4);
                assertThatThrownBy(() -> program.run(x, normal(4, 3))).isInstanceOf(TensorException.class)
                        .hasMessageContaining("input 1 must have the type and shape of the capture");
                assertSame(program.run(x, y)[0], x.add(y));
            }
        }
    }
}
