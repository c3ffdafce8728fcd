package dev.starling.tensor.cpu.rows;

import dev.starling.tensor.host.HostMemory;
import java.lang.foreign.ValueLayout;

/**
 * A block of attention's scores, f32 at raw addresses. Each stands for {@code scale·score}, where {@code scale} is not
 * 0. A row sees its first keys; the scores of the others may be anything. What is between the rows may be overwritten.
 *
 * @param address address of the first score
 * @param pitch distance between rows in elements, a multiple of 64
 * @param rows number of rows, one for each query
 * @param keys number of scores in a row
 * @param seen address of the number of keys that each row sees, i32
 * @param numbers address of the numbers of keys: 0, 1, … as i32
 */
public record ScoreBlock(long address, int pitch, int rows, int keys, long seen, long numbers) {
    /** Returns the address of a row. */
    long row(int r) {
        return address + 4L * r * pitch;
    }

    /** Returns the number of keys that a row sees. */
    int seen(int r) {
        return HostMemory.ALL.get(ValueLayout.JAVA_INT, seen + 4L * r);
    }

    /** Returns some of the rows. */
    public ScoreBlock part(int first, int count) {
        return new ScoreBlock(row(first), pitch, count, keys, seen + 4L * first, numbers);
    }
}
