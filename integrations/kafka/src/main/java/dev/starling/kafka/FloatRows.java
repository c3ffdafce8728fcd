package dev.starling.kafka;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Rows of little-endian 32-bit floats. */
record FloatRows(int columns) implements RowCodec {
    @Override
    public void decode(byte[] value, float[] into, int at) {
        if (value.length != columns * Float.BYTES) {
            throw new StreamException("a row must have " + columns * Float.BYTES + " bytes, " + columns
                    + " floats, got " + value.length + " bytes");
        }
        ByteBuffer.wrap(value).order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer().get(into, at, columns);
        requireFinite(into, at, columns);
    }

    static void requireFinite(float[] row, int at, int columns) {
        for (int i = 0; i < columns; i++) {
            if (!Float.isFinite(row[at + i])) {
                throw new StreamException("numbers must be finite, got " + row[at + i] + " in column " + i);
            }
        }
    }

    @Override
    public byte[] encode(float[] from, int at, int count) {
        byte[] value = new byte[count * Float.BYTES];
        ByteBuffer.wrap(value).order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer().put(from, at, count);
        return value;
    }
}
