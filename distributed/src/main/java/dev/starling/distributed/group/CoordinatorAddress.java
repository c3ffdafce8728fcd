package dev.starling.distributed.group;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.GroupConfig;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/** The address of a coordinator as {@link GroupConfig} has it: {@code host:port}, or {@code file:PATH}. */
final class CoordinatorAddress {
    private static final String FILE = "file:";
    private static final long POLL_INTERVAL_MS = 20;

    private CoordinatorAddress() { }

    /** Returns a coordinator's address; waits for the file if {@code coordinator} names one. */
    static String resolve(String coordinator, Duration atMost) {
        if (!coordinator.startsWith(FILE)) {
            return coordinator;
        }
        Path file = Path.of(coordinator.substring(FILE.length()));
        long begin = System.nanoTime();
        while (System.nanoTime() - begin < atMost.toNanos()) {
            try {
                return Files.readString(file).strip();
            } catch (NoSuchFileException e) {
                pause();
            } catch (IOException e) {
                throw new DistributedException("cannot read the coordinator's address in " + file + ": " + e, e);
            }
        }
        throw new DistributedException("waited " + atMost + " for the coordinator's address in " + file
                + "; start the process that publishes it");
    }

    private static void pause() {
        try {
            TimeUnit.MILLISECONDS.sleep(POLL_INTERVAL_MS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new DistributedException("interrupted while waiting for the coordinator's address", e);
        }
    }
}
