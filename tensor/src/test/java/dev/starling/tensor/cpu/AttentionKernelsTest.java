package dev.starling.tensor.cpu;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.Threads;
import dev.starling.tensor.cpu.rows.AttentionRows;
import dev.starling.tensor.cpu.rows.RowLoops;
import dev.starling.tensor.op.Attention;
import dev.starling.tensor.reference.ReferenceKernels;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class AttentionKernelsTest {
    private static final double SCALE = 0.3;
    private static final int CASES = Integer.getInteger("attention.cases", 30);
    private Scope scope;

    @BeforeEach
    void open() {
        scope = Scope.open();
    }

    @AfterEach
    void close() {
        scope.close();
    }

    private static Oracle.Kernel kernel(AttentionRows rows) {
        return (op, in, out) -> AttentionKernels.run((Attention) op, in, out, rows);
    }

    @ParameterizedTest
    @CsvSource({"1,2,1", "5,33,7", "33,5,16", "70,70,8", "300,300,3", "20,2000,5"})
    void agreesWithTheReferenceWithAndWithoutMasks(int queries, int keys, int width) {
        Tensor q = Oracle.random(1, 3, queries, width);
        Tensor k = Oracle.random(2, 3, keys, width);
        Tensor v = Oracle.random(3, 3, keys, width + 1);
        Tensor g = Oracle.random(4, 3, queries, width + 1);
        Tensor added = Oracle.random(5, queries, keys);
        Tensor hidden = added.maskedFill(added.lt(-0.5), Double.NEGATIVE_INFINITY);
        Tensor blind = added.mul(0).add(Double.NEGATIVE_INFINITY);
        for (AttentionRows rows : RowLoops.all().stream().map(RowLoops::attention).toList()) {
            for (boolean causal : new boolean[] {false, true}) {
                for (Tensor[] mask : new Tensor[][] {{}, {added}, {added.gt(-1)}, {added.gt(5)}, {hidden}, {blind}}) {
                    Tensor[] y = Oracle.check(kernel(rows), new Attention.ScaledDotProduct(SCALE, causal), 4e-6,
                            with(mask, q, k, v));
                    Oracle.check(kernel(rows), new Attention.ScaledDotProductGradient(SCALE, causal), 1e-5,
                            with(mask, g, q, k, v, y[0], y[1]));
                }
            }
        }
    }

    /** One query or key, heads that broadcast, scales without effect or below 0, and masks of every shape. */
    @Test
    void agreesWithTheReferenceForRandomShapes() {
        for (int seed = 0; seed < CASES; seed++) {
            SplittableRandom random = new SplittableRandom(seed);
            int queries = pick(random, 1, 2, 15, 64, 65, 130);
            int keys = pick(random, 1, 2, 16, 63, 65, 140);
            int width = pick(random, 1, 3, 8);
            int depth = pick(random, 1, 5, 8);
            int heads = pick(random, 1, 2, 5, 8);
            int batch = pick(random, 1, 2);
            Tensor q = Oracle.random(seed, batch, heads, queries, width);
            Tensor k = Oracle.random(seed + 1, pick(random, 1, batch), pick(random, 1, heads), keys, width);
            Tensor v = Oracle.random(seed + 2, batch, pick(random, 1, heads), keys, depth);
            Tensor g = Oracle.random(seed + 3, batch, heads, queries, depth);
            Tensor[] mask = switch (random.nextInt(6)) {
                case 0 -> new Tensor[] {Oracle.random(seed + 4, keys)};
                case 1 -> new Tensor[] {Oracle.random(seed + 4, heads, 1, keys)};
                case 2 -> new Tensor[] {Oracle.random(seed + 4, batch, 1, queries, keys).gt(0.9)};
                case 3 -> new Tensor[] {Oracle.random(seed + 4, queries, 1).gt(0)};
                default -> new Tensor[0];
            };
            double scale = new double[] {SCALE, SCALE, -0.7, 0}[random.nextInt(4)];
            boolean causal = random.nextBoolean();
            for (AttentionRows rows : RowLoops.all().stream().map(RowLoops::attention).toList()) {
                Tensor[] y = Oracle.check(kernel(rows), new Attention.ScaledDotProduct(scale, causal), 4e-6,
                        with(mask, q, k, v));
                Attention gradient = new Attention.ScaledDotProductGradient(scale, causal);
                Tensor[] operands = with(mask, g, q, k, v, y[0], y[1]);
                checkGradients(kernel(rows), gradient, operands);
                if (mask.length == 0) {
                    Oracle.check(kernel(rows), new Attention.ScaledDotProduct(scale, causal), 4e-6,
                            Oracle.withSpecials(q), k, v);
                }
            }
        }
    }

    /** Allows for rounding where all gradients are 0, as those of a query that sees one key. */
    private static void checkGradients(Oracle.Kernel kernel, Attention gradient, Tensor[] operands) {
        Spec[] outputs = gradient.infer(Arrays.stream(operands).map(Tensor::spec).toArray(Spec[]::new));
        Tensor[] is = kernel.run(gradient, operands, outputs);
        Tensor[] wanted = ReferenceKernels.run(gradient, operands, outputs);
        for (int i = 0; i < is.length; i++) {
            double most = Arrays.stream(wanted[i].toDoubles()).map(Math::abs).max().orElseThrow();
            assertThat(is[i].toDoubles()).containsExactly(wanted[i].toDoubles(), within(1e-5 * Math.max(1, most)));
        }
    }

    private static int pick(SplittableRandom random, int... values) {
        return values[random.nextInt(values.length)];
    }

    /** The results of libtorch 2.10: 0, and gradients as if the query did not exist. */
    @Test
    void givesZeroToAQueryWhoseScoresAreAllHidden() {
        double no = Double.NEGATIVE_INFINITY;
        for (Device device : List.of(Device.cpu(), Device.reference())) {
            for (DType type : new DType[] {DType.F32, DType.F64, DType.BF16}) {
                Tensor[] in = {Oracle.random(1, 2, 4), Oracle.random(2, 2, 4), Oracle.random(3, 2, 3),
                    Tensor.of(new double[] {no, no, 0, 0}, 2, 2), Oracle.random(4, 2, 3)};
                for (int i = 0; i < in.length; i++) {
                    in[i] = in[i].to(device).to(type);
                }
                Tensor[] y = Tensor.apply(new Attention.ScaledDotProduct(SCALE, false), in[0], in[1], in[2], in[3]);
                assertThat(y[0].get(0).toDoubles()).containsExactly(0, 0, 0);
                Tensor[] chosen = Tensor.apply(new Attention.ScaledDotProduct(SCALE, false), in[0], in[1], in[2],
                        in[3].eq(0));
                assertThat(y[0].toDoubles()).containsExactly(chosen[0].toDoubles());
                Tensor[] gradients = Tensor.apply(new Attention.ScaledDotProductGradient(SCALE, false), in[4], in[0],
                        in[1], in[2], y[0], y[1], in[3]);
                assertThat(gradients[0].get(0).toDoubles()).containsOnly(0);
                Tensor[] seen = Tensor.apply(new Attention.ScaledDotProductGradient(SCALE, false),
                        in[4].narrow(0, 1, 1), in[0].narrow(0, 1, 1), in[1], in[2], y[0].narrow(0, 1, 1),
                        y[1].narrow(0, 1, 1));
                for (int i = 1; i < 3; i++) {
                    double[] wanted = seen[i].toDoubles();
                    double[] is = gradients[i].toDoubles();
                    for (int j = 0; j < is.length; j++) {
                        assertThat(is[j]).isCloseTo(wanted[j], within(1e-2 * Math.abs(wanted[j]) + 1e-6));
                    }
                }
            }
        }
    }

    @Test
    void aFiniteScoreIsNeverTooLarge() {
        Tensor q = Tensor.full(DType.F32, 1e5, 1, 3);
        Tensor v = Tensor.ones(1, 1);
        Tensor[] y = Tensor.apply(new Attention.ScaledDotProduct(1 / Math.sqrt(3), false), q, q, v);
        assertThat(y[0].item()).isEqualTo(1);
        Tensor[] gradients = Tensor.apply(new Attention.ScaledDotProductGradient(1 / Math.sqrt(3), false), v, q, q, v,
                y[0], y[1]);
        assertThat(gradients[0].toDoubles()).containsOnly(0);
        assertThat(gradients[2].item()).isEqualTo(1);
    }

    private static Tensor[] with(Tensor[] mask, Tensor... operands) {
        Tensor[] all = Arrays.copyOf(operands, operands.length + mask.length);
        System.arraycopy(mask, 0, all, operands.length, mask.length);
        return all;
    }

    /** If heads are views of one projection, results are views of one matrix. */
    @Test
    void keepsTheLayoutOfHeads() {
        Tensor all = Oracle.random(1, 2, 9, 3, 4, 8).permute(2, 0, 3, 1, 4);
        Tensor q = all.narrow(0, 0, 1).squeeze(0);
        Tensor y = Oracle.check(kernel(RowLoops.FASTEST.attention()), new Attention.ScaledDotProduct(SCALE, true), 4e-6,
                q, all.narrow(0, 1, 1).squeeze(0), all.narrow(0, 2, 1).squeeze(0))[0];
        assertThat(y.permute(0, 2, 1, 3).isContiguous()).isTrue();
    }

    @Test
    void givesTheSameBitsWithAnyNumberOfThreads() {
        Tensor q = Oracle.random(1, 3, 6, 150, 16);
        Tensor k = Oracle.random(2, 3, 1, 150, 16);
        Attention forward = new Attention.ScaledDotProduct(SCALE, true);
        Attention backward = new Attention.ScaledDotProductGradient(SCALE, true);
        List<Tensor[]> results = new ArrayList<>();
        for (int threads : new int[] {1, 2, 5}) {
            results.add(Threads.with(threads, () -> {
                Tensor[] y = Tensor.apply(forward, q, k, k);
                Tensor[] g = Tensor.apply(backward, q, q, k, k, y[0], y[1]);
                return new Tensor[] {y[0], y[1], g[0], g[1], g[2]};
            }));
        }
        for (Tensor[] other : results) {
            for (int i = 0; i < other.length; i++) {
                assertThat(other[i].toFloats()).isEqualTo(results.getFirst()[i].toFloats());
            }
        }
    }

    /** Scores of all queries with all keys would take 64 MiB. */
    @Test
    void doesNotStoreAllScores() {
        Tensor q = Oracle.random(1, 4096, 2);
        Attention op = new Attention.ScaledDotProduct(SCALE, true);
        Tensor[] first = Tensor.apply(op, q, q, q);
        long cached = Device.cpu().memory().cached() + Device.cpu().memory().live();
        Tensor[] y = Tensor.apply(op, q, q, q);
        Tensor.apply(new Attention.ScaledDotProductGradient(SCALE, true), y[0], q, q, q, y[0], y[1]);
        assertThat(first).hasSize(2);
        assertThat(Device.cpu().memory().cached() + Device.cpu().memory().live() - cached).isLessThan(16L << 20);
    }
}
