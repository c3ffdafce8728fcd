package dev.starling.distributed.ps.server;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.agrona.concurrent.UnsafeBuffer;

/** A request, encoded without the server's code. The kinds are the numbers of the wire format. */
final class RawRequest {
    private final ByteBuffer bytes = ByteBuffer.allocateDirect(1 << 20).order(ByteOrder.LITTLE_ENDIAN);
    final UnsafeBuffer buffer = new UnsafeBuffer(bytes);
    int length;

    RawRequest join(int worker, long session, int unit, float... initial) {
        return of(1, worker, session, 0, unit, 0, 0, initial);
    }

    RawRequest push(int worker, long session, long sequence, int unit, double rate, double weight,
            float... gradient) {
        return of(2, worker, session, sequence, unit, rate, weight, gradient);
    }

    RawRequest pushRows(int worker, long session, long sequence, int unit, double rate, double weight, int flags,
            int count, long[] keys, float... gradients) {
        return rows(3, worker, session, sequence, unit, rate, weight, flags, count, keys, gradients);
    }

    RawRequest pull(int unit) {
        return of(4, 0, 0, 0, unit, 0, 0);
    }

    RawRequest pullRows(int unit, long[] keys) {
        return rows(5, 0, 0, 0, unit, 0, 0, 0, keys.length, keys);
    }

    RawRequest of(int kind, int worker, long session, long sequence, int unit, double rate, double weight,
            float... floats) {
        return rows(kind, worker, session, sequence, unit, rate, weight, 0, floats.length, new long[0], floats);
    }

    private RawRequest rows(int kind, int worker, long session, long sequence, int unit, double rate, double weight,
            int flags,
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
