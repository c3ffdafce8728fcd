package dev.starling.tensor.cpu.onednn;

/** Strides of a matrix product's operands, as oneDNN reads them. */
final class MatrixStrides {
    private MatrixStrides() {
    }

    /** Returns the distance of rows; that of a single row, or of rows with a single column, may be chosen freely. */
    static long row(long rows, long columns, long rowStride, long columnStride) {
        if (rows > 1) {
            return rowStride;
        }
        return columns == 1 || columnStride == 1 ? columns : 1;
    }

    /** Returns the distance of columns; that of a single column may be chosen freely. */
    static long column(long columns, long columnStride) {
        return columns > 1 ? columnStride : 1;
    }

    static void require(boolean holds, String operand, long rows, long columns, long rowStride, long columnStride) {
        if (!holds) {
            throw new IllegalArgumentException("matmul needs a stride of 1 in rows or columns and no overlap; "
                    + operand + " [" + rows + ", " + columns + "] has strides [" + rowStride + ", " + columnStride
                    + "]: copy it first");
        }
    }
}
