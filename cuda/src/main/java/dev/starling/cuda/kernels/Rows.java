package dev.starling.cuda.kernels;

import dev.starling.tensor.DType;
import dev.starling.tensor.Tensor;
import java.util.stream.Stream;

/**
 * The distribution of threads over rows; see rows.cuh. A row of up to 1024 elements gets a warp, which needs no
 * barriers; a longer one gets a block of 128 to 1024 threads. Up to 32 elements per thread stay in registers, so that
 * memory is read once. The longest rows are read again, usually from the device's cache; they get blocks of 512
 * threads, two to a multiprocessor, so that one reads while the other waits.
 *
 * @param group threads of a row
 * @param items vectors that a thread keeps in registers, 0 if rows are read again each time
 * @param width elements of a vector
 */
record Rows(int group, int items, int width) {
    private static final int WARP = 32;
    /** Elements that a thread keeps in registers. */
    private static final int KEPT = 32;
    private static final int MAX_BLOCK = 1024;
    private static final int BLOCK_OF_LONGEST = 512;
    private static final int VECTOR_BYTES = 16;

    /**
     * Returns the distribution for rows of {@code n} elements; {@code vectors}: rows can be read in vectors of 16
     * bytes.
     */
    static Rows of(long n, DType type, boolean vectors) {
        int vector = VECTOR_BYTES / type.bytes();
        int width = vectors && n % vector == 0 ? vector : 1;
        int group = n <= WARP * KEPT ? WARP : n <= 4096 ? 128 : n <= 8192 ? 256 : MAX_BLOCK;
        long steps = (n + (long) group * width - 1) / ((long) group * width);
        if (group == MAX_BLOCK && steps * width * type.bytes() > 64) {
            return new Rows(BLOCK_OF_LONGEST, 0, width);
        }
        return new Rows(group, Integer.highestOneBit(Math.max((int) steps * 2 - 1, 1)), width);
    }

    /**
     * Returns the distribution for rows of a matrix without gaps. Long rows are read in vectors even if they begin
     * inside of one.
     *
     * @param aligned whether every operand begins at a multiple of 16 bytes
     */
    static Rows ofMatrix(long n, DType type, boolean aligned) {
        Rows rows = of(n, type, aligned);
        return !aligned || rows.width > 1 || n <= WARP * KEPT ? rows
                : new Rows(BLOCK_OF_LONGEST, 0, VECTOR_BYTES / type.bytes());
    }

    /** Returns the macros of rows.cuh, followed by further ones. */
    Object[] macros(DType type, Object... more) {
        return Stream.concat(Stream.of("TX", Types.of(type), "C", Types.wide(type), "GROUP", group, "ITEMS", items,
                "WIDTH", width), Stream.of(more)).toArray();
    }

    /** Queues a kernel for a number of rows. */
    void launch(Launch launch, long rows) {
        if (group == WARP) {
            launch.threads(rows * WARP);
        } else {
            launch.blocks(rows, group);
        }
    }

    /** Returns a view of a tensor without dimension {@code axis}: the first element of each line along it. */
    static Tensor firsts(Tensor x, int axis) {
        return Relabelled.view(x, x.shape().without(axis), without(x.sharedStrides(), axis), x.offset());
    }

    static long[] without(long[] values, int axis) {
        long[] rest = new long[values.length - 1];
        System.arraycopy(values, 0, rest, 0, axis);
        System.arraycopy(values, axis + 1, rest, axis, rest.length - axis);
        return rest;
    }
}
