package dev.starling.distributed.collective;

import dev.starling.distributed.CollectiveMismatchException;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.PeerLostException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;

/** Why a rank gave up, as it is told to the others: kind i8, rank i32, peer i32, nanoseconds i64, text. */
final class Abort {
    private static final byte OTHER = 0;
    private static final byte MISMATCH = 1;
    private static final byte LOSS = 2;
    private static final int HEAD = 17;
    private static final int LONGEST = 4000;

    private Abort() { }

    static byte[] encode(RuntimeException why) {
        byte[] text = String.valueOf(why.getMessage()).getBytes(StandardCharsets.UTF_8);
        ByteBuffer said = ByteBuffer.allocate(HEAD + Math.min(text.length, LONGEST));
        switch (why) {
            case CollectiveMismatchException e -> said.put(MISMATCH).putInt(e.rank()).putInt(e.peer()).putLong(0);
            case PeerLostException e -> said.put(LOSS).putInt(e.rank()).putInt(0).putLong(e.unheard().toNanos());
            default -> said.put(OTHER).putInt(0).putInt(0).putLong(0);
        }
        return said.put(text, 0, said.remaining()).array();
    }

    static DistributedException decode(int from, byte[] said) {
        try {
            ByteBuffer in = ByteBuffer.wrap(said);
            byte kind = in.get();
            int rank = in.getInt();
            int peer = in.getInt();
            long nanos = in.getLong();
            String text = new String(Arrays.copyOfRange(said, HEAD, said.length), StandardCharsets.UTF_8);
            return switch (kind) {
                case MISMATCH -> new CollectiveMismatchException(rank, peer, text);
                case LOSS -> new PeerLostException(rank, Duration.ofNanos(nanos), from, text);
                default -> new DistributedException("rank " + from + " gave up: " + text);
            };
        } catch (BufferUnderflowException e) {
            return new DistributedException("rank " + from + " gave up");
        }
    }
}
