package dev.starling.distributed.collective;

import dev.starling.distributed.CollectiveMismatchException;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.encoding.LossReport;
import dev.starling.distributed.encoding.RecordCodec;
import java.io.IOException;

/** A rank's failure, as it reports it to the other ranks. */
sealed interface Abort {
    RecordCodec<Abort> CODEC = RecordCodec.of(Abort.class);
    int MAX_TEXT = 4000;

    record Mismatch(int rank, int peer, String message) implements Abort { }

    record Loss(LossReport report) implements Abort { }

    record Failure(String message) implements Abort { }

    static byte[] encode(RuntimeException why) {
        String text = String.valueOf(why.getMessage());
        String message = text.substring(0, Math.min(text.length(), MAX_TEXT));
        return CODEC.encode(switch (why) {
            case CollectiveMismatchException e -> new Mismatch(e.detector(), e.rank(), message);
            case PeerLostException e -> new Loss(LossReport.of(e));
            default -> new Failure(message);
        });
    }

    static DistributedException decode(int from, byte[] encoded) {
        try {
            return switch (CODEC.decode(encoded)) {
                case Mismatch m -> new CollectiveMismatchException(m.rank, m.peer, m.message);
                case Loss m -> m.report.reportedBy(from);
                case Failure m -> {
                    String rank = "rank " + from + " failed";
                    yield new DistributedException(from, m.message.startsWith(rank) ? m.message
                            : rank + ": " + m.message, null);
                }
            };
        } catch (IOException e) {
            return new DistributedException(from, "rank " + from + " failed, and sent no valid reason", null);
        }
    }
}
