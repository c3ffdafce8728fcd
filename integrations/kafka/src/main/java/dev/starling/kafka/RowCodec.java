package dev.starling.kafka;

/**
 * Turns the value of a record into a row of numbers, and a row of results into the value of a record. Must be safe for
 * use by several threads.
 */
public interface RowCodec {
    /** Returns how many numbers a row has. */
    int columns();

    /**
     * Decodes a value.
     *
     * @param value of the record, never {@code null}
     * @param into receives {@link #columns} finite numbers
     * @param at where the row begins
     * @throws RuntimeException if the value is no such row; the message says why and goes to the dead letters
     */
    void decode(byte[] value, float[] into, int at);

    /**
     * Encodes a row of results, which may have another length than {@link #columns}.
     *
     * @param at where the row begins
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
