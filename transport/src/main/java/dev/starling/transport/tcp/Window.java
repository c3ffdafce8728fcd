package dev.starling.transport.tcp;

import java.nio.ByteBuffer;
import org.jspecify.annotations.Nullable;

/** A byte buffer over memory elsewhere. Pieces of one region share the buffer, so that it is created once. */
final class Window {
    /** Windows begin at its multiples, and are longer by a message. */
    private static final long LENGTH = 1 << 30;

    private @Nullable ByteBuffer window;
    private long start;

    /** Returns a buffer over some bytes at an address, at most those of a message; valid until the next call. */
    ByteBuffer of(long address, int length) {
        if (window == null || address < start || address + length > start + window.capacity()) {
            start = address & -LENGTH;
            window = Buffers.view(start, (int) LENGTH + TcpWire.MAX_MESSAGE);
        }
        int from = (int) (address - start);
        return window.clear().position(from).limit(from + length);
    }
}
