package dev.starling.transport.ucx;

import dev.starling.transport.spi.RemoteWrites;
import dev.starling.transport.spi.Wire;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.openucx.jucx.UcxException;
import org.openucx.jucx.ucp.UcpEndpoint;
import org.openucx.jucx.ucp.UcpRemoteKey;
import org.openucx.jucx.ucp.UcpRequest;
import org.openucx.jucx.ucs.UcsConstants;

/**
 * Puts of one link that the network performs by itself. UCX reports when a write has left; that it has arrived is known
 * when a flush that began after it completes. There is one flush at a time: it covers all writes since the previous
 * one.
 */
final class Puts {
    private static final int CAPACITY = 1024;

    private final UcpEndpoint endpoint;
    private final UcpRequest[] requests = new UcpRequest[CAPACITY];
    private final RemoteWrites.Completion[] completions = new RemoteWrites.Completion[CAPACITY];
    private final long[] tags = new long[CAPACITY];
    private final List<UcpRemoteKey> openKeys = new ArrayList<>();
    private final List<UcpRemoteKey> closedKeys = new ArrayList<>();
    private long head;
    private long tail;
    private long covered;
    private @Nullable UcpRequest flush;
    private boolean broken;

    Puts(UcpEndpoint endpoint) {
        this.endpoint = endpoint;
    }

    RemoteWrites.Target attach(UcxKey key) {
        // UCX reads the packed key without knowing its length: pad the buffer with bytes that it may read.
        ByteBuffer packed = ByteBuffer.allocateDirect(2 * RemoteWrites.MAX_KEY_LENGTH).put(key.packed()).clear();
        try {
            UcpRemoteKey unpacked = endpoint.unpackRemoteKey(packed);
            openKeys.add(unpacked);
            return new NetworkTarget(this, key, unpacked);
        } catch (UcxException e) {
            throw UcxKey.malformed(key.packed().capacity(), e);
        }
    }

    /** Frees the key when no write needs it any more. */
    private void close(UcpRemoteKey key) {
        if (openKeys.remove(key)) {
            closedKeys.add(key);
            freeKeys();
        }
    }

    /** Refuses new writes; those that have begun will complete. */
    void breakOff() {
        broken = true;
        closedKeys.addAll(openKeys);
        openKeys.clear();
        freeKeys();
    }

    private void freeKeys() {
        if (head == tail && !closedKeys.isEmpty()) {
            closedKeys.forEach(UcpRemoteKey::close);
            closedKeys.clear();
        }
    }

    private int put(UcpRemoteKey key, long remoteAddress, MemorySegment source, RemoteWrites.Completion completion,
            long tag) {
        if (broken) {
            return Wire.CLOSED;
        }
        if (tail - head == CAPACITY) {
            return Wire.BACK_PRESSURED;
        }
        int slot = (int) (tail % CAPACITY);
        try {
            requests[slot] = endpoint.putNonBlocking(source.address(), source.byteSize(), remoteAddress, key, null,
                    UcxWire.HOST_MEMORY);
        } catch (UcxException e) {
            broken = true;
            return Wire.CLOSED;
        }
        completions[slot] = completion;
        tags[slot] = tag;
        tail++;
        flush();
        return Wire.SENT;
    }

    private void flush() {
        if (flush == null && !broken && covered < tail) {
            try {
                flush = endpoint.flushNonBlocking(null);
                covered = tail;
            } catch (UcxException e) {
                broken = true;
            }
        }
    }

    /** Calls the completions of finished writes; returns how many. */
    int work() {
        // A flush towards a lost peer may never complete; then each write reports its own end.
        if (head == tail || !broken && flush != null && !flush.isCompleted()) {
            return 0;
        }
        if (flush != null) {
            broken |= !flush.isCompleted() || flush.getStatus() != UcsConstants.STATUS.UCS_OK;
            flush = null;
        }
        boolean written = !broken;
        long end = written ? covered : tail;
        // Begin the next flush before calling the completions, which may take time.
        flush();
        int work = 0;
        while (head < end && requests[(int) (head % CAPACITY)].isCompleted()) {
            int slot = (int) (head++ % CAPACITY);
            RemoteWrites.Completion completion = completions[slot];
            boolean good = written && requests[slot].getStatus() == UcsConstants.STATUS.UCS_OK;
            requests[slot] = null;
            completions[slot] = null;
            work++;
            completion.onComplete(tags[slot], good);
        }
        freeKeys();
        return work;
    }

    boolean isEmpty() {
        return head == tail;
    }

    /** Memory that a peer registered. */
    private record NetworkTarget(Puts puts, UcxKey key, UcpRemoteKey unpacked) implements RemoteWrites.Target {
        @Override
        public int put(long offset, MemorySegment source, RemoteWrites.Completion completion, long tag) {
            key.check(offset, source.byteSize());
            return puts.put(unpacked, key.address() + offset, source, completion, tag);
        }

        @Override
        public void close() {
            puts.close(unpacked);
        }
    }
}
