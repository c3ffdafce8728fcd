package dev.starling.transport.ucx;

import dev.starling.transport.spi.RemoteWrites;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.security.SecureRandom;
import org.agrona.DirectBuffer;
import org.agrona.collections.Long2ObjectHashMap;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Registered memory for writes that arrive as messages. Each registration has a number, and a token that no other has
 * had.
 */
final class Registrations {
    private final Long2ObjectHashMap<Entry> entries = new Long2ObjectHashMap<>();
    private final SecureRandom random = new SecureRandom();
    private long last;

    private static final class Entry {
        private final long token;
        private final MemorySegment memory;
        private final UnsafeBuffer buffer = new UnsafeBuffer(0, 0);
        private RemoteWrites.Interceptor interceptor = (_, _, _) -> false;

        Entry(long token, MemorySegment memory) {
            this.token = token;
            this.memory = memory;
        }
    }

    RemoteWrites.Registration register(MemorySegment memory) {
        long number = ++last;
        long token = random.nextLong();
        Entry entry = new Entry(token, memory);
        entries.put(number, entry);
        byte[] key = ByteBuffer.allocate(UcxKey.MESSAGES_LENGTH).order(ByteOrder.LITTLE_ENDIAN).put(UcxKey.MESSAGES)
                .putLong(memory.byteSize()).putLong(number).putLong(token).array();
        return new RemoteWrites.Registration() {
            @Override
            public byte[] key() {
                return key.clone();
            }

            @Override
            public void onWrite(RemoteWrites.Interceptor interceptor) {
                entry.interceptor = interceptor;
            }

            @Override
            public void close() {
                entries.remove(number);
            }
        };
    }

    /**
     * Writes the data, or returns false if the write is not allowed. Data for memory that was registered earlier are
     * dropped: this side closed it before the peer could know.
     */
    boolean write(long number, long token, long offset, DirectBuffer from, int at, int length) {
        Entry entry = entries.get(number);
        if (entry == null && number > 0 && number <= last) {
            return true;
        }
        if (entry == null || entry.token != token || offset < 0 || offset > entry.memory.byteSize() - length) {
            return false;
        }
        // Data of early writes are in an array.
        if (from.byteArray() != null || !entry.interceptor.consume(offset, from.addressOffset() + at, length)) {
            entry.buffer.wrap(entry.memory.address() + offset, length);
            entry.buffer.putBytes(0, from, at, length);
        }
        return true;
    }
}
