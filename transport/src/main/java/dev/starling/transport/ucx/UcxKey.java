package dev.starling.transport.ucx;

import dev.starling.transport.TransportException;
import dev.starling.transport.spi.RemoteWrites;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.jspecify.annotations.Nullable;

/**
 * The key of memory that a peer registered with UCX.
 *
 * @param length of the memory in bytes
 * @param address of the memory in its process
 * @param packed UCX's own key
 */
record UcxKey(long length, long address, ByteBuffer packed) {
    private static final int FIXED = 2 * Long.BYTES;

    byte[] encode() {
        return ByteBuffer.allocate(FIXED + packed.remaining()).order(ByteOrder.LITTLE_ENDIAN).putLong(length)
                .putLong(address).put(packed.duplicate()).array();
    }

    static UcxKey of(byte[] key) {
        ByteBuffer bytes = ByteBuffer.wrap(key).order(ByteOrder.LITTLE_ENDIAN);
        if (key.length > FIXED && key.length <= RemoteWrites.MAX_KEY_LENGTH && bytes.getLong(0) > 0) {
            return new UcxKey(bytes.getLong(), bytes.getLong(), bytes);
        }
        throw malformed(key.length, null);
    }

    static TransportException malformed(int length, @Nullable Throwable cause) {
        return new TransportException(TransportException.Problem.ARGUMENT, "these " + length
                + " bytes are not a key of memory that can be written from here", "", cause);
    }

    void check(long offset, long bytes) {
        if (offset < 0 || offset > length - bytes) {
            throw new TransportException(TransportException.Problem.ARGUMENT, "[" + offset + ", " + (offset + bytes)
                    + ") is not within the target's " + length + " bytes", "");
        }
    }
}
