package dev.starling.distributed.collective;

import dev.starling.distributed.CollectiveMismatchException;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.PeerLostException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;

/** Encoding of a rank's failure for the other ranks: kind i8, rank i32, peer i32, nanoseconds i64, text. */
final class Abort {
    private static final byte OTHER = 0;
    private static final byte MISMATCH = 1;
    private static final byte LOSS = 2;
    private static final int HEAD = 17;
    private static final int MAX_TEXT_BYTES = 4000;

    private Abort() { }

    static byte[] encode(RuntimeException why) {
        byte[] text = String.valueOf(why.getMessage()).getBytes(StandardCharsets.UTF_8);
        ByteBuffer encoded = ByteBuffer.allocate(HEAD + Math.min(text.length, MAX_TEXT_BYTES));
        switch (why) {
            case CollectiveMismatchException e -> encoded.put(MISMATCH).putInt(e.rank()).putInt(e.peer()).putLong(0);
            case PeerLostException e -> encoded.put(LOSS).putInt(e.rank()).putInt(0).putLong(e.silentFor().toNanos());
            default -> encoded.put(OTHER).putInt(0).putInt(0).putLong(0);
        }
        return encoded.put(text, 0, encoded.remaining()).array();
    }

    static DistributedException decode(int from, byte[] encoded) {
        try {
            ByteBuffer in = ByteBuffer.wrap(encoded);
            byte kind = in.get();
            int rank = in.getInt();
            int peer = in.getInt();
            long nanos = in.getLong();
            String text = new String(Arrays.copyOfRange(encoded, HEAD, encoded.length), StandardCharsets.UTF_8);
            return switch (kind) {
                case MISMATCH -> new CollectiveMismatchException(rank, peer, text);
                case LOSS -> new PeerLostException(rank, Duration.ofNanos(nanos), from, text);
                default -> new DistributedException("rank " + from + " failed: " + text);
            };
        } catch (BufferUnderflowException e) {
            return new DistributedException("rank " + from + " failed, and sent no valid reason");
        }
    }
}
