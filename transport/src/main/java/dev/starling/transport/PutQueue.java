package dev.starling.transport;

import dev.starling.transport.frame.Frame;
import dev.starling.transport.spi.Inbox;
import dev.starling.transport.spi.RemoteWrites;
import dev.starling.transport.spi.Wire;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;
import org.jspecify.annotations.Nullable;

/**
 * Puts of one endpoint: outgoing ones, which are sent in pieces, and incoming ones. The receiver acknowledges the
 * number of the last put that arrived: immediately if the sender waits for it, otherwise now and then. Each slot of the
 * ring is allocated once and reused.
 */
final class PutQueue {
    private static final int SLOTS = 1024;
    private static final int MAX_PIECES_PER_TURN = 16;
    /**
     * Between turns what has arrived is received. If more waits than TCP's window holds, acknowledgements release the
     * rest on the processor that receives them, beside what is sent here: packets overtake each other, which TCP takes
     * for loss.
     */
    private static final int MAX_BYTES_PER_TURN = 256 << 10;
    private static final int MAX_WRITES_BEGUN = 16;
    private static final int UNACKNOWLEDGED = SLOTS / 4;
    private static final long NONE = 0;
    /** Shorter pieces are copied: that takes less time than to keep book of them. */
    private static final int MIN_IN_PLACE = 16 << 10;
    /** So that elements are not divided between two pieces. */
    private static final int ALIGNMENT = 64;

    private final Endpoint endpoint;
    private final TransportContext context;
    private final Put[] ring = new Put[SLOTS];
    private final UnsafeBuffer piece = new UnsafeBuffer(0, 0);
    private final RemoteWrites.Completion written = this::written;
    private final Placed placed = new Placed();
    private final UnsafeBuffer answer = new UnsafeBuffer(new byte[Long.BYTES]);
    /**
     * Numbers of outgoing puts: those below {@code arrived} have ended, those below {@code confirmed} are acknowledged,
     * those below {@code sent} completely sent.
     */
    private long arrived;
    private long confirmed;
    private long sent;
    /** Puts below this number have begun, as far as the wire itself performs them. */
    private long begun;
    private long added;
    /** Puts from this number on carry no data. */
    private long dataEnd;
    /** Bytes that were sent in the present turn. */
    private int pieceBytes;
    /** Counts of incoming puts: received completely, awaited by the sender, acknowledged to the sender. */
    private long received;
    private long awaited;
    private long acknowledged;

    PutQueue(Endpoint endpoint, TransportContext context) {
        this.endpoint = endpoint;
        this.context = context;
    }

    private static final class Put {
        /** {@code null} once the put has ended. */
        private @Nullable MemoryRegion source;
        private long sourceOffset;
        private RegionKey target;
        private RemoteRegion remote;
        /** The source while the network reads it, else {@code null}. */
        private @Nullable MemoryRegion held;
        private long targetOffset;
        private long bytes;
        private long done;
        private boolean notify;
        private long immediate;
        private @Nullable Completion completion;

        Put(RegionKey target, RemoteRegion remote) {
            this.target = target;
            this.remote = remote;
        }
    }

    /** Returns the number of puts that were added. */
    long count() {
        return added;
    }

    /** Returns whether the first {@code number} puts were handed to the wire, or have failed. */
    boolean areSent(long number) {
        return sent >= number;
    }

    boolean isFull() {
        return added - arrived == SLOTS || added >= SLOTS && ring[(int) (added % SLOTS)].held != null;
    }

    /** Returns whether data of a put have yet to arrive, as far as is known. */
    boolean carriesData() {
        return arrived < dataEnd;
    }

    int add(MemoryRegion source, long sourceOffset, RemoteRegion target, long targetOffset, long bytes, boolean notify,
            long immediate, @Nullable Completion completion) {
        if (isFull()) {
            return Endpoint.BACK_PRESSURED;
        }
        int slot = (int) (added % SLOTS);
        if (ring[slot] == null) {
            ring[slot] = new Put(target.key(), target);
        }
        Put put = ring[slot];
        put.source = source;
        put.sourceOffset = sourceOffset;
        put.target = target.key();
        put.remote = target;
        put.targetOffset = targetOffset;
        put.bytes = bytes;
        put.done = 0;
        put.notify = notify;
        put.immediate = immediate;
        put.completion = completion;
        added++;
        dataEnd = bytes > 0 ? added : dataEnd;
        send();
        return Endpoint.OK;
    }

    /** Completes what is acknowledged, if a completion has thrown an exception before, and continues to send. */
    int doWork() {
        complete();
        return send();
    }

    /** Sends acknowledgements and puts, as far as there is room; returns the amount of work done. */
    int send() {
        int work = 0;
        if (awaited > acknowledged || received - acknowledged >= UNACKNOWLEDGED) {
            answer.putLong(0, received, Frame.ORDER);
            if (endpoint.frame(Frame.PUT_DONE, Frame.HEADER, answer, 0, Long.BYTES) == Endpoint.OK) {
                acknowledged = received;
                work++;
            }
        }
        boolean begins = true;
        while (begins && begun < added && begun < sent + MAX_WRITES_BEGUN) {
            begins = begin(ring[(int) (begun % SLOTS)]);
        }
        pieceBytes = 0;
        while (sent < begun && work < MAX_PIECES_PER_TURN && pieceBytes < MAX_BYTES_PER_TURN
                && sendPiece(ring[(int) (sent % SLOTS)])) {
            work++;
        }
        return work;
    }

    /** Lets the network perform the write, if it can; otherwise nothing begins here. Returns false without room. */
    private boolean begin(Put put) {
        MemoryRegion from = put.source;
        RemoteWrites.Target target;
        try {
            target = put.bytes == put.done || from == null ? null : put.remote.target();
        } catch (TransportException e) {
            // A broken link shows itself when it sends, after the peer's last messages were delivered.
            if (e.problem() != TransportException.Problem.LOST) {
                endpoint.lose(String.valueOf(e.getMessage()));
            }
            return false;
        }
        if (target != null && from != null) {
            MemorySegment source = from.memory().asSlice(put.sourceOffset, put.bytes);
            if (target.put(put.targetOffset, source, written, begun) != Wire.SENT) {
                return false;
            }
            put.done = put.bytes;
            put.held = from;
            from.hold();
        }
        begun++;
        return true;
    }

    private void written(long number, boolean success) {
        Put put = ring[(int) (number % SLOTS)];
        Objects.requireNonNull(put.held).drop();
        put.held = null;
        if (!success) {
            endpoint.lose("the link to " + endpoint.address() + " broke during a write");
        }
    }

    private boolean sendPiece(Put put) {
        if (put.held != null) {
            return false;
        }
        int length = pieceLength(put.bytes - put.done);
        boolean last = put.done + length == put.bytes;
        boolean inPlace = length >= MIN_IN_PLACE && endpoint.sendsInPlace();
        int headLength = head(put, last, inPlace);
        if (length > 0) {
            piece.wrap(Objects.requireNonNull(put.source).memory().address() + put.sourceOffset + put.done, length);
        }
        if (endpoint.frame(Frame.PUT, headLength, length > 0 ? piece : null, 0, length, inPlace ? put.source : null)
                != Endpoint.OK) {
            return false;
        }
        put.done += length;
        pieceBytes += length;
        if (last) {
            sent++;
        }
        return true;
    }

    /** Returns the length of the next of as few pieces of similar length as possible. */
    private int pieceLength(long left) {
        int longest = endpoint.pieceLength();
        long pieces = Math.ceilDiv(left, longest);
        return pieces <= 1 ? (int) left : (int) Math.min(longest, Math.ceilDiv(left, pieces * ALIGNMENT) * ALIGNMENT);
    }

    /** Writes the header of a put's frame and returns its length. */
    private int head(Put put, boolean last, boolean bare) {
        UnsafeBuffer head = endpoint.head();
        head.putLong(Frame.PUT_REGION, put.target.region(), Frame.ORDER);
        head.putLong(Frame.PUT_TOKEN, put.target.token(), Frame.ORDER);
        head.putLong(Frame.PUT_OFFSET, put.targetOffset + put.done, Frame.ORDER);
        head.putLong(Frame.PUT_VALUE, put.notify ? put.immediate : NONE, Frame.ORDER);
        head.putInt(Frame.PUT_OPERATION, 0, Frame.ORDER);
        head.putInt(Frame.PUT_FLAGS, (bare ? Frame.PUT_BARE : 0) | (last ? Frame.PUT_LAST
                | (put.notify ? Frame.PUT_IMMEDIATE : 0) | (put.completion != null ? Frame.PUT_AWAITED : 0) : 0),
                Frame.ORDER);
        return Frame.PUT_HEADER;
    }

    /** Returns where the data of a peer's put may be received, or {@code null} if they must pass through a buffer. */
    Inbox.@Nullable Place place(DirectBuffer head, int at, int bytes) {
        MemoryRegion region = context.regions().get(head.getLong(at + Frame.PUT_REGION, Frame.ORDER));
        long to = head.getLong(at + Frame.PUT_OFFSET, Frame.ORDER);
        if (placed.region != null || region == null || region.isIntercepted()
                || region.key().token() != head.getLong(at + Frame.PUT_TOKEN, Frame.ORDER)
                || to < 0 || to > region.bytes() - bytes) {
            return null;
        }
        region.hold();
        placed.region = region;
        placed.address = region.memory().address() + to;
        return placed;
    }

    /** The place of a put's data. The memory remains, even if its region is closed, until they have arrived. */
    private static final class Placed implements Inbox.Place {
        private @Nullable MemoryRegion region;
        private long address;

        @Override
        public long address() {
            return address;
        }

        @Override
        public void abandon() {
            if (region != null) {
                MemoryRegion held = region;
                region = null;
                held.drop();
            }
        }
    }

    /** Writes the data of a peer's put into the region, unless they were received there. */
    void receive(DirectBuffer head, int at, DirectBuffer data, int dataOffset, int bytes) {
        try {
            receive(head, at, data, dataOffset, bytes, placed.region != null
                    && data.byteArray() == null && data.addressOffset() + dataOffset == placed.address);
        } finally {
            placed.abandon();
        }
    }

    /** Writes the data of a peer's put into the region. A put outside of the region ends the connection. */
    private void receive(DirectBuffer head, int at, DirectBuffer data, int dataOffset, int bytes, boolean inPlace) {
        long number = head.getLong(at + Frame.PUT_REGION, Frame.ORDER);
        long token = head.getLong(at + Frame.PUT_TOKEN, Frame.ORDER);
        long to = head.getLong(at + Frame.PUT_OFFSET, Frame.ORDER);
        int flags = head.getInt(at + Frame.PUT_FLAGS, Frame.ORDER);
        MemoryRegion region = context.regions().get(number);
        if (region == null && context.regions().hasExisted(number)) {
            // This side closed the region before the peer could know.
            context.refusals().write();
            count(flags);
            return;
        }
        if (region == null || region.key().token() != token || to < 0 || to > region.bytes() - bytes) {
            context.refusals().write();
            endpoint.expel(region == null ? "wrote into a region that never was"
                    : region.key().token() != token ? "wrote into a region without its token"
                    : "wrote " + bytes + " bytes at " + to + " of a region of " + region.bytes());
            return;
        }
        if (bytes > 0 && !inPlace) {
            region.write(to, data, dataOffset, bytes);
        }
        count(flags);
        if ((flags & Frame.PUT_IMMEDIATE) != 0) {
            context.handlers().puts.onPut(endpoint, head.getLong(at + Frame.PUT_VALUE, Frame.ORDER));
        }
    }

    private void count(int flags) {
        received += flags & Frame.PUT_LAST;
        if ((flags & Frame.PUT_AWAITED) != 0) {
            awaited = received;
        }
    }

    /** Completes the puts that the peer acknowledges. */
    void acknowledged(long upTo) {
        confirmed = Math.max(confirmed, Math.min(upTo, sent));
        complete();
    }

    /** If a completion throws an exception, the next call continues behind it. */
    private void complete() {
        while (arrived < confirmed) {
            Put put = ring[(int) (arrived % SLOTS)];
            arrived++;
            Completion completion = put.completion;
            put.completion = null;
            put.source = null;
            if (completion != null) {
                completion.onComplete(true);
            }
        }
    }

    /**
     * Cancels puts from a source that is about to be closed; bytes that have not been sent are never sent. Adds the
     * calls of their completions, which the caller is to make, to {@code ended}.
     */
    void cancel(MemoryRegion source, List<Runnable> ended) {
        for (long number = sent; number < added; number++) {
            Put put = ring[(int) (number % SLOTS)];
            if (put.source == source) {
                abandon(put, ended);
            }
        }
    }

    /** Cancels puts to a target that is about to be closed, unless the wire has begun them. */
    void cancel(RemoteRegion target) {
        List<Runnable> ended = new ArrayList<>();
        for (long number = begun; number < added; number++) {
            Put put = ring[(int) (number % SLOTS)];
            if (put.remote == target && put.bytes > put.done) {
                abandon(put, ended);
            }
        }
        Callbacks.runAll(ended);
    }

    /** Cancels all puts: the endpoint has ended. */
    void fail() {
        List<Runnable> ended = new ArrayList<>();
        for (; arrived < added; arrived++) {
            abandon(ring[(int) (arrived % SLOTS)], ended);
        }
        sent = arrived;
        begun = arrived;
        Callbacks.runAll(ended);
    }

    /** Ends a put early; it keeps its slot and its number. */
    private static void abandon(Put put, List<Runnable> ended) {
        Completion completion = put.completion;
        put.source = null;
        put.completion = null;
        put.notify = false;
        put.bytes = put.done;
        if (completion != null) {
            ended.add(() -> completion.onComplete(false));
        }
    }
}
