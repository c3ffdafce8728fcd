package dev.starling.distributed.collective.shared;

import static dev.starling.distributed.collective.reduce.ReduceKernels.ALL;

import dev.starling.distributed.collective.call.CollectiveCall;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;
import java.nio.charset.StandardCharsets;

/**
 * One rank's control page, which all ranks of a host map. All counters only grow, so none is ever reset.
 *
 * <p>Fields that different ranks write at the same time are on different pairs of cache lines:
 * <pre>
 *     0  arrived    sequence number of the last collective that the rank called
 *     8  hash 0     of its last call with an even sequence number; a rank is at most one call ahead of another
 *    16  hash 1     of its last call with an odd sequence number
 *   128  claimed    number of pieces of the rank's share that ranks have claimed
 *   256  finished   number of pieces of the rank's share that are done
 *   384  length     of the call's text in bytes
 *   392  text
 *  4096  slot 0     the input of small collectives with an even sequence number
 *        slot 1     with an odd one
 * </pre>
 */
final class DirectControl {
    /** Bytes in a slot. */
    static final int SLOT = 16 << 10;
    /** Bytes of a page. */
    static final long BYTES = 4096 + 2 * SLOT;

    private static final VarHandle LONG = ValueLayout.JAVA_LONG.varHandle();
    private static final int ARRIVED = 0;
    private static final int HASH = 8;
    private static final int CLAIMED = 128;
    private static final int FINISHED = 256;
    private static final int LENGTH = 384;
    private static final int TEXT = 392;
    private static final int SLOTS = 4096;

    private final long base;

    DirectControl(MemorySegment page) {
        if (page.byteSize() < BYTES || page.address() % 64 != 0) {
            throw new IllegalArgumentException("a control page must have " + BYTES + " bytes and start on a cache line,"
                    + " got " + page);
        }
        base = page.address();
    }

    /** Publishes that the rank has arrived, and its call. */
    void arrive(long sequence, CollectiveCall call, boolean newCall) {
        if (newCall) {
            byte[] text = call.textBytes();
            MemorySegment.copy(text, 0, ALL, ValueLayout.JAVA_BYTE, base + TEXT, text.length);
            LONG.set(ALL, base + LENGTH, (long) text.length);
        }
        LONG.set(ALL, base + HASH + 8 * (sequence & 1), call.hash());
        LONG.setRelease(ALL, base + ARRIVED, sequence);
    }

    long arrived() {
        return (long) LONG.getAcquire(ALL, base + ARRIVED);
    }

    /** Returns the hash of a call, once it has {@link #arrived}. */
    long hash(long sequence) {
        return (long) LONG.get(ALL, base + HASH + 8 * (sequence & 1));
    }

    String text() {
        int length = Math.clamp((long) LONG.get(ALL, base + LENGTH), 0, CollectiveCall.MAX_TEXT);
        byte[] text = ALL.asSlice(base + TEXT, length).toArray(ValueLayout.JAVA_BYTE);
        return new String(text, StandardCharsets.UTF_8);
    }

    /** Claims the next piece below {@code limit}; returns its number, or -1 if all are claimed. */
    long claim(long limit) {
        long next = (long) LONG.getOpaque(ALL, base + CLAIMED);
        while (next < limit) {
            long seen = (long) LONG.compareAndExchange(ALL, base + CLAIMED, next, next + 1);
            if (seen == next) {
                return next;
            }
            next = seen;
        }
        return -1;
    }

    void finish() {
        LONG.getAndAdd(ALL, base + FINISHED, 1L);
    }

    long finished() {
        return (long) LONG.getAcquire(ALL, base + FINISHED);
    }

    long slot(long sequence) {
        return base + SLOTS + (sequence & 1) * SLOT;
    }
}
