package dev.starling.distributed.collective;

import dev.starling.distributed.collective.call.EpochMessages;
import dev.starling.distributed.collective.call.Exchange;
import dev.starling.distributed.collective.call.StateMachine;
import java.nio.ByteBuffer;
import org.jspecify.annotations.Nullable;

/**
 * Exchanges of bytes between all ranks. In a small group each rank sends its own to all others. In a large one, in
 * which it has connections to some only, ranks pass the bytes of others on in ⌈log₂ world⌉ rounds: in round i to the
 * rank 2^i after it, as in small gathers.
 */
final class Exchanges implements StateMachine {
    /** Maximum payload of a message that contains the bytes of several ranks. */
    private static final int MAX_PAYLOAD = 24 << 10;
    /** Before the bytes of each rank are its number and their length. */
    private static final int ENTRY = 2 * Integer.BYTES;

    private final EpochMessages messages;
    private final int rank;
    private final int world;
    private final boolean mesh;
    /** Blobs by rank, of exchanges with even and with odd numbers: a rank is at most one exchange ahead of another. */
    private final byte[][][] received;
    /** {@code null} between exchanges. */
    private @Nullable Exchange present;
    /** The message with this rank's bytes to all others, in a small group. */
    private @Nullable MessageToAll own;
    /** The distance to the receiver of the present round, and the number of blobs that it has been sent. */
    private int distance;
    private int passed;
    /** Number of the present exchange, or of the next if there is none. */
    private long number;

    Exchanges(EpochMessages messages) {
        this.messages = messages;
        rank = messages.fabric().rank();
        world = messages.fabric().world();
        mesh = messages.fabric().isMesh();
        received = new byte[2][world][];
    }

    private byte[][] blobs(long of) {
        return received[(int) (of & 1)];
    }

    void begin(Exchange exchange) {
        present = exchange;
        own = mesh ? new MessageToAll(messages, EpochMessages.EXCHANGE, number, exchange.own()) : null;
        distance = 1;
        passed = 0;
        blobs(number)[rank] = exchange.own();
    }

    /** Handles a rank's bytes for an exchange. */
    void onMessage(int from, long of, byte[] blob) {
        if (of == number || of == number + 1) {
            blobs(of)[from] = blob;
        }
    }

    /** Handles the bytes of several ranks for an exchange. */
    void onGathered(long of, byte[] entries) {
        ByteBuffer in = ByteBuffer.wrap(entries);
        while ((of == number || of == number + 1) && in.remaining() >= ENTRY) {
            int owner = in.getInt();
            int length = in.getInt();
            if (owner < 0 || owner >= world || length < 0 || length > in.remaining()) {
                return;
            }
            byte[] blob = new byte[length];
            in.get(blob);
            blobs(of)[owner] = blob;
        }
    }

    @Override
    public int doWork() {
        if (present == null) {
            return 0;
        }
        int work = own != null ? own.send() : pass();
        // Of a rank that closed before it sent its bytes, these are missing.
        if (isSent() && awaited() < 0) {
            present.receive(blobs(number));
            received[(int) (number & 1)] = new byte[world][];
            number++;
            present = null;
            work++;
        }
        return work;
    }

    private boolean isSent() {
        return own != null ? own.isSent() : distance >= world;
    }

    /** Passes on what has arrived, as far as links have room; returns the number of messages. */
    private int pass() {
        int work = 0;
        while (distance < world) {
            ByteBuffer out = ByteBuffer.allocate(MAX_PAYLOAD);
            int end = fill(out);
            if (end == passed || !sendTo((rank + distance) % world, out)) {
                return work;
            }
            work++;
            passed = end;
            if (passed == Math.min(distance, world - distance)) {
                distance *= 2;
                passed = 0;
            }
        }
        return work;
    }

    /** Writes the blobs that follow next, as many as have arrived and fit; returns where they end. */
    private int fill(ByteBuffer out) {
        int end = passed;
        while (end < Math.min(distance, world - distance)) {
            int owner = Math.floorMod(rank - end, world);
            byte[] blob = blobs(number)[owner];
            if (blob == null || blob.length + ENTRY > out.remaining()) {
                return end;
            }
            out.putInt(owner).putInt(blob.length).put(blob);
            end++;
        }
        return end;
    }

    private boolean sendTo(int to, ByteBuffer entries) {
        byte[] body = new byte[entries.position()];
        entries.get(0, body);
        var message = messages.of(EpochMessages.GATHERED, number, body);
        return messages.send(to, message, message.capacity());
    }

    @Override
    public boolean isDone() {
        return present == null;
    }

    @Override
    public int awaited() {
        for (int back = 1; present != null && back < world; back++) {
            int owner = mesh ? back <= rank ? back - 1 : back : Math.floorMod(rank - back, world);
            if (blobs(number)[owner] == null) {
                return mesh ? owner : Math.floorMod(rank - Integer.highestOneBit(back), world);
            }
        }
        return present == null || mesh || isSent() ? -1 : (rank + distance) % world;
    }
}
