package dev.starling.distributed.ps;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.agrona.concurrent.UnsafeBuffer;

/** A request, written without the server's code. */
final class Wish {
    private final ByteBuffer bytes = ByteBuffer.allocateDirect(1 << 20).order(ByteOrder.LITTLE_ENDIAN);
    final UnsafeBuffer buffer = new UnsafeBuffer(bytes);
    int length;

    Wish of(int kind, int worker, long session, long sequence, int unit, double rate, double weight, float... floats) {
        return rows(kind, worker, session, sequence, unit, rate, weight, 0, floats.length, new long[0], floats);
    }

    Wish rows(int kind, int worker, long session, long sequence, int unit, double rate, double weight, int flags,
            int count, long[] keys, float... floats) {
        bytes.clear();
        bytes.putInt(kind).putInt(worker).putLong(session).putLong(sequence).putInt(unit).putInt(count)
                .putDouble(rate).putDouble(weight).putInt(flags).putInt(0);
        for (long key : keys) {
            bytes.putLong(key);
        }
        for (float f : floats) {
            bytes.putFloat(f);
        }
        length = bytes.position();
        return this;
    }
}
