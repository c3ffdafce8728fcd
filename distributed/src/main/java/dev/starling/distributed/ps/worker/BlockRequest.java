package dev.starling.distributed.ps.worker;

import dev.starling.distributed.group.Channels;
import dev.starling.distributed.ps.wire.Message;
import dev.starling.distributed.ps.wire.Plan;
import java.util.random.RandomGenerator;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;
import org.jspecify.annotations.Nullable;

/** A worker's requests for one block of a parameter. */
final class BlockRequest extends UnitRequest {
    final Plan.Block block;
    /** The weights received last. */
    private final UnsafeBuffer weights;
    /** State of the rule by slot, if this worker writes it to checkpoints. */
    UnsafeBuffer[] kept = {};
    /** Number of steps that led to {@link #kept}; 0 if the server must not receive it. */
    long keptSteps;
    /** What a pull requests: 0 for weights, from 1 on a slot of the rule's state. */
    int which;
    /** The gradient to push. */
    private final UnsafeBuffer gradient = new UnsafeBuffer(0, 0);
    private double rate;
    /** Sequence number of the next push in this session, and of the next pull. */
    private long pushes;
    private long pulls;

    BlockRequest(ServerLink server, int number, Plan.Block block, UnsafeBuffer weights, RandomGenerator random) {
        super(server, number, random);
        this.block = block;
        this.weights = weights;
    }

    int bytes() {
        return 4 * block.length();
    }

    /** Sets the gradient of the next push from that of the whole parameter; there is none if the address is 0. */
    void setGradient(long address, double newRate) {
        rate = newRate;
        gradient.wrap(address + 4 * block.from(), address == 0 ? 0 : bytes());
    }

    @Override
    boolean hasPushed() {
        return pushes > 0;
    }

    /** Returns the sequence number of the open request. */
    private long sequence() {
        return asked == Message.PULL ? pulls : pushes;
    }

    @Override
    boolean send() {
        if (!isOpen()) {
            return true;
        }
        // Worker 0 provides the initial weights; so does any worker that rejoins a server without weights.
        boolean providesWeights = asked == Message.JOIN && (server.worker == 0 || next != 0);
        for (int k = 0; providesWeights && keptSteps > 0 && k < kept.length; k++) {
            MutableDirectBuffer message = begin(Message.KEPT, kept[k]);
            message.putLong(Channels.HEADER + Message.STEPS, keptSteps, Message.ORDER);
            message.putInt(Channels.HEADER + Message.SLOT, k + 1, Message.ORDER);
            if (!server.send(Channels.HEADER + Message.HEADER + bytes())) {
                return false;
            }
        }
        DirectBuffer payload = asked == Message.PUSH ? gradient : providesWeights ? weights : null;
        MutableDirectBuffer message = begin(asked, payload);
        message.putDouble(Channels.HEADER + Message.RATE, asked == Message.PUSH ? rate : 0, Message.ORDER);
        message.putInt(Channels.HEADER + Message.SLOT, which, Message.ORDER);
        return server.send(Channels.HEADER + Message.HEADER + (payload == null ? 0 : payload.capacity()));
    }

    private MutableDirectBuffer begin(int kind, @Nullable DirectBuffer payload) {
        int bytes = payload == null ? 0 : payload.capacity();
        MutableDirectBuffer message = server.begin(kind, session, sequence(), number, bytes / 4);
        if (bytes > 0) {
            message.putBytes(Channels.HEADER + Message.HEADER, payload, 0, bytes);
        }
        return message;
    }

    @Override
    void onUnknownSession(long done) {
        if (asked != Message.JOIN && done == sequence()) {
            pushes = 0;
            rejoin();
        }
    }

    @Override
    void onReply(long done, DirectBuffer reply, int offset, int length) {
        if (asked != Message.JOIN && done != sequence() || length != bytes()) {
            return;
        }
        UnsafeBuffer target = asked == Message.PULL && which > 0 ? kept[which - 1] : weights;
        target.putBytes(0, reply, offset, length);
        if (next != 0) {
            ask(next);
            next = 0;
        } else {
            pushes += asked == Message.PUSH ? 1 : 0;
            pulls += asked == Message.PULL ? 1 : 0;
            asked = 0;
            which = 0;
            keptSteps = 0;
        }
    }
}
