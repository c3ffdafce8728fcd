package dev.starling.transport;

import dev.starling.transport.spi.RemoteWrites;
import dev.starling.transport.spi.Wire;
import java.lang.foreign.MemorySegment;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Puts of one endpoint: those that go out, in pieces, and those that come in. The peer acknowledges the last number
 * that has arrived: at once if somebody waits for it, else now and then. All places are made once.
 */
final class PutQueue {
    private static final int PLACES = 1024;
    private static final int PIECES_AT_ONCE = 16;
    private static final int WRITES_AT_ONCE = 16;
    private static final int UNACKNOWLEDGED = PLACES / 4;
    private static final long NONE = 0;

    private final Endpoint endpoint;
    private final Put[] ring = new Put[PLACES];
    private final UnsafeBuffer piece = new UnsafeBuffer(0, 0);
    private final RemoteWrites.Completion written = this::written;
    private final UnsafeBuffer answer = new UnsafeBuffer(new byte[Long.BYTES]);
    /** Numbers of puts: all below {@code arrived} are complete, below {@code sent} on their way. */
    private long arrived;
    private long sent;
    /** Below, what the wire itself writes has begun. */
    private long begun;
    private long added;
    /** Incoming. */
    private long taken;
    private long awaited;
    private long acknowledged;

    PutQueue(Endpoint endpoint) {
        this.endpoint = endpoint;
    }

    private static final class Put {
        private MemoryRegion source;
        private long sourceOffset;
        private RegionKey target;
        private RemoteRegion remote;
        private MemoryRegion held;
        private long targetOffset;
        private long bytes;
        private long done;
        private boolean tell;
        private long immediate;
        private Completion completion;
    }

    boolean isFull() {
        return added - arrived == PLACES || added >= PLACES && ring[(int) (added % PLACES)].held != null;
    }

    int add(MemoryRegion source, long sourceOffset, RemoteRegion target, long targetOffset, long bytes, boolean tell,
            long immediate, Completion completion) {
        if (isFull()) {
            return Endpoint.BACK_PRESSURED;
        }
        int place = (int) (added % PLACES);
        if (ring[place] == null) {
            ring[place] = new Put();
        }
        Put put = ring[place];
        put.source = source;
        put.sourceOffset = sourceOffset;
        put.target = target.key();
        put.remote = target;
        put.targetOffset = targetOffset;
        put.bytes = bytes;
        put.done = 0;
        put.tell = tell;
        put.immediate = immediate;
        put.completion = completion;
        added++;
        doWork();
        return Endpoint.OK;
    }

    int doWork() {
        int work = 0;
        long before = sent;
        if (awaited > acknowledged || taken - acknowledged >= UNACKNOWLEDGED) {
            answer.putLong(0, taken, Frame.ORDER);
            if (endpoint.frame(Frame.PUT_DONE, Frame.HEADER, answer, 0, Long.BYTES) == Endpoint.OK) {
                acknowledged = taken;
                work++;
            }
        }
        boolean begins = true;
        while (begins && begun < added && begun < sent + WRITES_AT_ONCE) {
            begins = begin(ring[(int) (begun % PLACES)]);
        }
        work += (int) (sent - before);
        while (sent < begun && work < PIECES_AT_ONCE && sendPiece(ring[(int) (sent % PLACES)])) {
            work++;
        }
        return work;
    }

    /**
     * Has the wire write, if it can; else there is nothing to begin. Where the peer can be told at once, it is, in its
     * turn. Returns false if there is no room.
     */
    private boolean begin(Put put) {
        RemoteWrites.Target target = put.bytes == put.done || put.source == null ? null : put.remote.target();
        if (target == null) {
            begun++;
            return true;
        }
        boolean ordered = target.isOrdered();
        if (ordered && sent < begun) {
            return false;
        }
        MemorySegment source = put.source.memory().asSlice(put.sourceOffset, put.bytes);
        put.done = put.bytes;
        int code = ordered ? endpoint.frameBehind(target, put.targetOffset, source, written, begun, Frame.PUT,
                head(put, true)) : target.put(put.targetOffset, source, written, begun);
        if (code != Wire.SENT) {
            put.done = 0;
            return false;
        }
        put.held = put.source;
        put.held.hold();
        begun++;
        sent += ordered ? 1 : 0;
        return true;
    }

    private void written(long number, boolean success) {
        Put put = ring[(int) (number % PLACES)];
        put.held.drop();
        put.held = null;
        if (!success) {
            endpoint.lose("the link to " + endpoint.address() + " broke during a write");
        }
    }

    private boolean sendPiece(Put put) {
        if (put.held != null) {
            return false;
        }
        int length = (int) Math.min(put.bytes - put.done, endpoint.transport.pieceLength());
        boolean last = put.done + length == put.bytes;
        int headLength = head(put, last);
        if (length > 0) {
            piece.wrap(put.source.memory().address() + put.sourceOffset + put.done, length);
        }
        if (endpoint.frame(Frame.PUT, headLength, length > 0 ? piece : null, 0, length) != Endpoint.OK) {
            return false;
        }
        put.done += length;
        if (last) {
            sent++;
        }
        return true;
    }

    /** Writes what a put's frame says, and returns the length of its head. */
    private int head(Put put, boolean last) {
        UnsafeBuffer head = endpoint.head();
        head.putLong(Frame.HEADER, put.target.region(), Frame.ORDER);
        head.putLong(Frame.HEADER + 8, put.target.token(), Frame.ORDER);
        head.putLong(Frame.HEADER + 16, put.targetOffset + put.done, Frame.ORDER);
        head.putLong(Frame.HEADER + 24, put.tell ? put.immediate : NONE, Frame.ORDER);
        head.putInt(Frame.HEADER + 32, 0, Frame.ORDER);
        head.putInt(Frame.HEADER + 36, last ? Frame.PUT_LAST | (put.tell ? Frame.PUT_IMMEDIATE : 0)
                | (put.completion != null ? Frame.PUT_AWAITED : 0) : 0, Frame.ORDER);
        return Frame.PUT_HEADER;
    }

    /** Writes what a peer's put carries, unless it lies outside of the region. */
    void take(DirectBuffer buffer, int offset, int length) {
        long number = buffer.getLong(offset + Frame.HEADER, Frame.ORDER);
        long token = buffer.getLong(offset + Frame.HEADER + 8, Frame.ORDER);
        long to = buffer.getLong(offset + Frame.HEADER + 16, Frame.ORDER);
        int flags = buffer.getInt(offset + Frame.HEADER + 36, Frame.ORDER);
        int bytes = length - Frame.PUT_HEADER;
        MemoryRegion region = endpoint.transport.region(number);
        if (region == null && endpoint.transport.wasRegion(number)) {
            // Closed here before the peer could know.
            endpoint.transport.counters.refusedWrites++;
            count(flags);
            return;
        }
        if (region == null || region.key().token() != token || to < 0 || to > region.bytes() - bytes) {
            endpoint.transport.counters.refusedWrites++;
            endpoint.expel(region == null ? "wrote into a region that never was"
                    : region.key().token() != token ? "wrote into a region without its token"
                    : "wrote " + bytes + " bytes at " + to + " of a region of " + region.bytes());
            return;
        }
        if (bytes > 0) {
            region.write(to, buffer, offset + Frame.PUT_HEADER, bytes);
        }
        count(flags);
        if ((flags & Frame.PUT_IMMEDIATE) != 0) {
            endpoint.transport.told(endpoint, buffer.getLong(offset + Frame.HEADER + 24, Frame.ORDER));
        }
    }

    private void count(int flags) {
        taken += flags & Frame.PUT_LAST;
        if ((flags & Frame.PUT_AWAITED) != 0) {
            awaited = taken;
        }
    }

    /** Completes what the peer says has arrived. */
    void done(long upTo) {
        while (arrived < Math.min(upTo, sent)) {
            complete(true);
        }
    }

    /** Lets go of a source that is about to be closed: what of it has not been sent never will be. */
    void cancel(MemoryRegion source) {
        for (long number = sent; number < added; number++) {
            Put put = ring[(int) (number % PLACES)];
            if (put.source == source) {
                giveUp(put);
            }
        }
    }

    /** Lets go of a target that is about to be closed: what has not begun never will. */
    void cancel(RemoteRegion target) {
        for (long number = begun; number < added; number++) {
            Put put = ring[(int) (number % PLACES)];
            if (put.remote == target && put.bytes > put.done) {
                giveUp(put);
            }
        }
    }

    /** What is left of it keeps its place and its number. */
    private static void giveUp(Put put) {
        Completion completion = put.completion;
        put.source = null;
        put.completion = null;
        put.tell = false;
        put.bytes = put.done;
        if (completion != null) {
            completion.completed(false);
        }
    }

    void fail() {
        while (arrived < added) {
            complete(false);
        }
        sent = arrived;
        begun = arrived;
    }

    private void complete(boolean success) {
        Put put = ring[(int) (arrived % PLACES)];
        arrived++;
        Completion completion = put.completion;
        put.completion = null;
        put.source = null;
        if (completion != null) {
            completion.completed(success);
        }
    }
}
