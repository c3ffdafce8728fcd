package dev.starling.distributed.ps.config;

import dev.starling.tensor.TensorException;
import java.nio.file.Path;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * Configuration of a parameter server's storage and pipeline. Immutable.
 *
 * @param directory holds the snapshot, the journal and the rows of one server; {@code null} keeps the weights in
 *     memory only, where they are lost with the process
 * @param journalBytes journal length in bytes after which the server writes a snapshot
 * @param cacheBytes memory in bytes, per table, for rows that changed since the last snapshot
 * @param ringSize requests in flight, a power of two; 0 starts no threads: the caller's thread processes each request
 *     when it arrives, as in a simulation
 * @param deadline how long the server waits for its own stages before it fails; at most 365 days
 */
public record ServerConfig(@Nullable Path directory, long journalBytes, long cacheBytes, int ringSize,
        Duration deadline) {
    private static final Duration MAX_DEADLINE = Duration.ofDays(365);

    /** Checks that all sizes and the deadline are positive, and that the deadline is not too long. */
    public ServerConfig {
        if (journalBytes < 1 || cacheBytes < 1 || Integer.bitCount(ringSize) > 1 || ringSize < 0
                || !deadline.isPositive() || deadline.compareTo(MAX_DEADLINE) > 0) {
            throw TensorException.argument("parameter server", "journalBytes, cacheBytes and deadline must be "
                    + "positive, deadline at most 365 days, and ringSize 0 or a power of two; got " + journalBytes
                    + ", " + cacheBytes + ", " + deadline + " and " + ringSize, "correct the ServerConfig");
        }
    }

    /** Returns a configuration that keeps all weights in memory; they are lost with the process. */
    public static ServerConfig inMemory() {
        return new ServerConfig(null, 256L << 20, 32L << 20, 128, Duration.ofSeconds(30));
    }

    /** Returns a configuration that stores weights in a directory; acknowledged updates survive the process. */
    public static ServerConfig in(Path directory) {
        return inMemory().directory(directory);
    }

    /** Returns a copy with another directory. */
    public ServerConfig directory(Path newDirectory) {
        return new ServerConfig(newDirectory, journalBytes, cacheBytes, ringSize, deadline);
    }

    /** Returns a copy with another journal length. */
    public ServerConfig journalBytes(long bytes) {
        return new ServerConfig(directory, bytes, cacheBytes, ringSize, deadline);
    }

    /** Returns a copy with another cache size for changed rows. */
    public ServerConfig cacheBytes(long bytes) {
        return new ServerConfig(directory, journalBytes, bytes, ringSize, deadline);
    }

    /** Returns a copy with another number of requests in flight. */
    public ServerConfig ringSize(int requests) {
        return new ServerConfig(directory, journalBytes, cacheBytes, requests, deadline);
    }

    /** Returns a copy with another deadline. */
    public ServerConfig deadline(Duration newDeadline) {
        return new ServerConfig(directory, journalBytes, cacheBytes, ringSize, newDeadline);
    }
}
