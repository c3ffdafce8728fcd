package dev.starling.tensor.cpu.jit;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;

/**
 * The plan of a loop over strided operands. Dimensions of size 1 are dropped, the others are sorted by the first
 * output's memory order, and neighbours are merged if all operands step through them uniformly. The last two remaining
 * dimensions are the kernel's rows and columns, which form a plane; the others are outer dimensions. Planes are divided
 * into tiles, which are numbered consecutively.
 */
final class StridedLoop {
    private static final int MAX_RANK = 16;

    private int rank;
    private int operands;
    private final long[] dims = new long[MAX_RANK];
    /** In bytes, operand by operand. */
    private long[] strides = new long[8 * MAX_RANK];
    private long key;
    private boolean strided;
    private long rowCount;
    private long columnCount;
    private long tileRows;
    private long tileColumns;
    private long rowTiles;
    private long columnTiles;

    void shape(long[] sizes, int operandCount) {
        if (sizes.length > MAX_RANK) {
            throw new IllegalArgumentException("rank must be at most " + MAX_RANK + ", got " + sizes.length);
        }
        System.arraycopy(sizes, 0, dims, 0, sizes.length);
        begin(sizes.length, operandCount);
    }

    void shape(Shape shape, int operandCount) {
        for (int d = 0; d < shape.rank(); d++) {
            dims[d] = shape.dim(d);
        }
        begin(shape.rank(), operandCount);
    }

    private void begin(int dimensions, int operandCount) {
        rank = dimensions;
        operands = operandCount;
        if (strides.length < operands * MAX_RANK) {
            strides = new long[operands * MAX_RANK];
        }
    }

    void operand(int k, long[] sizes, long[] elementStrides, int bytes) {
        int missing = rank - sizes.length;
        for (int d = 0; d < rank; d++) {
            boolean repeated = d < missing || sizes[d - missing] == 1;
            strides[k * MAX_RANK + d] = repeated ? 0 : elementStrides[d - missing] * bytes;
        }
    }

    void operand(int k, Tensor x) {
        int missing = rank - x.rank();
        for (int d = 0; d < rank; d++) {
            boolean repeated = d < missing || x.size(d - missing) == 1;
            strides[k * MAX_RANK + d] = repeated ? 0 : x.stride(d - missing) * x.dtype().bytes();
        }
    }

    private long stride(int k, int d) {
        return strides[k * MAX_RANK + d];
    }

    /** Brings the dimensions into their final form; returns false if there is nothing to compute. */
    boolean plan(Expression expression) {
        int output = expression.inputs().size();
        int kept = 0;
        for (int d = 0; d < rank; d++) {
            if (dims[d] == 0) {
                return false;
            }
            if (dims[d] > 1) {
                move(d, kept++);
            }
        }
        rank = kept;
        for (int d = 1; d < rank; d++) {
            for (int e = d; e > 0 && Math.abs(stride(output, e)) > Math.abs(stride(output, e - 1)); e--) {
                swap(e, e - 1);
            }
        }
        merge();
        columnCount = rank > 0 ? dims[rank - 1] : 1;
        rowCount = rank > 1 ? dims[rank - 2] : 1;
        classify(expression);
        return true;
    }

    private void move(int from, int to) {
        dims[to] = dims[from];
        for (int k = 0; k < operands; k++) {
            strides[k * MAX_RANK + to] = stride(k, from);
        }
    }

    private void swap(int d, int e) {
        long size = dims[d];
        dims[d] = dims[e];
        dims[e] = size;
        for (int k = 0; k < operands; k++) {
            long stride = stride(k, d);
            strides[k * MAX_RANK + d] = stride(k, e);
            strides[k * MAX_RANK + e] = stride;
        }
    }

    private void merge() {
        int last = 0;
        for (int d = 1; d < rank; d++) {
            boolean one = true;
            for (int k = 0; one && k < operands; k++) {
                one = stride(k, last) == stride(k, d) * dims[d];
            }
            if (one) {
                long size = dims[last] * dims[d];
                move(d, last);
                dims[last] = size;
            } else {
                move(d, ++last);
            }
        }
        rank = Math.min(rank, last + 1);
    }

    private void classify(Expression expression) {
        key = 0;
        strided = false;
        for (int k = 0; k < operands; k++) {
            long step = rank > 0 ? stride(k, rank - 1) : 0;
            boolean written = k >= expression.inputs().size();
            Access access = step == expression.operand(k).bytes() || written && rank == 0 ? Access.CONTIGUOUS
                    : step == 0 ? Access.BROADCAST : Access.STRIDED;
            strided |= access == Access.STRIDED;
            key = FusedLoop.extend(key, access);
        }
    }

    long key() {
        return key;
    }

    boolean hasStride() {
        return strided;
    }

    void writeStrides(Frame frame) {
        for (int k = 0; k < operands; k++) {
            frame.set(operands + k, rank > 1 ? stride(k, rank - 2) : 0);
            frame.set(2 * operands + k, rank > 0 ? stride(k, rank - 1) : 0);
        }
    }

    void cut(int elements) {
        tileColumns = Math.min(columnCount, elements);
        tileRows = Math.min(rowCount, Math.max(1, elements / tileColumns));
        columnTiles = (columnCount + tileColumns - 1) / tileColumns;
        rowTiles = (rowCount + tileRows - 1) / tileRows;
    }

    long tileElements() {
        return tileRows * tileColumns;
    }

    long tilesPerPlane() {
        return rowTiles * columnTiles;
    }

    int outerRank() {
        return Math.max(0, rank - 2);
    }

    long tiles() {
        long count = tilesPerPlane();
        for (int d = 0; d < outerRank(); d++) {
            count *= dims[d];
        }
        return count;
    }

    void runTile(Kernel kernel, Frame frame, long tile) {
        long inPlane = tile % tilesPerPlane();
        long row = inPlane / columnTiles * tileRows;
        long column = inPlane % columnTiles * tileColumns;
        kernel.run(frame, row, Math.min(rowCount, row + tileRows), column,
                Math.min(columnCount, column + tileColumns));
    }

    /**
     * Sets {@code place} to the plane that contains a tile, and the addresses in {@code frame} to those of that plane.
     */
    void locate(long tile, long[] place, Frame frame) {
        long plane = tile / tilesPerPlane();
        for (int d = outerRank() - 1; d >= 0; d--) {
            place[d] = plane % dims[d];
            plane /= dims[d];
            for (int k = 0; k < operands; k++) {
                frame.add(k, place[d] * stride(k, d));
            }
        }
    }

    /** Advances to the next plane. */
    void advance(long[] place, Frame frame) {
        for (int d = outerRank() - 1; d >= 0; d--) {
            long steps = ++place[d] < dims[d] ? 1 : 1 - dims[d];
            for (int k = 0; k < operands; k++) {
                frame.add(k, steps * stride(k, d));
            }
            if (steps == 1) {
                return;
            }
            place[d] = 0;
        }
    }
}
