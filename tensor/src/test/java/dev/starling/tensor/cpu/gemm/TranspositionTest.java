package dev.starling.tensor.cpu.gemm;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.junit.jupiter.api.Test;

class TranspositionTest {
    /** What stands between the rows of the target and behind it, and must stay. */
    private static final int GAP = -77;
    private static final int BEHIND = 80;

    @Test
    void copiesEveryElementAndWritesNothingElse() {
        assumeTrue(Gemm.isAvailable(), "the processor has no AVX2");
        for (int rows = 1; rows < 20; rows++) {
            for (int columns = 1; columns < 40; columns++) {
                copy(rows, columns, rows, columns);
                copy(rows, columns, rows + 3, columns + 5);
            }
        }
        copy(200, 300, 1024, 512);
        copy(5000, 17, 5000, 17);
    }

    private static void copy(int rows, int columns, int columnStride, int rowStride) {
        int matrices = 1 + (rows + columns) % 4;
        int sourceStep = columns * columnStride + 2;
        int targetStep = rows * rowStride + 7;
        try (Arena arena = Arena.ofConfined(); Transposition transposition = Transposition.acquire()) {
            MemorySegment source = arena.allocate(4L * matrices * sourceStep, 4);
            for (int i = 0; i < source.byteSize() / 4; i++) {
                source.setAtIndex(ValueLayout.JAVA_INT, i, i + 1);
            }
            MemorySegment target = arena.allocate(4L * (matrices * targetStep + BEHIND), 4);
            for (int i = 0; i < target.byteSize() / 4; i++) {
                target.setAtIndex(ValueLayout.JAVA_INT, i, GAP);
            }
            transposition.from(source.address(), 4L * columnStride, 4L * sourceStep)
                    .to(target.address(), 4L * rowStride, 4L * targetStep).copy(matrices, rows, columns);
            for (int i = 0; i < target.byteSize() / 4; i++) {
                int matrix = i / targetStep;
                int row = i % targetStep / rowStride;
                int column = i % targetStep % rowStride;
                int expected = matrix < matrices && row < rows && column < columns
                        ? matrix * sourceStep + column * columnStride + row + 1 : GAP;
                assertThat(target.getAtIndex(ValueLayout.JAVA_INT, i))
                        .as("row %s, column %s of %s×%s", row, column, rows, columns).isEqualTo(expected);
            }
        }
    }
}
