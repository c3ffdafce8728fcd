package dev.starling.transport.tcp;

import dev.starling.transport.spi.RemoteWrites;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.List;
import org.agrona.collections.Long2ObjectHashMap;
import org.agrona.concurrent.UnsafeBuffer;

/** Registered memory: what peers may write into, and what this side sends from without copying it. */
final class Registrations {
    private static final int WINDOW_SHIFT = 30;

    private final Long2ObjectHashMap<Registered> byNumber = new Long2ObjectHashMap<>();
    private final List<Registered> all = new ArrayList<>();
    private final SecureRandom random = new SecureRandom();
    private final UnsafeBuffer source = new UnsafeBuffer(0, 0);
    private final UnsafeBuffer target = new UnsafeBuffer(0, 0);
    private long last;

    /** Registered memory. A socket reads and writes it through windows, because a byte buffer ends at 2 GiB. */
    final class Registered implements RemoteWrites.Registration {
        private final RegistrationKey key;
        private final long address;
        private final ByteBuffer[] windows;
        private RemoteWrites.Interceptor interceptor;
        private boolean closed;

        private Registered(RegistrationKey key, long address) {
            this.key = key;
            this.address = address;
            windows = new ByteBuffer[window(key.length() - 1) + 1];
        }

        @Override
        public byte[] key() {
            return key.encode();
        }

        @Override
        public void onWrite(RemoteWrites.Interceptor newInterceptor) {
            interceptor = newInterceptor;
        }

        /** Returns whether arriving data must be offered to an interceptor. */
        boolean isIntercepted() {
            return interceptor != null;
        }

        boolean isClosed() {
            return closed;
        }

        boolean contains(long offset, long length) {
            return offset >= 0 && length >= 0 && offset <= key.length() - length;
        }

        /** Returns a buffer for reading from a socket that begins at an offset and ends within {@code length} bytes. */
        ByteBuffer at(long offset, long length) {
            int window = window(offset);
            if (windows[window] == null) {
                windows[window] = newWindow(window);
            }
            return narrowed(windows[window], offset, length);
        }

        /** Offers data to the interceptor, or copies them into the memory. */
        void write(long offset, long from, int length) {
            if (interceptor == null || !interceptor.consume(offset, from, length)) {
                source.wrap(from, length);
                target.wrap(address + offset, length);
                target.putBytes(0, source, 0, length);
            }
        }

        /** Returns the offset of an address in this memory. */
        long offset(long of) {
            return of - address;
        }

        /** Returns a new byte buffer for a window. */
        ByteBuffer newWindow(int window) {
            long from = (long) window << WINDOW_SHIFT;
            return bytes(address + from, Math.min(key.length() - from, Integer.MAX_VALUE));
        }

        @Override
        public void close() {
            closed = true;
            byNumber.remove(key.number());
            all.remove(this);
        }
    }

    /** Returns a byte buffer over native memory that others manage. */
    static ByteBuffer bytes(long address, long length) {
        return MemorySegment.ofAddress(address).reinterpret(length).asByteBuffer();
    }

    static int window(long offset) {
        return (int) (offset >>> WINDOW_SHIFT);
    }

    /** Sets a window's position to an offset of the memory, and its limit to at most {@code length} bytes later. */
    static ByteBuffer narrowed(ByteBuffer window, long offset, long length) {
        int position = (int) (offset & (1L << WINDOW_SHIFT) - 1);
        return window.clear().position(position).limit((int) Math.min(window.capacity(), position + length));
    }

    Registered register(MemorySegment memory) {
        Registered registered = new Registered(new RegistrationKey(++last, random.nextLong(), memory.byteSize()),
                memory.address());
        byNumber.put(last, registered);
        all.add(registered);
        return registered;
    }

    /** Returns memory by its number, or {@code null}. */
    Registered get(long number, long token) {
        Registered found = byNumber.get(number);
        return found == null || found.key.token() != token ? null : found;
    }

    /** Returns whether memory with this number was registered and is closed: a peer may not know that yet. */
    boolean wasClosed(long number) {
        return number > 0 && number <= last && !byNumber.containsKey(number);
    }

    /** Returns registered memory that contains a source; memory that is not registered counts as such for one use. */
    Registered containing(MemorySegment memory) {
        for (int i = 0; i < all.size(); i++) {
            Registered each = all.get(i);
            if (each.contains(each.offset(memory.address()), memory.byteSize())) {
                return each;
            }
        }
        return new Registered(new RegistrationKey(0, 0, memory.byteSize()), memory.address());
    }
}
