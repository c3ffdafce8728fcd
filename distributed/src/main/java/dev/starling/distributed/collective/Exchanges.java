package dev.starling.distributed.collective;

import dev.starling.distributed.collective.call.EpochMessages;
import dev.starling.distributed.collective.call.Exchange;
import dev.starling.distributed.collective.call.StateMachine;

/** Exchanges of bytes between all ranks: each sends its own to all others. */
final class Exchanges implements StateMachine {
    private final EpochMessages messages;
    private final int rank;
    private final int world;
    /** Blobs by rank, of exchanges with even and with odd numbers: a rank is at most one exchange ahead of another. */
    private final byte[][][] received;
    private Exchange present;
    private MessageToAll own;
    /** Number of the present exchange, or of the next if there is none. */
    private long number;

    Exchanges(EpochMessages messages) {
        this.messages = messages;
        rank = messages.fabric().rank();
        world = messages.fabric().world();
        received = new byte[2][world][];
    }

    private byte[][] blobs(long of) {
        return received[(int) (of & 1)];
    }

    void begin(Exchange exchange) {
        present = exchange;
        own = new MessageToAll(messages, EpochMessages.EXCHANGE, number, exchange.own());
        blobs(number)[rank] = exchange.own();
    }

    /** Handles a rank's bytes for an exchange. */
    void onMessage(int from, long of, byte[] blob) {
        if (of == number || of == number + 1) {
            blobs(of)[from] = blob;
        }
    }

    @Override
    public int doWork() {
        int work = own.send();
        // Of a rank that closed before it sent its bytes, these are missing.
        if (own.isSent() && awaited() < 0) {
            present.receive(blobs(number));
            received[(int) (number & 1)] = new byte[world][];
            number++;
            present = null;
            work++;
        }
        return work;
    }

    @Override
    public boolean isDone() {
        return present == null;
    }

    @Override
    public int awaited() {
        for (int r = 0; present != null && r < world; r++) {
            if (blobs(number)[r] == null) {
                return r;
            }
        }
        return -1;
    }
}
