package dev.starling.kafka;

/**
 * Turns the value of a record into a row of numbers, and a row of results into the value of a record. Must be safe for
 * use by several threads.
 */
public interface RowCodec {
    /** Returns the number of columns of a row. */
    int columns();

    /**
     * Decodes a value.
     *
     * @param value of the record, never {@code null}
     * @param into receives {@link #columns} finite numbers
     * @param at index of the row's first number
     * @throws RuntimeException if the value is no such row; its message becomes the error of the dead letter
     */
    void decode(byte[] value, float[] into, int at);

    /**
     * Encodes a row of results, which may have another length than {@link #columns}.
     *
     * @param at index of the row's first number
     * @param count how many numbers it has
     */
    byte[] encode(float[] from, int at, int count);

    /** Rows as little-endian 32-bit floats, one after the other. */
    static RowCodec floats(int columns) {
        return new FloatRows(columns);
    }

    /** Rows as JSON arrays of numbers, for example {@code [0.5, -1, 2e3]}. */
    static RowCodec json(int columns) {
        return new JsonRows(columns);
    }
}
