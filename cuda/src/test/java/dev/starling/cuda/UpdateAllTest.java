package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Rule;
import dev.starling.tensor.op.Selection;
import dev.starling.tensor.op.Update;
import java.util.Arrays;
import java.util.SplittableRandom;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Many updates in one launch: more than a table holds, of odd sizes, compared with the reference and single updates.
 */
@EnabledIf(value = "dev.starling.cuda.AnyGpu#isAvailable", disabledReason = "needs an NVIDIA GPU, or g++ on x86-64")
class UpdateAllTest {
    private static final Device GPU = AnyGpu.device();
    private static final int[] SIZES = {1, 2, 3, 7, 8, 9, 31, 64, 1023, 1025, 2047, 2048, 2049, 4100, 0};

    private Scope scope;

    @BeforeEach
    void open() {
        scope = Scope.open();
    }

    @AfterEach
    void close() {
        scope.close();
    }

    private static Update rule(int i) {
        return switch (i % 7) {
            case 0 -> new Rule.Adam(0.9, 0.999, 1e-8, 0.1, true).step(0.01, 3);
            case 1 -> new Rule.Adam(0.9, 0.999, 1e-8, 0, true).step(0.01, 3);
            case 2 -> new Rule.Sgd(0.9, 0.1, 0.01, true).step(0.1, 1);
            case 3 -> new Rule.Sgd(0, 0, 0.01, false).step(0.1, 1);
            case 4 -> new Update.Blend(0.9, 0.1);
            case 5 -> new Rule.Adagrad(1e-10, 0.1, 0).step(0.1, 1);
            default -> new Update.Assign();
        };
    }

    private static int arity(Update op) {
        return op instanceof Update.Step s ? 2 + s.rule().slots().size() : 2;
    }

    /** Returns the same numbers for each call, on a device; every ninth gradient has another memory order. */
    private static Tensor[][] operands(Update[] ops, DType type, Device device) {
        Tensor[][] all = new Tensor[ops.length][];
        for (int i = 0; i < all.length; i++) {
            SplittableRandom random = new SplittableRandom(i);
            int n = SIZES[i % SIZES.length];
            all[i] = new Tensor[arity(ops[i])];
            for (int k = 0; k < all[i].length; k++) {
                Tensor x = Tensor.of(random.doubles(2L * n, 0.1, 1).toArray(), 2, n).to(type).to(device);
                all[i][k] = k == 1 && i % 9 == 0 ? x.transpose(0, 1).contiguous().transpose(0, 1) : x;
            }
        }
        return all;
    }

    private static double[][] read(Tensor[][] operands) {
        return Arrays.stream(operands).flatMap(Arrays::stream).map(Tensor::toDoubles).toArray(double[][]::new);
    }

    private static Update[] rules(int count, int every) {
        Update[] ops = new Update[count];
        Arrays.setAll(ops, i -> rule(every < 0 ? i : every));
        return ops;
    }

    @ParameterizedTest
    @EnumSource(value = DType.class, names = {"F32", "F64", "F16", "BF16"})
    void agreesWithTheReferenceAndWithSingleUpdates(DType type) {
        Update[] ops = rules(60, -1);
        Tensor[][] expected = operands(ops, type, Device.reference());
        Tensor[][] single = operands(ops, type, GPU);
        for (int i = 0; i < ops.length; i++) {
            Tensor.apply(ops[i], expected[i]);
            Tensor.apply(ops[i], single[i]);
        }
        Tensor[][] together = operands(ops, type, GPU);
        Tensor.applyAll(ops, together, Tensor.full(type, -7).to(GPU));
        double[][] actual = read(together);
        assertThat(actual).isDeepEqualTo(read(single));
        double precision = switch (type) {
            case F64 -> 1e-14;
            case F32 -> 1e-6;
            default -> 1e-2;
        };
        double[][] wanted = read(expected);
        for (int i = 0; i < wanted.length; i++) {
            assertThat(actual[i]).usingComparatorWithPrecision(precision).containsExactly(wanted[i]);
        }
        assertThat(Arrays.deepEquals(actual, read(operands(ops, type, GPU)))).isFalse();
    }

    @Test
    void fillsSeveralTables() {
        Update[] ops = rules(200, 2);
        Tensor[][] expected = operands(ops, DType.F32, Device.cpu());
        Tensor.applyAll(ops, expected, null);
        Tensor[][] actual = operands(ops, DType.F32, GPU);
        Tensor.applyAll(ops, actual, null);
        double[][] wanted = read(expected);
        double[][] got = read(actual);
        for (int i = 0; i < wanted.length; i++) {
            assertThat(got[i]).usingComparatorWithPrecision(1e-6).containsExactly(wanted[i]);
        }
    }

    @Test
    void updatesTensorsThatDifferOrHaveGaps() {
        Update[] ops = {rule(0), new Update.Assign(), new Update.Assign(), rule(4)};
        Tensor[][][] all = new Tensor[2][][];
        for (int d = 0; d < 2; d++) {
            Device device = d == 0 ? Device.cpu() : GPU;
            Tensor[][] base = operands(rules(4, 0), DType.F32, device);
            Tensor wide = base[3][0].add(0).expand(3, 2, 7).contiguous();
            Tensor own = base[3][1].contiguous();
            all[d] = new Tensor[][] {
                {wide.narrow(2, 1, 5), base[3][2].narrow(1, 0, 5).expand(3, 2, 5), wide.add(1).narrow(2, 0, 5),
                    wide.add(2).narrow(2, 2, 5)},
                {base[2][0], base[2][1].narrow(1, 0, 1)}, {own.narrow(1, 1, 6), own.narrow(1, 0, 6)},
                {base[1][0], base[1][0]}};
            Tensor.applyAll(ops, all[d], null);
        }
        double[][] wanted = read(all[0]);
        double[][] got = read(all[1]);
        for (int i = 0; i < wanted.length; i++) {
            assertThat(got[i]).usingComparatorWithPrecision(1e-6).containsExactly(wanted[i]);
        }
    }

    @Test
    void assignsEveryType() {
        for (DType type : DType.values()) {
            Tensor target = Tensor.full(type, 0, 5, 3).to(GPU);
            Tensor source = Tensor.of(new double[] {1, 0, 3, 4, 0, 6, 7, 0, 9, 1, 1, 0, 2, 3, 0}, 5, 3).to(type);
            Tensor.applyAll(new Update[] {new Update.Assign()}, new Tensor[][] {{target, source.to(GPU)}}, null);
            assertThat(target.toDoubles()).isEqualTo(source.toDoubles());
        }
    }

    @ParameterizedTest
    @ValueSource(doubles = {Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY, 1, 0, -65504, 6e-8})
    void updatesNothingUnlessTheGuardIsFinite(double guard) {
        Update[] ops = rules(6, -1);
        double[][] before = read(operands(ops, DType.F32, GPU));
        for (DType type : new DType[] {DType.F32, DType.F64, DType.F16, DType.BF16}) {
            Tensor[][] operands = operands(ops, DType.F32, GPU);
            Tensor.applyAll(ops, operands, Tensor.full(type, guard).to(GPU));
            assertThat(Arrays.deepEquals(read(operands), before)).isEqualTo(!Double.isFinite(guard));
        }
    }

    @Test
    void updatesNothingUntilABadIndexIsReported() {
        Update[] ops = rules(6, -1);
        Tensor[][] operands = operands(ops, DType.F32, GPU);
        double[][] before = read(operands);
        Tensor table = Tensor.of(new float[] {1, 2, 3, 4, 5, 6}, 3, 2).to(GPU);
        Tensor index = Tensor.of(new long[] {2, 0, 3}).to(GPU);
        Tensor rows = Tensor.compute(new Selection.Take(0), table, index);
        Tensor.compute(new Selection.Take(0), rows, Tensor.of(new long[] {9}).to(GPU));
        Tensor.applyAll(ops, operands, Tensor.scalar(1).to(GPU));
        assertThatThrownBy(() -> rows.toFloats()).isInstanceOfSatisfying(TensorException.class, e -> {
            assertThat(e.problem()).isEqualTo(TensorException.Problem.INDEX);
            assertThat(e.op()).isEqualTo("take");
            assertThat(e.relation()).isEqualTo("index 3 at position 2 must lie between -3 and 2");
            assertThat(e.operands()).containsExactly(table.spec(), index.spec());
        });
        assertThat(rows.toFloats()).containsExactly(5, 6, 1, 2, 0, 0);
        assertThat(read(operands)).isDeepEqualTo(before);
        Tensor.applyAll(ops, operands, null);
        assertThat(Arrays.deepEquals(read(operands), before)).isFalse();
    }

    @Test
    void keepsABadIndexFromOtherThreads() throws InterruptedException {
        Tensor table = Tensor.of(new float[] {1, 2, 3}, 3, 1).to(GPU);
        Tensor index = Tensor.of(new long[] {2, 0, 3}).to(GPU);
        Throwable[] thrown = new Throwable[1];
        Thread other = Thread.ofPlatform().start(() -> {
            try (Scope own = Scope.open()) {
                Tensor rows = Tensor.compute(new Selection.Take(0), table, index);
                Tensor target = Tensor.of(new float[] {1, 2, 3}, 3, 1).to(GPU);
                Tensor.applyAll(new Update[] {new Update.Blend(1, 1)}, new Tensor[][] {{target, table}}, null);
                rows.toFloats();
            } catch (TensorException e) {
                thrown[0] = e;
            }
        });
        other.join();
        assertThat(table.toFloats()).containsExactly(1, 2, 3);
        assertThat(thrown[0]).isNotNull().hasMessageContaining("index 3");
    }
}
