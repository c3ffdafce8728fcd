package dev.starling.distributed.ps;

import dev.starling.tensor.TensorException;
import java.nio.file.Path;
import java.time.Duration;

/**
 * How a parameter server keeps what it holds.
 *
 * @param directory where it keeps snapshot, journal and rows, each server its own; or {@code null} to keep weights in
 *     memory alone, lost with the process
 * @param journalBytes after how much journal a snapshot is made
 * @param cacheBytes of memory for rows of each table that changed since the last snapshot
 * @param ringSize requests in flight, a power of two; 0 for no threads: each request is done when it comes, as in a
 *     simulation
 * @param deadline for each wait
 */
public record ServerConfig(Path directory, long journalBytes, long cacheBytes, int ringSize, Duration deadline) {
    /** Checks. */
    public ServerConfig {
        if (journalBytes < 1 || cacheBytes < 1 || Integer.bitCount(ringSize) > 1 || ringSize < 0
                || !deadline.isPositive()) {
            throw TensorException.argument("parameter server", "bytes of journal and cache and the deadline must be "
                    + "positive, the size of the ring 0 or a power of two; got " + journalBytes + ", " + cacheBytes
                    + ", " + deadline + " and " + ringSize, "change them");
        }
    }

    /** Keeps everything in memory: what the server holds is lost with its process. */
    public static ServerConfig inMemory() {
        return new ServerConfig(null, 256L << 20, 32L << 20, 128, Duration.ofSeconds(30));
    }

    /** Keeps everything in a directory: an update that was acknowledged outlives the process. */
    public static ServerConfig in(Path directory) {
        return inMemory().directory(directory);
    }

    /** Returns this with another directory. */
    public ServerConfig directory(Path newDirectory) {
        return new ServerConfig(newDirectory, journalBytes, cacheBytes, ringSize, deadline);
    }

    /** Returns this with another length of the journal. */
    public ServerConfig journalBytes(long bytes) {
        return new ServerConfig(directory, bytes, cacheBytes, ringSize, deadline);
    }

    /** Returns this with another size of the cache of changed rows. */
    public ServerConfig cacheBytes(long bytes) {
        return new ServerConfig(directory, journalBytes, bytes, ringSize, deadline);
    }

    /** Returns this with another number of requests in flight. */
    public ServerConfig ringSize(int requests) {
        return new ServerConfig(directory, journalBytes, cacheBytes, requests, deadline);
    }

    /** Returns this with another deadline. */
    public ServerConfig deadline(Duration newDeadline) {
        return new ServerConfig(directory, journalBytes, cacheBytes, ringSize, newDeadline);
    }
}
