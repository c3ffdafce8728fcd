package dev.starling.distributed.ps.server;

import dev.starling.distributed.group.Channels;
import dev.starling.distributed.ps.wire.Message;
import dev.starling.transport.Endpoint;
import java.nio.ByteBuffer;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.ControlledMessageHandler;
import org.agrona.concurrent.UnsafeBuffer;
import org.agrona.concurrent.ringbuffer.OneToOneRingBuffer;
import org.agrona.concurrent.ringbuffer.RingBufferDescriptor;

/**
 * A server's replies on their way from the reply stage to the links. A worker's session holds those for which its link
 * has no room, so that a worker that does not receive delays no other one; each worker's replies stay in order.
 */
final class Replies implements ReplySink {
    private static final int BYTES = 4 << 20;
    private static final int BATCH = 64;

    private final OneToOneRingBuffer ring = new OneToOneRingBuffer(new UnsafeBuffer(
            ByteBuffer.allocateDirect(BYTES + RingBufferDescriptor.TRAILER_LENGTH)));
    private final ControlledMessageHandler sender = this::send;
    private WorkerSession[] workers = {};
    /**
     * Maximum number of replies that a session holds. A worker has at most one open request for a block, and {@link
     * Message#MAX_IN_FLIGHT} for a table, so what its session holds takes little more memory than the server's weights.
     * Only a worker that exceeds this can reach the maximum; replies to all workers then wait for it.
     */
    private int maxHeld;

    @Override
    public boolean offer(int worker, DirectBuffer buffer, int length) {
        int at = ring.tryClaim(worker + 1, Channels.HEADER + length);
        if (at < 0) {
            return false;
        }
        ring.buffer().putInt(at, Message.CHANNEL, Channels.ORDER);
        ring.buffer().putBytes(at + Channels.HEADER, buffer, 0, length);
        ring.commit(at);
        return true;
    }

    /**
     * Sends as much as the links accept. Called under the group's lock.
     *
     * @param to sessions by worker
     * @param units number of the server's units
     */
    void sendTo(WorkerSession[] to, int units) {
        workers = to;
        maxHeld = units * Message.MAX_IN_FLIGHT;
        for (WorkerSession worker : to) {
            worker.sendHeld();
        }
        ring.controlledRead(sender, BATCH);
    }

    private ControlledMessageHandler.Action send(int type, DirectBuffer buffer, int offset, int length) {
        WorkerSession worker = workers[type - 1];
        Endpoint to = worker.endpoint();
        if (to == null || worker.held.isEmpty() && to.send(buffer, offset, length) != Endpoint.BACK_PRESSURED) {
            return ControlledMessageHandler.Action.CONTINUE;
        }
        if (worker.held.size() >= maxHeld) {
            return ControlledMessageHandler.Action.ABORT;
        }
        worker.held.add(buffer, offset, length);
        return ControlledMessageHandler.Action.CONTINUE;
    }
}
