package dev.starling.nn.data;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.tensor.DType;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Iterator;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@Timeout(60)
class SpillingRowsTest {
    private static final int MEBI = 1 << 20;
    /** A byte, then floats that are not aligned. */
    private static final List<Field> FIELDS = List.of(Field.of(DType.U8), Field.of(DType.F32, 1001),
            Field.of(DType.I64));
    private static final int ROW_BYTES = 1 + 4 * 1001 + 8;

    @TempDir
    private Path directory;

    private static void write(int row, MemorySegment memory, long at) {
        memory.set(ValueLayout.JAVA_BYTE, at, (byte) row);
        for (int i = 0; i < 1001; i++) {
            memory.set(ValueLayout.JAVA_FLOAT_UNALIGNED, at + 1 + 4 * i, row + i / 1024f);
        }
        memory.set(ValueLayout.JAVA_LONG_UNALIGNED, at + ROW_BYTES - 8, -row);
    }

    private static Iterator<Integer> numbers(int count) {
        return IntStream.range(0, count).iterator();
    }

    @ParameterizedTest
    @CsvSource({"0, 0", "1, 0", "9000, 0", "9000, 20000000", "9000, 1000000000"})
    void givesEachRowOnceFromMemoryAndFile(int count, long memoryBytes) throws Exception {
        try (SpillingRows rows = SpillingRows.of(FIELDS, memoryBytes, directory)) {
            rows.addAll(numbers(count), SpillingRowsTest::write);
            assertThat(rows.size()).isEqualTo(count);
            assertThat(directory).isEmptyDirectory();
            if (count == 0) {
                return;
            }
            BitSet seen = new BitSet();
            try (DataLoader loader = DataLoader.of(rows).batchSize(64).workers(2).seed(3).shuffle().build()) {
                for (Batch batch : loader.epoch(0, 0)) {
                    float[] x = batch.tensor(1).toFloats();
                    long[] y = batch.target().toLongs();
                    for (int i = 0; i < y.length; i++) {
                        int row = (int) -y[i];
                        assertThat(seen.get(row)).isFalse();
                        seen.set(row);
                        assertThat(x[1001 * i]).isEqualTo(row);
                        assertThat(x[1001 * i + 1000]).isEqualTo(row + 1000 / 1024f);
                    }
                }
            }
            assertThat(seen.cardinality()).isEqualTo(count);
        }
    }

    @Test
    void usesAFileBeyondItsLimit() throws Exception {
        for (long limit : new long[] {32L * MEBI, 16L * MEBI, 0}) {
            try (SpillingRows rows = SpillingRows.of(List.of(Field.of(DType.U8, MEBI)), limit, directory)) {
                rows.addAll(numbers(20), (row, memory, at) -> memory.set(ValueLayout.JAVA_INT, at, row));
                assertThat(rows.spilledBytes()).isEqualTo(32L * MEBI - limit);
            }
        }
    }

    @Test
    void leavesOutARowThatCannotBeRead() throws Exception {
        try (SpillingRows rows = SpillingRows.of(List.of(Field.of(DType.I64)), MEBI, directory)) {
            assertThatThrownBy(() -> rows.addAll(numbers(5), (row, memory, at) -> {
                memory.set(ValueLayout.JAVA_LONG, at, row);
                if (row == 3) {
                    throw new IOException("row 3");
                }
            })).isInstanceOf(IOException.class).hasMessage("row 3");
            assertThat(rows.size()).isEqualTo(3);
        }
    }

    @Test
    void namesADirectoryThatCannotBeWritten() {
        Path absent = directory.resolve("absent");
        try (SpillingRows rows = SpillingRows.of(List.of(Field.of(DType.I64)), 0, absent)) {
            assertThatThrownBy(() -> rows.add(1, (row, memory, at) -> { })).isInstanceOf(UncheckedIOException.class)
                    .hasMessageContaining(absent.toString());
            assertThat(rows.size()).isZero();
        }
    }

    /** An interrupt closes the file's channel; what is mapped stays. */
    @Test
    void addsRowsAfterAnInterrupt() throws Exception {
        try (SpillingRows rows = SpillingRows.of(List.of(Field.of(DType.I64, MEBI / 8)), 0, directory)) {
            SpillingRows.Writer<Integer, RuntimeException> writer = (row, memory, at) -> memory.set(
                    ValueLayout.JAVA_LONG, at, row);
            rows.addAll(numbers(16), writer);
            Thread.currentThread().interrupt();
            try {
                assertThatThrownBy(() -> rows.add(16, writer)).isInstanceOf(UncheckedIOException.class)
                        .hasMessageContaining("interrupted").hasMessageContaining("add the row again");
            } finally {
                assertThat(Thread.interrupted()).isTrue();
            }
            rows.addAll(IntStream.range(16, 40).iterator(), writer);
            assertThat(directory).isEmptyDirectory();
            assertThat(rows.spilledBytes()).isEqualTo(48L * MEBI);
            List<Long> firsts = new ArrayList<>();
            try (DataLoader loader = DataLoader.of(rows).batchSize(1).workers(0).build()) {
                loader.epoch(0).forEach(batch -> firsts.add((long) batch.input().toDoubles()[0]));
            }
            assertThat(firsts).isEqualTo(LongStream.range(0, 40).boxed().toList());
        }
    }

    @Test
    void refusesToBeReadWhenItIsClosed() throws Exception {
        SpillingRows rows = SpillingRows.of(List.of(Field.of(DType.I64)), MEBI, directory);
        rows.addAll(numbers(5), (row, memory, at) -> memory.set(ValueLayout.JAVA_LONG, at, row));
        rows.close();
        rows.close();
        try (DataLoader loader = DataLoader.of(rows).batchSize(2).workers(0).build()) {
            assertThatThrownBy(() -> loader.epoch(0, 0).iterator().next()).hasRootCauseInstanceOf(
                    IllegalStateException.class);
        }
    }
}
