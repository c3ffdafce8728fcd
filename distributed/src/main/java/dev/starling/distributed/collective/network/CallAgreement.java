package dev.starling.distributed.collective.network;

import dev.starling.distributed.CollectiveMismatchException;
import dev.starling.distributed.collective.call.CollectiveCall.Kind;
import dev.starling.distributed.collective.call.CollectiveCall;
import dev.starling.distributed.collective.call.EpochMessages;
import dev.starling.transport.Endpoint;
import java.nio.ByteBuffer;
import org.agrona.concurrent.UnsafeBuffer;
import org.jspecify.annotations.Nullable;

/**
 * The present collective, and what neighbours send each other about it.
 *
 * <p><b>How mismatches are detected.</b> In each collective every rank sends its call to its successor, and finishes
 * only when its predecessor has sent the same call. If ranks disagree, two of them are neighbours. A collective
 * finishes on any rank only after all ranks have begun it, so no rank is more than one collective ahead of another.
 *
 * <p>A rank that would overwrite elements of its successor first waits for the successor's READY.
 */
final class CallAgreement {
    private final EpochMessages messages;
    private final int rank;
    private final int successor;
    private final int predecessor;
    private final PeerCalls calls = new PeerCalls();
    private final PeerCalls readies = new PeerCalls();
    private final UnsafeBuffer out = new UnsafeBuffer(ByteBuffer.allocateDirect(
            EpochMessages.HEADER + NetworkMessage.MAX_BYTES + SmallGather.MAX_PAYLOAD));

    /** Set by {@link #begin}. */
    @SuppressWarnings("NullAway.Init")
    private CollectiveCall call;
    private long sequence;
    /** Whether the successor has been sent the call. */
    private boolean callSent;
    /** Whether the predecessor has sent the same call. */
    private boolean agreed;
    /** Whether the successor's elements may be overwritten. */
    private boolean ready;
    private boolean readySent;

    CallAgreement(EpochMessages messages) {
        this.messages = messages;
        rank = messages.fabric().rank();
        int world = messages.fabric().world();
        successor = (rank + 1) % world;
        predecessor = Math.floorMod(rank - 1, world);
    }

    /**
     * Begins a collective.
     *
     * @param inBlocks whether the call travels with the first blocks, which overwrite no elements
     */
    void begin(CollectiveCall newCall, boolean inBlocks) {
        call = newCall;
        sequence++;
        agreed = false;
        callSent = inBlocks;
        ready = inBlocks || call.kind() == Kind.ALL_REDUCE || call.kind() == Kind.REDUCE_SCATTER;
        readySent = ready || call.kind() == Kind.BROADCAST && rank == call.root();
    }

    /** Returns the number of the present collective. */
    long sequence() {
        return sequence;
    }

    /** Returns the connection to the successor, or {@code null}. */
    @Nullable Endpoint successor() {
        return messages.fabric().endpoint(successor);
    }

    int predecessor() {
        return predecessor;
    }

    /**
     * Sends and checks calls; returns the amount of work done.
     *
     * @throws CollectiveMismatchException if a neighbour called a different collective
     */
    int doWork() {
        int work = 0;
        if (!agreed) {
            agreed = hasSameCall(calls, predecessor);
        }
        if (!callSent) {
            callSent = send(successor, write(NetworkMessage.CALL, 0, true));
            work += callSent ? 1 : 0;
        }
        if (!ready) {
            ready = hasSameCall(readies, successor);
        }
        if (!readySent && (ready || call.kind() == Kind.ALL_GATHER || successor == call.root())) {
            readySent = send(predecessor, write(NetworkMessage.READY, 0, true));
            work += readySent ? 1 : 0;
        }
        return work;
    }

    /** Returns whether the predecessor has sent the same call, even if {@link #doWork} has not noticed yet. */
    boolean agrees() {
        return agreed || calls.has(sequence) && calls.hash(sequence) == call.hash();
    }

    private boolean hasSameCall(PeerCalls from, int peer) {
        if (!from.has(sequence)) {
            return false;
        }
        if (from.hash(sequence) != call.hash()) {
            throw new CollectiveMismatchException(sequence, rank, call.toString(), peer, from.text(sequence));
        }
        return true;
    }

    /** Returns whether the predecessor has sent the same call. */
    boolean isAgreed() {
        return agreed;
    }

    /** Returns whether the successor's elements may be overwritten. */
    boolean isReady() {
        return ready;
    }

    /** Returns whether this rank has sent and received all that neighbours need. */
    boolean isDone() {
        return agreed && callSent && readySent;
    }

    void onMessage(NetworkMessage message) {
        (message.type() == NetworkMessage.READY ? readies : calls).store(message);
    }

    // ---- messages of the present collective ----

    /** Writes a message into {@link #out}; returns the offset of its payload. */
    int write(int type, long number, boolean withText) {
        messages.header(out, EpochMessages.NETWORK);
        return NetworkMessage.write(out, EpochMessages.HEADER, type, sequence, call, number, withText);
    }

    /** Returns the buffer for a message to be sent. */
    UnsafeBuffer out() {
        return out;
    }

    /** Sends the first bytes of {@link #out}; returns whether the link had room for them. */
    boolean send(int to, int length) {
        return messages.send(to, out, length);
    }
}
