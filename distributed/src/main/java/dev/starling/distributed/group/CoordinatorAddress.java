package dev.starling.distributed.group;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.GroupConfig;
import dev.starling.errors.Durations;
import dev.starling.errors.PlainFile;
import java.io.IOException;
import java.lang.System.Logger.Level;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/** The address of a coordinator as {@link GroupConfig} has it: {@code host:port}, or {@code file:PATH}. */
public final class CoordinatorAddress {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");
    private static final String FILE = "file:";
    private static final long POLL_INTERVAL_MS = 20;

    private CoordinatorAddress() { }

    /** Writes a coordinator's address to a file, for processes that join by {@code file:PATH}. */
    public static void write(Path file, String address) {
        try {
            Path target = PlainFile.target(file);
            Path draft = PlainFile.draft(target);
            try {
                Files.writeString(draft, address);
                PlainFile.rename(draft, target);
            } finally {
                Files.deleteIfExists(draft);
            }
        } catch (IOException e) {
            throw new DistributedException("cannot write the coordinator's address to " + file + ": " + e, e);
        }
    }

    /** Writes the address of another coordinator to the file, if {@code coordinator} names one. */
    static void publish(String coordinator, String address) {
        if (coordinator.startsWith(FILE)) {
            try {
                write(Path.of(coordinator.substring(FILE.length())), address);
            } catch (DistributedException e) {
                LOG.log(Level.WARNING, e.getMessage(), e);
            }
        }
    }

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
        throw new DistributedException("waited " + Durations.text(atMost) + " for the coordinator's address in " + file
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
