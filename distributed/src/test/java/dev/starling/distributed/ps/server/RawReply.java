package dev.starling.distributed.ps.server;

import java.nio.ByteOrder;
import org.agrona.DirectBuffer;

/** A reply, decoded without the server's code. */
public record RawReply(int status, int worker, long session, long sequence, int unit, int kind, float[] floats) {
    static RawReply of(DirectBuffer b, int offset, int length) {
        float[] floats = new float[(length - 40) / 4];
        for (int i = 0; i < floats.length; i++) {
            floats[i] = b.getFloat(offset + 40 + 4 * i, ByteOrder.LITTLE_ENDIAN);
        }
        return new RawReply(b.getInt(offset, ByteOrder.LITTLE_ENDIAN), b.getInt(offset + 4, ByteOrder.LITTLE_ENDIAN),
                b.getLong(offset + 8, ByteOrder.LITTLE_ENDIAN), b.getLong(offset + 16, ByteOrder.LITTLE_ENDIAN),
                b.getInt(offset + 24, ByteOrder.LITTLE_ENDIAN), b.getInt(offset + 32, ByteOrder.LITTLE_ENDIAN), floats);
    }
}
