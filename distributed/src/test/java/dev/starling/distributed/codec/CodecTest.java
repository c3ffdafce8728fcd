package dev.starling.distributed.codec;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.bucket.BucketReduction;
import dev.starling.distributed.bucket.Buckets;
import dev.starling.distributed.bucket.GradientBucket;
import dev.starling.distributed.bucket.GradientBucket.Gradient;
import dev.starling.distributed.bucket.GradientCodec;
import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.tensor.DType;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Sums of gradients by codecs, compared with closed forms. */
@Timeout(60)
class CodecTest {
    private static final int WORLD = 3;
    private static final double ROUNDING = 1e-4;

    /** A layer of nothing but parameters of some shapes. */
    private record Bag(List<Parameter> all) implements Layer {
        static Bag of(List<long[]> shapes) {
            return new Bag(shapes.stream().map(shape -> Parameter.of(Tensor.zeros(shape))).toList());
        }

        @Override
        public Tensor forward(Tensor x) {
            return x;
        }

        @Override
        public void visit(Visitor visitor) {
            for (int i = 0; i < all.size(); i++) {
                visitor.parameter("p" + i, all.get(i));
            }
        }
    }

    /** Computes the gradients of a rank in a step; {@code null} for none. */
    private interface Source {
        float[] gradient(int rank, int step, int index, int count);
    }

    /** The sums by step and gradient, and what a rank has held back, by gradient. */
    private record Result(List<float[][]> sums, float[][] residuals) { }

    private static List<Result> run(GradientCodec codec, List<long[]> shapes, int steps, Source source) {
        return Cluster.local(WORLD).run(group -> sum(group, codec, shapes, steps, source));
    }

    private static Result sum(Group group, GradientCodec codec, List<long[]> shapes, int steps, Source source) {
        float[][] residuals = new float[shapes.size()][];
        GradientCodec watched = bucket -> {
            for (Gradient each : bucket.gradients()) {
                residuals[each.index()] = bucket.residual(each);
            }
            return codec.reduction(bucket);
        };
        List<float[][]> sums = new ArrayList<>();
        try (Scope scope = Scope.open("test");
                Optimizer sgd = Sgd.over(Bag.of(shapes)).build();
                Buckets buckets = Buckets.over(group, group.collectives(), sgd).codec(watched).bucketBytes(4096)
                        .numbers(1).open()) {
            for (int step = 0; step < steps; step++) {
                Tensor[] gradients = new Tensor[shapes.size()];
                for (int i = shapes.size() - 1; i >= 0; i--) {
                    int count = (int) sgd.parameters().get(i).shape().count();
                    float[] values = source.gradient(group.rank(), step, i, count);
                    if (values != null) {
                        gradients[i] = Tensor.of(values, values.length).reshape(shapes.get(i));
                        buckets.gradient(i, gradients[i]);
                    }
                }
                buckets.number(0, 1 + group.rank());
                buckets.sum(gradients);
                assertThat(buckets.number(0)).isEqualTo(WORLD * (WORLD + 1) / 2f);
                float[][] all = new float[shapes.size()][];
                for (int i = 0; i < all.length; i++) {
                    all[i] = gradients[i] == null ? null : gradients[i].toFloats();
                }
                sums.add(all);
                buckets.next();
            }
        }
        return new Result(sums, residuals);
    }

    private static void assertSameBits(List<Result> results) {
        for (Result each : results) {
            for (int step = 0; step < each.sums.size(); step++) {
                assertThat(Arrays.deepEquals(each.sums.get(step), results.getFirst().sums.get(step))).isTrue();
            }
        }
    }

    private static float[] integers(int rank, int step, int index, int count) {
        Random random = new Random(rank * 1000L + step * 100L + index);
        float[] all = new float[count];
        for (int i = 0; i < count; i++) {
            all[i] = random.nextInt(-50, 51);
        }
        return all;
    }

    /** Any shapes, some without elements or dimensions; some gradients are absent on some ranks, or on all. */
    private static List<long[]> shapes(Random random) {
        List<long[]> shapes = new ArrayList<>();
        for (int n = 1 + random.nextInt(12); n > 0; n--) {
            long[] shape = new long[random.nextInt(5)];
            for (int d = 0; d < shape.length; d++) {
                shape[d] = random.nextInt(8) == 0 ? random.nextInt(2) : 1 + random.nextInt(9);
            }
            shapes.add(shape);
        }
        return shapes;
    }

    private static Source sparse(long seed) {
        return (rank, step, index, count) -> new Random(seed * 31 + rank * 7L + index * 3L).nextInt(4) == 0 ? null
                : integers(rank, step, index, count);
    }

    private static float[] sumOver(Source source, int step, int index, int count) {
        float[] sum = null;
        for (int rank = 0; rank < WORLD; rank++) {
            float[] own = source.gradient(rank, step, index, count);
            if (own != null) {
                sum = sum == null ? new float[count] : sum;
                for (int i = 0; i < count; i++) {
                    sum[i] += own[i];
                }
            }
        }
        return sum;
    }

    private static int count(long[] shape) {
        return (int) Arrays.stream(shape).reduce(1, (a, b) -> a * b);
    }

    /** All gradients up to a step are what was summed by then and what is held back. */
    private static void assertNothingIsLost(List<Result> results, List<long[]> shapes, Source source,
            double tolerance) {
        int steps = results.getFirst().sums.size();
        for (int g = 0; g < shapes.size(); g++) {
            double[] missing = new double[count(shapes.get(g))];
            for (int step = 0; step < steps; step++) {
                float[] all = sumOver(source, step, g, missing.length);
                float[] sent = results.getFirst().sums.get(step)[g];
                assertThat(sent == null && all != null).isFalse();
                for (int i = 0; i < missing.length; i++) {
                    missing[i] += (all == null ? 0 : all[i]) - (sent == null ? 0 : sent[i]);
                }
            }
            for (Result each : results) {
                for (int i = 0; i < missing.length; i++) {
                    missing[i] -= each.residuals[g][i];
                }
            }
            for (double each : missing) {
                assertThat(each).isCloseTo(0, within(tolerance));
            }
        }
    }

    // ---- top-k ----

    @Test
    void topKOfAllElementsIsTheSum() {
        for (int seed = 0; seed < 8; seed++) {
            List<long[]> shapes = shapes(new Random(seed));
            Source source = sparse(seed);
            List<Result> results = run(new TopK(1), shapes, 2, source);
            assertSameBits(results);
            for (int step = 0; step < 2; step++) {
                for (int g = 0; g < shapes.size(); g++) {
                    float[] expected = sumOver(source, step, g, count(shapes.get(g)));
                    float[] sum = results.getFirst().sums.get(step)[g];
                    if (expected == null) {
                        assertThat(sum).isNull();
                    } else {
                        assertThat(sum).containsExactly(expected);
                    }
                }
            }
        }
    }

    @Test
    void topKSendsTheLargestElements() {
        Source source = (rank, step, index, count) -> {
            float[] own = new float[count];
            own[rank] = 10;
            own[5] = -20 - rank;
            own[6] = 1;
            return step == 0 ? own : new float[count];
        };
        // Two of ten elements of each rank: in the first step the largest, in the second the ones that are left.
        List<Result> results = run(new TopK(0.2), List.of(new long[] {10}), 2, source);
        assertSameBits(results);
        assertThat(results.getFirst().sums.get(0)[0]).containsExactly(10, 10, 10, 0, 0, -63, 0, 0, 0, 0);
        assertThat(results.getFirst().sums.get(1)[0]).containsExactly(0, 0, 0, 0, 0, 0, 3, 0, 0, 0);
    }

    @Test
    void topKLosesNothing() {
        for (int seed = 0; seed < 8; seed++) {
            List<long[]> shapes = shapes(new Random(seed));
            List<Result> results = run(new TopK(0.1), shapes, 6, sparse(seed));
            assertSameBits(results);
            assertNothingIsLost(results, shapes, sparse(seed), 0);
        }
    }

    // ---- PowerSGD ----

    /** Returns the gradient of a rank as a product of integer factors, which all ranks' sums have in common. */
    private static float[] product(int rank, int rows, int columns, int inner) {
        Random left = new Random(5);
        Random right = new Random(6 + rank);
        int[][] a = new int[rows][inner];
        int[][] b = new int[inner][columns];
        for (int[] row : a) {
            Arrays.setAll(row, _ -> left.nextInt(-5, 6));
        }
        for (int[] row : b) {
            Arrays.setAll(row, _ -> right.nextInt(-5, 6));
        }
        float[] all = new float[rows * columns];
        for (int i = 0; i < rows; i++) {
            for (int j = 0; j < columns; j++) {
                for (int k = 0; k < inner; k++) {
                    all[i * columns + j] += a[i][k] * b[k][j];
                }
            }
        }
        return all;
    }

    @Test
    void powerSgdReproducesASumOfItsRank() {
        for (int rank = 1; rank <= 3; rank++) {
            int inner = rank;
            Source source = (r, step, index, count) -> index == 0 ? product(r, 40, 30, inner)
                    : integers(r, step, index, count);
            List<long[]> shapes = List.of(new long[] {40, 5, 6}, new long[] {7});
            List<Result> results = run(new PowerSgd(rank), shapes, 3, source);
            assertSameBits(results);
            for (int step = 0; step < 3; step++) {
                float[][] sums = results.getFirst().sums.get(step);
                assertThat(sums[0]).containsExactly(sumOver(source, 0, 0, 1200), within((float) (100 * ROUNDING)));
                assertThat(sums[1]).containsExactly(sumOver(source, step, 1, 7));
            }
            // A lower rank does not.
            float[] lower = run(new PowerSgd(rank), shapes, 1, (r, step, index, count) -> index == 0
                    ? product(r, 40, 30, inner + 1) : integers(r, step, index, count)).getFirst().sums.get(0)[0];
            float[] expected = new float[1200];
            for (int r = 0; r < WORLD; r++) {
                float[] own = product(r, 40, 30, inner + 1);
                for (int i = 0; i < own.length; i++) {
                    expected[i] += own[i];
                }
            }
            double worst = 0;
            for (int i = 0; i < lower.length; i++) {
                worst = Math.max(worst, Math.abs(lower[i] - expected[i]));
            }
            assertThat(worst).isGreaterThan(1);
        }
    }

    @Test
    void powerSgdLosesNothing() {
        for (int seed = 0; seed < 8; seed++) {
            List<long[]> shapes = shapes(new Random(seed));
            List<Result> results = run(new PowerSgd(1 + seed % 3, seed), shapes, 6, sparse(seed));
            assertSameBits(results);
            assertNothingIsLost(results, shapes, sparse(seed), 50 * 6 * ROUNDING);
        }
    }

    /** The factor of the last step would stay 0 if it were the next step's. */
    @Test
    void powerSgdRecoversFromZeros() {
        Source source = (rank, step, index, count) -> step < 2 ? new float[count] : product(rank, 40, 30, 2);
        List<Result> results = run(new PowerSgd(2), List.of(new long[] {40, 30}), 3, source);
        assertThat(results.getFirst().sums.get(1)[0]).containsOnly(0);
        assertThat(results.getFirst().sums.get(2)[0]).containsExactly(sumOver(source, 2, 0, 1200),
                within((float) (100 * ROUNDING)));
    }

    // ---- both ----

    /** A codec sends what it has held back also in a step in which no rank has the gradient. */
    @Test
    void loseNothingInStepsWithoutAGradient() {
        Source source = (rank, step, index, count) -> (step + index) % 2 == 0 ? integers(rank, step, index, count)
                : null;
        List<long[]> shapes = List.of(new long[] {20, 20}, new long[] {9, 30}, new long[] {50});
        for (GradientCodec codec : List.of(new TopK(0.1), new PowerSgd(1))) {
            List<Result> results = run(codec, shapes, 7, source);
            assertSameBits(results);
            assertNothingIsLost(results, shapes, source, codec instanceof TopK ? 0 : 50 * 7 * ROUNDING);
        }
    }

    /** Once nothing is held back, there is no gradient. */
    @Test
    void aGradientEndsWithWhatIsHeldBack() {
        List<Result> results = run(new TopK(0.25), List.of(new long[] {4}), 5, (rank, step, index, count) -> step > 0
                ? null : new float[] {4, 3, 2, 0});
        assertSameBits(results);
        List<float[][]> sums = results.getFirst().sums;
        assertThat(sums.get(0)[0]).containsExactly(12, 0, 0, 0);
        assertThat(sums.get(1)[0]).containsExactly(0, 9, 0, 0);
        assertThat(sums.get(2)[0]).containsExactly(0, 0, 6, 0);
        assertThat(sums.get(3)[0]).isNull();
        assertThat(sums.get(4)[0]).isNull();
    }

    /** All ranks get a sum that is not finite, in this step and no other. */
    @Test
    void passesOnWhatIsNotFinite() {
        for (GradientCodec codec : List.of(new TopK(0.01), new PowerSgd(2))) {
            Source source = (rank, step, index, count) -> {
                float[] own = integers(rank, step, index, count);
                for (int i = 0; step == 2 && rank == 1 && index == 0 && i < 40; i++) {
                    own[i * 7] = i % 2 == 0 ? Float.NaN : Float.NEGATIVE_INFINITY;
                }
                return own;
            };
            List<Result> results = run(codec, List.of(new long[] {20, 20}, new long[] {300}), 5, source);
            assertSameBits(results);
            for (int step = 0; step < 5; step++) {
                boolean finite = true;
                for (float[] sum : results.getFirst().sums.get(step)) {
                    for (float each : sum) {
                        finite &= Float.isFinite(each);
                    }
                }
                assertThat(finite).as(codec + " in step " + step).isEqualTo(step != 2);
            }
        }
    }

    /** A codec of another's own: each rank has the gradients of rank 0. */
    @Test
    void aCodecMayBeAnything() {
        GradientCodec first = bucket -> new BucketReduction() {
            @Override
            public void start() {
            }

            @Override
            public boolean proceed(Duration timeout) {
                bucket.collectives().broadcast(bucket.memory(), 0);
                return false;
            }
        };
        Source source = CodecTest::integers;
        List<Result> results = run(first, List.of(new long[] {3, 4}, new long[] {5000}), 2, source);
        assertSameBits(results);
        assertThat(results.get(2).sums.get(1)[1]).containsExactly(integers(0, 1, 1, 5000));
    }

    @Test
    void leavesGradientsOfOtherTypesAlone() {
        Cluster.local(2).run(group -> {
            try (Scope scope = Scope.open("test")) {
                Bag bag = new Bag(List.of(Parameter.of(Tensor.zeros(20, 20).to(DType.F64)),
                        Parameter.of(Tensor.zeros(20, 20))));
                List<GradientBucket> seen = new ArrayList<>();
                try (Optimizer sgd = Sgd.over(bag).build();
                        Buckets buckets = Buckets.over(group, group.collectives(), sgd).codec(bucket -> {
                            seen.add(bucket);
                            return new TopK(1).reduction(bucket);
                        }).open()) {
                    Tensor[] gradients = {Tensor.full(DType.F64, 1e-12, 20, 20), Tensor.full(DType.F32, 2, 20, 20)};
                    buckets.gradient(1, gradients[1]);
                    buckets.gradient(0, gradients[0]);
                    buckets.sum(gradients);
                    assertThat(gradients[0].toDoubles()).containsOnly(2e-12);
                    assertThat(gradients[1].toFloats()).containsOnly(4);
                    assertThat(seen).singleElement().satisfies(bucket ->
                            assertThat(bucket.gradients()).singleElement().extracting(Gradient::index).isEqualTo(1));
                }
                return null;
            }
        });
    }

    @Test
    void mustBeTheSameOnAllRanks() {
        assertThatThrownBy(() -> Cluster.local(2).run(group -> {
            try (Scope scope = Scope.open("test"); Optimizer sgd = Sgd.over(Bag.of(List.of(new long[] {4}))).build()) {
                return Buckets.over(group, group.collectives(), sgd).codec(new TopK(group.rank() == 0 ? 0.5 : 0.25))
                        .open();
            }
        })).isInstanceOf(DistributedException.class).hasMessageContaining("rank 1 sums gradients as f32 by "
                + "TopK[fraction=0.25]").hasMessageContaining("0.5");
    }

    @Test
    void checkTheirSettings() {
        for (double bad : new double[] {0, -1, 1.01, Double.NaN}) {
            assertThatThrownBy(() -> new TopK(bad)).isInstanceOf(TensorException.class)
                    .hasMessageContaining("0 < fraction <= 1");
        }
        assertThatThrownBy(() -> new PowerSgd(0)).isInstanceOf(TensorException.class)
                .hasMessageContaining("rank >= 1");
    }
}
