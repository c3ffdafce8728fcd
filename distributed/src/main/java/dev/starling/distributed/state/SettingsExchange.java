package dev.starling.distributed.state;

import dev.starling.distributed.Collectives;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.encoding.RecordCodec;
import dev.starling.nn.train.RunSettings;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Compares the settings of all ranks: by checksums, and by the whole texts only where checksums differ. */
public final class SettingsExchange {
    /** Bytes of a text that ranks exchange at a time. */
    private static final int MAX_BYTES = 16_000;
    /** Maximum length of the text of one rank. */
    private static final int MAX_TEXT = 16 << 20;
    private static final RecordCodec<RunSettings> CODEC = RecordCodec.of(RunSettings.class);

    /** What ranks compare first. */
    private record Summary(long checksum, int bytes) {
        static final RecordCodec<Summary> CODEC = RecordCodec.of(Summary.class);
    }

    private SettingsExchange() {
    }

    /**
     * Requires that all ranks have the same settings. Collective; waits.
     *
     * @param timeout how long a rank waits, before it throws, until all others have read its settings
     * @throws dev.starling.nn.train.SettingsMismatchException on all ranks, if they differ
     */
    public static void requireSame(Collectives collectives, RunSettings own, Duration timeout) {
        byte[] text = CODEC.encode(own);
        List<Summary> summaries = Summary.CODEC.exchange(collectives, new Summary(own.checksum(), text.length));
        if (summaries.stream().mapToLong(Summary::checksum).distinct().count() == 1) {
            return;
        }
        byte[][] texts = new byte[summaries.size()][];
        int longest = 0;
        for (int rank = 0; rank < texts.length; rank++) {
            int bytes = summaries.get(rank).bytes;
            if (bytes < 0 || bytes > MAX_TEXT) {
                throw new DistributedException("rank " + rank + " announced settings of " + bytes + " bytes; the "
                        + "maximum is " + MAX_TEXT);
            }
            texts[rank] = new byte[bytes];
            longest = Math.max(longest, texts[rank].length);
        }
        for (int from = 0; from < longest; from += MAX_BYTES) {
            byte[][] parts = collectives.exchange(Arrays.copyOfRange(text, Math.min(from, text.length),
                    Math.min(from + MAX_BYTES, text.length)));
            for (int rank = 0; rank < texts.length; rank++) {
                System.arraycopy(parts[rank], 0, texts[rank], Math.min(from, texts[rank].length), parts[rank].length);
            }
        }
        awaitOthers(collectives, timeout);
        List<RunSettings> byRank = new ArrayList<>();
        for (byte[] each : texts) {
            byRank.add(decode(each, byRank.size()));
        }
        RunSettings.requireSame(byRank, "rank");
    }

    /** Lets all ranks learn of the difference before the first one leaves and ends the collectives of the others. */
    private static void awaitOthers(Collectives collectives, Duration timeout) {
        try {
            collectives.barrier().await(timeout);
        } catch (DistributedException alreadyLeft) {
            // This rank has all settings; that another one has left changes nothing.
        }
    }

    private static RunSettings decode(byte[] text, int rank) {
        try {
            return CODEC.decode(text);
        } catch (IOException e) {
            throw new DistributedException("rank " + rank + " sent malformed settings; use the same version of this "
                    + "library on all ranks", e);
        }
    }
}
