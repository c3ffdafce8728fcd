package dev.starling.tensor;

import static dev.starling.tensor.Index.OPEN;
import static dev.starling.tensor.Index.all;
import static dev.starling.tensor.Index.at;
import static dev.starling.tensor.Index.ellipsis;
import static dev.starling.tensor.Index.from;
import static dev.starling.tensor.Index.mask;
import static dev.starling.tensor.Index.newAxis;
import static dev.starling.tensor.Index.of;
import static dev.starling.tensor.Index.range;
import static dev.starling.tensor.Index.until;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Indexing against NumPy 2.4's results for the same brackets. */
class IndexingTest {
    private static void on(String device, Runnable body) {
        Device.with(Device.of(device, 0), () -> {
            try (Scope scope = Scope.open("test")) {
                body.run();
            }
            return null;
        });
    }

    private static Tensor fresh() {
        return Tensor.arange(24).reshape(2, 3, 4);
    }

    private static Tensor rows() {
        return Tensor.of(new boolean[] {true, false, true, false, true, false}, 2, 3);
    }

    private static void check(Tensor actual, String shape, long... elements) {
        assertThat(actual.shape()).hasToString(shape);
        assertThat(actual.toLongs()).containsExactly(elements);
    }

    @ParameterizedTest
    @ValueSource(strings = {"reference", "cpu"})
    void oneHotRowsHaveOneOneInNarrowTypes(String device) {
        on(device, () -> {
            for (DType type : new DType[] {DType.U8, DType.I8, DType.BOOL, DType.BF16, DType.F16}) {
                long place = type == DType.BF16 ? 256 : type == DType.F16 ? 2048 : 1;
                Tensor row = Tensor.of(new long[] {place}).to(type).oneHot(3000);
                assertThat(row.dtype()).isEqualTo(type);
                assertThat(row.nonzero().toLongs()).as(type.toString()).containsExactly(0, place);
            }
        });
    }

    @ParameterizedTest
    @ValueSource(strings = {"reference", "cpu"})
    void readsWhatNumPyReads(String device) {
        on(device, () -> {
            Tensor x = fresh();
            Tensor rows = rows();
            readsPlacesAndRanges(x);
            readsArrays(x);
            readsMasks(x, rows);
        });
    }

    private static void readsPlacesAndRanges(Tensor x) {
        check(x.get(at(1)), "[3, 4]", 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23);
        check(x.get(at(-1), at(0)), "[4]", 12, 13, 14, 15);
        check(x.get(at(0), at(1), at(2)), "[]", 6);
        check(x.get(range(0, 1)), "[1, 3, 4]", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
        check(x.get(all(), range(-2, 3)), "[2, 2, 4]", 4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 20, 21, 22, 23);
        check(x.get(ellipsis(), range(OPEN, OPEN, -1)), "[2, 3, 4]", 3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14,
                13, 12, 19, 18, 17, 16, 23, 22, 21, 20);
        check(x.get(all(), all(), range(3, 0, -2)), "[2, 3, 2]", 3, 1, 7, 5, 11, 9, 15, 13, 19, 17, 23, 21);
        check(x.get(all(), all(), range(-1, -100, -3)), "[2, 3, 2]", 3, 0, 7, 4, 11, 8, 15, 12, 19, 16, 23, 20);
        check(x.get(all(), from(2), until(-1)), "[2, 1, 3]", 8, 9, 10, 20, 21, 22);
        check(x.get(all(), range(2, 1)), "[2, 0, 4]");
        check(x.get(all(), range(100, 200, 3)), "[2, 0, 4]");
        check(x.get(all(), range(OPEN, 0, -1), at(2)), "[2, 2]", 10, 6, 22, 18);
        check(x.get(newAxis(), at(0), newAxis(), ellipsis(), newAxis()), "[1, 1, 3, 4, 1]", 0, 1, 2, 3, 4, 5, 6, 7,
                8, 9, 10, 11);
    }

    private static void readsArrays(Tensor x) {
        Tensor column = Tensor.of(new long[] {1, 0}, 2, 1);
        check(x.get(of(1, 0, -1)), "[3, 3, 4]", 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 0, 1, 2, 3, 4, 5, 6,
                7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23);
        check(x.get(all(), of(2, 0)), "[2, 2, 4]", 8, 9, 10, 11, 0, 1, 2, 3, 20, 21, 22, 23, 12, 13, 14, 15);
        check(x.get(ellipsis(), of(3, -4)), "[2, 3, 2]", 3, 0, 7, 4, 11, 8, 15, 12, 19, 16, 23, 20);
        check(x.get(of(0, 1), of(2, 1)), "[2, 4]", 8, 9, 10, 11, 16, 17, 18, 19);
        check(x.get(all(), of(0, 2), of(3, 1)), "[2, 2]", 3, 9, 15, 21);
        check(x.get(of(0, 1), all(), of(3, 1)), "[2, 3]", 3, 7, 11, 13, 17, 21);
        check(x.get(at(0), all(), of(3, 1, 0)), "[3, 3]", 3, 7, 11, 1, 5, 9, 0, 4, 8);
        check(x.get(all(), at(0), of(3, 1, 0)), "[2, 3]", 3, 1, 0, 15, 13, 12);
        check(x.get(all(), of(3 - 1, 1, 0), at(0)), "[2, 3]", 8, 4, 0, 20, 16, 12);
        check(x.get(all(), of(0, 1, 2), ellipsis(), of(1, 2, 3)), "[3, 2]", 1, 13, 6, 18, 11, 23);
        check(x.get(of(0, 1), newAxis(), of(1, 2)), "[2, 1, 4]", 4, 5, 6, 7, 20, 21, 22, 23);
        check(x.get(all(), newAxis(), at(0), of(0, 1, 2)), "[2, 1, 3]", 0, 1, 2, 12, 13, 14);
        check(x.get(range(OPEN, OPEN, -1), of(0, 2), range(1, OPEN, 2)), "[2, 2, 2]", 13, 15, 21, 23, 1, 3, 9, 11);
        check(x.get(of(column), of(0, 1)), "[2, 2, 4]", 12, 13, 14, 15, 16, 17, 18, 19, 0, 1, 2, 3, 4, 5, 6, 7);
        check(x.get(all(), of(column), of(0, -1)), "[2, 2, 2]", 4, 7, 0, 3, 16, 19, 12, 15);
    }

    private static void readsMasks(Tensor x, Tensor rows) {
        Tensor scalar = Tensor.of(new long[] {2}).reshape();
        Tensor some = x.eq(1).or(x.eq(5)).or(x.eq(6)).or(x.eq(20));
        check(x.get(mask(some)), "[4]", 1, 5, 6, 20);
        check(x.get(mask(rows)), "[3, 4]", 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19);
        check(x.get(mask(rows), at(1)), "[3]", 1, 9, 17);
        check(x.get(mask(rows), of(1)), "[3]", 1, 9, 17);
        check(x.get(all(), mask(x.get(0).gt(5))), "[2, 6]", 6, 7, 8, 9, 10, 11, 18, 19, 20, 21, 22, 23);
        check(x.get(at(0), mask(x.get(0).gt(9))), "[2]", 10, 11);
        check(x.get(of(new long[0])), "[0, 3, 4]");
        check(x.get(all(), of(scalar)), "[2, 4]", 8, 9, 10, 11, 20, 21, 22, 23);
        check(x.maskedSelect(Tensor.of(new boolean[] {true, false, false, false})), "[6]", 0, 4, 8, 12, 16, 20);
        check(rows.nonzero(), "[3, 2]", 0, 0, 0, 2, 1, 1);
    }

    @ParameterizedTest
    @ValueSource(strings = {"reference", "cpu"})
    void writesWhatNumPyWrites(String device) {
        on(device, () -> {
            Tensor rows = rows();
            check(fresh().set(7, at(1)), "[2, 3, 4]", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 7, 7, 7, 7, 7, 7, 7,
                    7, 7, 7,
                    7, 7);
            check(fresh().set(Tensor.of(new long[] {1, 2, 3, 4}), all(), range(OPEN, OPEN, 2)), "[2, 3, 4]", 1, 2, 3, 4,
                    4, 5, 6, 7, 1, 2, 3, 4, 1, 2, 3, 4, 16, 17, 18, 19, 1, 2, 3, 4);
            check(fresh().set(Tensor.of(new long[] {100, 200}, 2, 1), of(0, 1), all(), of(3, 1)), "[2, 3, 4]", 0, 1, 2,
                    100, 4, 5, 6, 100, 8, 9, 10, 100, 12, 200, 14, 15, 16, 200, 18, 19, 20, 200, 22, 23);
            check(fresh().set(Tensor.of(new long[] {100, 101, 200, 201}, 2, 2), all(), of(0, 2), of(3, 1)), "[2, 3, 4]",
                    0, 1, 2, 100, 4, 5, 6, 7, 8, 101, 10, 11, 12, 13, 14, 200, 16, 17, 18, 19, 20, 201, 22, 23);
            check(fresh().set(-1, mask(rows)), "[2, 3, 4]", -1, -1, -1, -1, 4, 5, 6, 7, -1, -1, -1, -1, 12, 13, 14, 15,
                    -1, -1, -1, -1, 20, 21, 22, 23);
            check(fresh().set(Tensor.of(new long[] {1, 2, 3, 4, 5, 6}, 3, 2), mask(rows), range(1, 3)), "[2, 3, 4]", 0,
                    1, 2, 3, 4, 5, 6, 7, 8, 3, 4, 11, 12, 13, 14, 15, 16, 5, 6, 19, 20, 21, 22, 23);
            check(fresh().set(Tensor.of(new long[] {5, 6}), ellipsis(), of(1, 1)), "[2, 3, 4]", 0, 6, 2, 3, 4, 6, 6, 7,
                    8, 6, 10, 11, 12, 6, 14, 15, 16, 6, 18, 19, 20, 6, 22, 23);
            check(fresh().set(0, of(-1)), "[2, 3, 4]", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                    0, 0, 0);
        });
    }

    @ParameterizedTest
    @ValueSource(strings = {"reference", "cpu"})
    void rangesAndPositionsAreViews(String device) {
        on(device, () -> {
            Tensor x = fresh();
            Tensor view = x.get(range(OPEN, OPEN, -1), newAxis(), at(1), range(3, 0, -2));
            assertThat(view.sharesMemoryWith(x)).isTrue();
            view.set(-5);
            check(x.get(all(), at(1)), "[2, 4]", 4, -5, 6, -5, 16, -5, 18, -5);
            check(x.get(1, -1), "[4]", 20, 21, 22, 23);
            check(x.get(" 0 , ::-2,1:3, None"), "[2, 2, 1]", 9, 10, 1, 2);
        });
    }

    @ParameterizedTest
    @ValueSource(strings = {"reference", "cpu"})
    void reshapeCopiesWhereAUnitDimensionHidesAGap(String device) {
        on(device, () -> {
            Tensor x = Tensor.arange(12).reshape(3, 1, 4).narrow(2, 0, 2);
            check(x.reshape(3, 2), "[3, 2]", 0, 1, 4, 5, 8, 9);
            check(x.reshape(6), "[6]", 0, 1, 4, 5, 8, 9);
            check(x.transpose(0, 2).reshape(2, 3), "[2, 3]", 0, 4, 8, 1, 5, 9);
        });
    }

    @ParameterizedTest
    @ValueSource(strings = {"reference", "cpu"})
    void faultsAreTyped(String device) {
        on(device, () -> {
            Tensor x = fresh();
            assertFault(() -> x.get(2), TensorException.Problem.INDEX);
            assertFault(() -> x.get(0, 0, 0, 0), TensorException.Problem.INDEX);
            assertFault(() -> x.get(ellipsis(), ellipsis()), TensorException.Problem.INDEX);
            assertFault(() -> x.get(of(0, 2)), TensorException.Problem.INDEX);
            assertFault(() -> x.get(of(0, -3), of(0, 0)), TensorException.Problem.INDEX);
            assertFault(() -> x.get(of(0, 1), of(0, 1, 2)), TensorException.Problem.SHAPE);
            assertFault(() -> x.get(mask(Tensor.of(new boolean[] {true}))), TensorException.Problem.SHAPE);
            assertFault(() -> x.set(1, mask(Tensor.of(new boolean[] {true}))), TensorException.Problem.SHAPE);
            assertFault(() -> x.get(of(Tensor.ones(2))), TensorException.Problem.DTYPE);
            assertFault(() -> x.get("1:2:0"), TensorException.Problem.ARGUMENT);
            assertFault(() -> x.get("a"), TensorException.Problem.ARGUMENT);
            assertFault(() -> x.set(Tensor.ones(3), at(0)), TensorException.Problem.SHAPE);
        });
    }

    private static void assertFault(Runnable body, TensorException.Problem problem) {
        assertThatThrownBy(body::run).isInstanceOfSatisfying(TensorException.class,
                e -> assertThat(e.problem()).isEqualTo(problem));
    }
}
