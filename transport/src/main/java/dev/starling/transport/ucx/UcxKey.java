package dev.starling.transport.ucx;

import dev.starling.transport.TransportException;
import dev.starling.transport.spi.RemoteWrites;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * The key of registered memory: the kind of write (1 byte) and the length of the memory in bytes (8); then for writes
 * that travel as messages the number and the token of the registration (8 each), for those of the network the address
 * (8) and UCX's packed key.
 */
record UcxKey(byte kind, long length, ByteBuffer rest) {
    static final byte MESSAGES = 1;
    static final byte NETWORK = 2;
    static final int MESSAGES_LENGTH = 1 + 3 * Long.BYTES;

    private static final int MIN_LENGTH = 1 + 2 * Long.BYTES;

    static UcxKey of(byte[] key) {
        if (key.length > MIN_LENGTH && key.length <= RemoteWrites.MAX_KEY_LENGTH) {
            ByteBuffer bytes = ByteBuffer.wrap(key).order(ByteOrder.LITTLE_ENDIAN);
            UcxKey read = new UcxKey(bytes.get(), bytes.getLong(), bytes);
            if (read.length > 0 && (read.kind == NETWORK || read.kind == MESSAGES && key.length == MESSAGES_LENGTH)) {
                return read;
            }
        }
        throw malformed(key.length, null);
    }

    static TransportException malformed(int length, Throwable cause) {
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
