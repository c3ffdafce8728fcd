package dev.starling.transport.tcp;

import dev.starling.transport.TransportException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * The key of registered memory.
 *
 * @param number of the registration
 * @param token that no other registration has had
 * @param length of the memory in bytes
 */
record RegistrationKey(long number, long token, long length) {
    private static final int LENGTH = 3 * Long.BYTES;

    byte[] encode() {
        return ByteBuffer.allocate(LENGTH).order(ByteOrder.LITTLE_ENDIAN).putLong(number).putLong(token).putLong(length)
                .array();
    }

    static RegistrationKey decode(byte[] key) {
        ByteBuffer in = ByteBuffer.wrap(key).order(ByteOrder.LITTLE_ENDIAN);
        if (key.length != LENGTH || in.getLong(2 * Long.BYTES) <= 0) {
            throw new TransportException(TransportException.Problem.ARGUMENT, "these " + key.length
                    + " bytes are not a key of memory that can be written over tcp", "");
        }
        return new RegistrationKey(in.getLong(), in.getLong(), in.getLong());
    }

    void check(long offset, long bytes) {
        if (offset < 0 || offset > length - bytes) {
            throw new TransportException(TransportException.Problem.ARGUMENT, "[" + offset + ", " + (offset + bytes)
                    + ") is not within the target's " + length + " bytes", "");
        }
    }
}
