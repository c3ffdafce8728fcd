package dev.starling.tensor.program;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Attention;
import dev.starling.tensor.op.Movement;
import dev.starling.tensor.op.Update;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Draws work by a seed, and compares runs of its program with the work itself, bit for bit. */
class ProgramFuzzTest {
    private static final int MAX_ELEMENTS = 400;
    private static final int RUNS = 6;

    @Test
    void fixedSeedsFindNothing() {
        check(0, 1_500);
    }

    /** Properties {@code fuzz.first} and {@code fuzz.count} set the seeds. */
    @Test
    @Tag("stress")
    void manySeedsFindNothing() {
        check(Long.getLong("fuzz.first", 1_500), Long.getLong("fuzz.count", 200_000));
    }

    private static void check(long first, long count) {
        for (long seed = first; seed < first + count; seed++) {
            check(seed);
        }
    }

    private static void check(long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        long[][] shapes = new long[random.nextInt(1, 4)][];
        for (int i = 0; i < shapes.length; i++) {
            shapes[i] = i > 0 && random.nextInt(3) > 0 ? shapes[0] : shape(random);
        }
        long[] stateShape = shape(random);
        try (Scope scope = Scope.open()) {
            Drawn eager = new Drawn(seed, stateShape);
            Drawn captured = new Drawn(seed, stateShape);
            Program program = null;
            Tensor[] inputs = new Tensor[shapes.length];
            for (int run = 0; run < RUNS; run++) {
                Generator data = Generator.seeded(seed + run);
                for (int i = 0; i < inputs.length; i++) {
                    Tensor elements = data.normal(shapes[i]);
                    if (run >= 2 && run < RUNS - 1) {
                        Tensor.apply(new Update.Assign(), inputs[i], elements); // Kernels are prepared for its memory.
                    } else {
                        inputs[i] = elements;
                    }
                }
                Tensor[] expected = eager.run(inputs);
                Tensor[] results;
                if (program == null) {
                    Program.Captured first = Program.capture(captured.generator, captured::run, inputs);
                    program = first.program();
                    results = first.outputs();
                } else {
                    results = program.run(inputs);
                }
                for (int k = 0; k < expected.length; k++) {
                    assertThat(bits(results[k])).as("result %d of run %d of seed %d", k, run, seed)
                            .isEqualTo(bits(expected[k]));
                }
                assertThat(bits(captured.state)).as("state after run %d of seed %d", run, seed)
                        .isEqualTo(bits(eager.state));
            }
            check(program.explain());
            program.close();
        }
    }

    private static void check(Explanation explanation) {
        List<Explanation.Line> after = explanation.after();
        for (Explanation.Line line : explanation.before()) {
            assertThat(line.into()).isBetween(-1, after.size() - 1);
            assertThat(line.note().isEmpty() || line.note().startsWith("fused")).isEqualTo(line.into() >= 0);
        }
        for (int i = 0; i < after.size(); i++) {
            for (Explanation.Operand operand : after.get(i).operands()) {
                assertThat(operand.line()).isLessThan(i);
            }
        }
    }

    private static int[] bits(Tensor x) {
        float[] values = x.toFloats();
        int[] bits = new int[values.length];
        for (int i = 0; i < bits.length; i++) {
            bits[i] = Float.floatToIntBits(values[i]);
        }
        return bits;
    }

    private static long[] shape(SplittableRandom random) {
        long[] dims = new long[random.nextInt(0, 4)];
        for (int i = 0; i < dims.length; i++) {
            dims[i] = random.nextInt(12) == 0 ? 0 : random.nextInt(1, 7);
        }
        return dims;
    }

    /** Work that a seed determines, with a tensor that it changes and a generator of its own. */
    private static final class Drawn {
        private final long seed;
        private final Tensor state;
        private final Generator generator = Generator.seeded(1);
        private SplittableRandom random = new SplittableRandom();
        private final List<Tensor> values = new ArrayList<>();

        Drawn(long seed, long[] stateShape) {
            this.seed = seed;
            state = Generator.seeded(seed).normal(stateShape);
        }

        Tensor[] run(Tensor[] inputs) {
            random = new SplittableRandom(~seed);
            values.clear();
            values.addAll(List.of(inputs));
            values.add(state);
            int steps = random.nextInt(1, 25);
            for (int i = 0; i < steps; i++) {
                step();
            }
            Tensor[] results = new Tensor[random.nextInt(1, 4)];
            for (int k = 0; k < results.length; k++) {
                Tensor result = value();
                // What a later update changes would be changed in the work's result too, but not in an earlier copy.
                results[k] = result.sharesMemoryWith(state) ? result.add(0) : result;
            }
            return results;
        }

        private Tensor value() {
            return values.get(random.nextInt(3) == 0 ? random.nextInt(values.size())
                    : values.size() - 1 - random.nextInt(Math.min(4, values.size())));
        }

        private void step() {
            Tensor x = value();
            Tensor y = value();
            Tensor result = switch (random.nextInt(21)) {
                case 0 -> x.tanh();
                case 1 -> x.sigmoid();
                case 2 -> x.relu().sub(x);
                case 3 -> x.mul(random.nextInt(-2, 3)).add(1);
                case 4 -> x.abs().neg();
                case 5, 6 -> broadcasts(x, y) ? x.add(y) : x.exp().tanh();
                case 7 -> broadcasts(x, y) ? x.mul(y).tanh() : x.square().tanh();
                case 8 -> broadcasts(x, y) ? x.gt(y).where(x, y) : x.clamp(-1, 1);
                case 9 -> x.rank() == 0 ? x : x.sum(random.nextInt(x.rank()));
                case 10 -> x.rank() == 0 || x.count() == 0 ? x : x.max(true, random.nextInt(x.rank()));
                case 11 -> x.rank() < 2 ? x : x.transpose(0, random.nextInt(1, x.rank()));
                case 12 -> x.rank() == 0 || x.size(0) < 2 ? x : x.narrow(0, random.nextInt((int) x.size(0)), 1);
                case 13 -> x.reshape(x.count());
                case 14 -> x.rank() == 0 || 3 * x.count() > MAX_ELEMENTS ? x
                        : x.unsqueeze(0).expand(Shape.of(3).concat(x.shape()).dims());
                case 15 -> x.rank() == 2 && x.size(1) > 0 ? x.matmul(x.t()).tanh() : x;
                case 16 -> x.rank() == 0 || x.count() == 0 ? x : x.softmax(x.rank() - 1);
                case 17 -> x.to(DType.BF16).add(1).to(DType.F32);
                case 18 -> x.count() > MAX_ELEMENTS ? x : x.add(generator.normal(x.shape().dims()));
                case 19 -> x.rank() == 3 && x.count() > 0 ? attention(x) : x;
                default -> {
                    Tensor from = x.shape().equals(state.shape()) ? x : x.sum().tanh().expand(state.shape().dims());
                    Tensor.apply(new Update.Blend(0.5, 0.25), state, from);
                    yield state;
                }
            };
            if (result.count() <= MAX_ELEMENTS) {
                values.add(result);
            }
        }

        /** Attention of some of three parts of {@code x}, beside each other, and their gradients, joined. */
        private Tensor attention(Tensor x) {
            Tensor all = random.nextBoolean() ? Tensor.concat(2, x, x, x) : x.repeat(2, 3).add(1);
            Tensor[] parts = new Tensor[3];
            for (int i = 0; i < 3; i++) {
                Tensor from = random.nextInt(4) == 0 ? all.mul(1) : all;
                parts[i] = from.narrow(2, i * x.size(2), x.size(2)).reshape(x.size(0), x.size(1), 1, x.size(2))
                        .permute(0, 2, 1, 3);
            }
            Tensor[] y = Tensor.apply(new Attention.ScaledDotProduct(1, random.nextBoolean()), parts);
            Tensor[] gradients = Tensor.apply(new Attention.ScaledDotProductGradient(1, false), y[0], parts[0],
                    parts[1], parts[2], y[0], y[1]);
            for (int i = 0; i < 3; i++) {
                gradients[i] = gradients[i].permute(0, 2, 1, 3).reshape(x.shape());
            }
            return Tensor.compute(new Movement.Concat(2, true), gradients).tanh();
        }

        private static boolean broadcasts(Tensor x, Tensor y) {
            int rank = Math.min(x.rank(), y.rank());
            for (int i = 1; i <= rank; i++) {
                if (x.size(-i) != y.size(-i) && x.size(-i) != 1 && y.size(-i) != 1) {
                    return false;
                }
            }
            return Math.max(x.count(), 1) * Math.max(y.count(), 1) <= MAX_ELEMENTS * 20L;
        }
    }
}
