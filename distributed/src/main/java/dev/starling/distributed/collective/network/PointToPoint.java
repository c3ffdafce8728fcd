package dev.starling.distributed.collective.network;

import dev.starling.distributed.CollectiveMismatchException;
import dev.starling.distributed.collective.call.EpochMessages;
import dev.starling.distributed.collective.call.Transfer;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.agrona.DirectBuffer;
import org.agrona.collections.IntArrayList;
import org.agrona.collections.LongArrayList;
import org.agrona.concurrent.UnsafeBuffer;
import org.jspecify.annotations.Nullable;

/**
 * Transfers of bytes between two ranks. The receiver first sends a WANT, and the sender sends data only after that, so
 * no data has to be buffered. Transfers with the same tag between the same ranks match in the order of the calls.
 */
public final class PointToPoint {
    private static final int WANT = 1;
    private static final int DATA = 2;
    /** Offsets in a message, after the header of {@link EpochMessages}; the size is that of all data. */
    private static final int TYPE = 0;
    private static final int TAG = 4;
    private static final int SIZE = 8;
    private static final int PAYLOAD = 16;

    private static final int MAX_PAYLOAD = 24 << 10;
    /** How many receives of a rank may wait for sends of this one. */
    static final int MAX_WANTED = 1 << 16;

    private final EpochMessages messages;
    /** By rank; {@code null} for those without a transfer so far. */
    private final @Nullable Peer[] peers;
    private int pending;
    private final UnsafeBuffer out = new UnsafeBuffer(ByteBuffer.allocateDirect(EpochMessages.HEADER + PAYLOAD
            + MAX_PAYLOAD));
    private final MemorySegment outMemory = MemorySegment.ofBuffer(out.byteBuffer());

    /** The transfers to and from one rank, and the receives for which it waits; each list with the oldest first. */
    private static final class Peer {
        final List<Transfer> sends = new ArrayList<>();
        final List<Transfer> receives = new ArrayList<>();
        /** How many of the receives, the oldest, the other rank knows. */
        int announced;
        final IntArrayList wantedTags = new IntArrayList();
        final LongArrayList wantedSizes = new LongArrayList();

        /** Returns the oldest transfer of a tag, or {@code null}. */
        static @Nullable Transfer oldest(List<Transfer> transfers, int tag) {
            for (int i = 0; i < transfers.size(); i++) {
                if (transfers.get(i).tag == tag) {
                    return transfers.get(i);
                }
            }
            return null;
        }
    }

    public PointToPoint(EpochMessages messages) {
        this.messages = messages;
        peers = new Peer[messages.fabric().world()];
    }

    public void start(Transfer transfer) {
        transfer.restart();
        Peer peer = peer(transfer.peer);
        (transfer.sending ? peer.sends : peer.receives).add(transfer);
        pending++;
    }

    private Peer peer(int rank) {
        Peer known = peers[rank];
        if (known == null) {
            known = new Peer();
            peers[rank] = known;
        }
        return known;
    }

    /** Describes what a transfer waits for. A sender knows with which tags the other rank receives. */
    public String describeAwaited(Transfer t) {
        Peer peer = peer(t.peer);
        Transfer oldest = Peer.oldest(t.sending ? peer.sends : peer.receives, t.tag);
        Transfer first = oldest == null ? t : oldest;
        if (first.moved() > 0 || first.sending && first.isAgreed()) {
            return "rank " + t.peer + " makes no progress";
        }
        IntArrayList wanted = peer.wantedTags;
        return "rank " + t.peer + (t.sending ? " does not receive with this tag" : " has sent nothing with this tag")
                + (t.sending && !wanted.isEmpty() ? ", but waits for bytes with the tags " + wanted : "")
                + "; send and receive with the same tag";
    }

    public boolean isBusy() {
        return pending > 0;
    }

    /** Returns whether a transfer to or from a rank is pending. */
    public boolean awaits(int rank) {
        Peer peer = peers[rank];
        return peer != null && !(peer.sends.isEmpty() && peer.receives.isEmpty());
    }

    /** Advances the transfers; returns the amount of work done. */
    public int doWork() {
        int work = 0;
        for (int rank = 0; pending > 0 && rank < peers.length; rank++) {
            Peer peer = peers[rank];
            work += peer == null ? 0 : announce(peer) + push(peer);
        }
        return work;
    }

    /** Sends a WANT for each receive, in order, as far as there is room. */
    private int announce(Peer peer) {
        int work = 0;
        while (peer.announced < peer.receives.size()) {
            Transfer t = peer.receives.get(peer.announced);
            t.agreed(send(t, WANT, 0));
            if (!t.isAgreed()) {
                return work;
            }
            peer.announced++;
            work++;
        }
        return work;
    }

    /** Sends what the other rank wants; of several transfers with a tag the oldest, since a WANT is for one. */
    private int push(Peer peer) {
        int work = 0;
        for (int i = 0; i < peer.sends.size(); i++) {
            Transfer t = peer.sends.get(i);
            if (t.isAgreed() || match(t, peer)) {
                do {
                    int length = (int) Math.min(MAX_PAYLOAD, t.left());
                    if (!send(t, DATA, length)) {
                        return work;
                    }
                    t.advance(length);
                    work++;
                } while (t.left() > 0);
                peer.sends.remove(i--);
                finish(t);
            }
        }
        return work;
    }

    private void finish(Transfer t) {
        pending--;
        t.succeed();
    }

    private boolean match(Transfer t, Peer peer) {
        int want = peer.wantedTags.indexOf(t.tag);
        if (want < 0) {
            return false;
        }
        long size = peer.wantedSizes.getLong(want);
        if (size != t.bytes.byteSize()) {
            int rank = messages.fabric().rank();
            throw new CollectiveMismatchException(rank, t.peer, "rank " + rank + " is " + t + ", but rank " + t.peer
                    + " is receiving " + size + " bytes; pass the same size on both ranks");
        }
        peer.wantedTags.removeAt(want);
        peer.wantedSizes.removeAt(want);
        t.agreed(true);
        return true;
    }

    private boolean send(Transfer t, int type, int length) {
        messages.header(out, EpochMessages.POINT_TO_POINT);
        int at = EpochMessages.HEADER;
        out.putInt(at + TYPE, type, EpochMessages.ORDER);
        out.putInt(at + TAG, t.tag, EpochMessages.ORDER);
        out.putLong(at + SIZE, t.bytes.byteSize(), EpochMessages.ORDER);
        MemorySegment.copy(t.bytes, t.moved(), outMemory, at + PAYLOAD, length);
        return messages.send(t.peer, out, at + PAYLOAD + length);
    }

    public void onMessage(int from, DirectBuffer buffer, int offset, int length) {
        if (length < PAYLOAD) {
            return;
        }
        int tag = buffer.getInt(offset + TAG, EpochMessages.ORDER);
        switch (buffer.getInt(offset + TYPE, EpochMessages.ORDER)) {
            case WANT -> onWant(peer(from), from, tag, buffer.getLong(offset + SIZE, EpochMessages.ORDER));
            case DATA -> onData(peer(from), tag, buffer, offset + PAYLOAD, length - PAYLOAD);
            default -> { }
        }
    }

    private void onWant(Peer peer, int from, int tag, long size) {
        if (peer.wantedTags.size() == MAX_WANTED) {
            int rank = messages.fabric().rank();
            throw new CollectiveMismatchException(rank, from, "rank " + from + " has begun more than " + MAX_WANTED
                    + " receives of what rank " + rank + " has not sent yet; send first, or receive less at a time");
        }
        peer.wantedTags.addInt(tag);
        peer.wantedSizes.addLong(size);
    }

    private void onData(Peer from, int tag, DirectBuffer buffer, int offset, int length) {
        Transfer t = Peer.oldest(from.receives, tag);
        if (t == null || !t.isAgreed() || length > t.left() || length > MAX_PAYLOAD) {
            return;
        }
        buffer.getBytes(offset, out, 0, length);
        MemorySegment.copy(outMemory, 0, t.bytes, t.moved(), length);
        t.advance(length);
        if (t.left() == 0) {
            from.receives.remove(t);
            from.announced--;
            finish(t);
        }
    }

    public void fail(RuntimeException why) {
        for (Peer peer : peers) {
            if (peer != null) {
                peer.sends.forEach(t -> t.fail(why));
                peer.receives.forEach(t -> t.fail(why));
                peer.sends.clear();
                peer.receives.clear();
                peer.announced = 0;
            }
        }
        pending = 0;
    }
}
