package dev.starling.distributed.state;

import dev.starling.distributed.Collectives;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.encoding.RecordCodec;
import dev.starling.nn.train.RunSettings;
import java.time.Duration;
import java.util.List;

/** Compares the settings of all ranks: by checksums, and by the whole texts only where checksums differ. */
public final class SettingsExchange {
    private static final RecordCodec<RunSettings> CODEC = RecordCodec.of(RunSettings.class);
    private static final RecordCodec<Long> CHECKSUM = RecordCodec.of(Long.class);

    private SettingsExchange() {
    }

    /**
     * Requires that all ranks have the same settings. Collective; waits.
     *
     * @param timeout how long a rank waits, before it throws, until all others have read its settings
     * @throws dev.starling.nn.train.SettingsMismatchException on all ranks, if they differ
     */
    public static void requireSame(Collectives collectives, RunSettings own, Duration timeout) {
        if (CHECKSUM.exchange(collectives, own.checksum()).stream().distinct().count() == 1) {
            return;
        }
        List<RunSettings> byRank = CODEC.exchange(collectives, own);
        awaitOthers(collectives, timeout);
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
}
