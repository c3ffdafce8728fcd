package dev.starling.distributed.ps.worker;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.ps.store.CheckedFile;
import dev.starling.distributed.ps.store.RowRequest;
import dev.starling.distributed.ps.store.RowState;
import dev.starling.nn.checkpoint.Checkpoint;
import dev.starling.nn.checkpoint.CheckpointException;
import dev.starling.nn.checkpoint.Part;
import dev.starling.nn.checkpoint.Parts;
import java.io.IOException;
import java.lang.System.Logger.Level;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.random.RandomGenerator;
import org.jspecify.annotations.Nullable;

/**
 * A job with rows that worker 0 makes all servers do: save them to a checkpoint, or restore them. The training thread
 * waits until all servers have taken their cut, or have read their rows; the thread that writes the checkpoint waits
 * until the servers have written their files.
 */
public final class RowJob implements Parts {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");
    private static final Duration REPEAT = Duration.ofMillis(200);
    private static final String SHARED = "give all servers and worker 0 one directory of checkpoints, on a file system "
            + "that they share, at the same path";
    private static final String BEFORE = "put an intact copy back, or delete the manifest to resume from the previous "
            + "checkpoint";

    private final long id;
    private final Client client;
    private final String name;
    private final String remedy;
    /** By server. */
    private final byte[][] requests;
    private final Path[] files;
    private final byte[] query;
    private final RowState[] states;
    /** Whether all servers have taken their cut: they are then only queried. */
    private volatile boolean started;
    private volatile long progress;
    private long lastChangeNs;
    /** For how long this process was stopped since the last change. */
    private long stoppedNs;
    /** Why the job cannot complete, or {@code null}. */
    private @Nullable String lost;

    private RowJob(Client client, RandomGenerator random, String name, String remedy) {
        this.client = client;
        this.name = name;
        this.remedy = remedy;
        id = random.nextLong() | 1L << 32;
        int servers = client.servers.length;
        requests = new byte[servers][];
        files = new Path[servers];
        states = new RowState[servers];
        Arrays.fill(states, new RowState.Unknown());
        query = request(new RowRequest.Query());
        lastChangeNs = client.nanoTime();
    }

    /**
     * Makes all servers take a cut of their rows and write it; returns when all have taken the cut.
     *
     * @throws CheckpointException if the directory cannot be created
     */
    public static RowJob save(Client client, RandomGenerator random, Path directory, long step) {
        Path shared = directory.toAbsolutePath();
        RowJob job = new RowJob(client, random, "checkpoint of step " + step, SHARED
                + ", with free space and write permission; earlier checkpoints are intact");
        try {
            Files.createDirectories(shared);
        } catch (IOException e) {
            throw new CheckpointException(shared, "cannot be created: " + e, "check permissions", e);
        }
        for (int s = 0; s < job.files.length; s++) {
            Path file = shared.resolve(Part.name(step, (int) job.id, s));
            job.files[s] = file;
            job.requests[s] = job.request(new RowRequest.Save(file, step));
        }
        client.await(job, job::hasBegun, "for servers to take a cut of their rows");
        job.started = true;
        return job;
    }

    /**
     * Makes all servers that have no rows read theirs from a checkpoint; returns when they have.
     *
     * @throws CheckpointException if a part is damaged, missing, unreadable or of another run
     */
    public static void restore(Client client, RandomGenerator random, Checkpoint checkpoint) {
        RowJob job = new RowJob(client, random, "checkpoint " + checkpoint.path(), BEFORE);
        Path directory = Objects.requireNonNull(checkpoint.path().toAbsolutePath().getParent());
        List<RowRequest.Source> parts = new ArrayList<>();
        for (Part part : checkpoint.parts()) {
            parts.add(new RowRequest.Source(directory.resolve(part.file()), part.checksum()));
        }
        Arrays.fill(job.requests, job.request(new RowRequest.Restore(parts)));
        client.await(job, job::isOver, "for servers to read their rows");
        job.throwIfFailed();
        for (int s = 0; s < job.states.length; s++) {
            if (job.states[s] instanceof RowState.Restored(long rows, String missing)) {
                LOG.log(Level.INFO, "server {0} read {1} rows of {2}", s, rows, checkpoint.path());
                if (!missing.isEmpty()) {
                    LOG.log(Level.WARNING, "server {0} starts with new rows of table {1}: {2} has none", s, missing,
                            checkpoint.path());
                }
            }
        }
    }

    private byte[] request(RowRequest.Action action) {
        return RowRequest.CODEC.encode(new RowRequest(id, action));
    }

    /** Returns the message for a server, or {@code null} if the server has finished or failed. */
    synchronized byte @Nullable [] request(int server) {
        return states[server].isOver() ? null : started ? query : requests[server];
    }

    /**
     * Handles a server's report about this job, or an earlier one.
     *
     * @throws IOException if the bytes are not a report
     */
    synchronized void onReport(int server, byte[] encoded) throws IOException {
        RowState.Report report = RowState.Report.CODEC.decode(encoded);
        RowState before = states[server];
        if (report.id() != id || before.isOver()) {
            return;
        }
        RowState now = report.state();
        if (started && now instanceof RowState.Unknown) {
            lost = "server " + server + " was restarted";
        }
        if (!now.equals(before)) {
            lastChangeNs = client.nanoTime();
            stoppedNs = 0;
            progress++;
        }
        states[server] = now;
        notifyAll();
    }

    /**
     * Returns when a server last reported a change, later by the time for which this process was stopped since then.
     *
     * @param passNs when a wait of at most a duration began, which has just ended
     */
    synchronized long idleSinceNs(long passNs, Duration atMost) {
        stoppedNs += client.stoppedNs(lastChangeNs - passNs > 0 ? lastChangeNs : passNs, atMost);
        return lastChangeNs + stoppedNs;
    }

    /** Returns whether all servers have taken their cut or begun to read, or one has failed. */
    synchronized boolean hasBegun() {
        return hasFailed() || Arrays.stream(states).allMatch(RowState::hasBegun);
    }

    /** Returns whether all servers have written or read their rows, or one has failed. */
    synchronized boolean isOver() {
        return hasFailed() || Arrays.stream(states).allMatch(RowState::isOver);
    }

    private boolean hasFailed() {
        return Arrays.stream(states).anyMatch(RowState.Failed.class::isInstance);
    }

    private synchronized void throwIfFailed() {
        for (int s = 0; s < states.length; s++) {
            if (states[s] instanceof RowState.Failed(String file, String problem)) {
                throw new CheckpointException(Path.of(file), problem + " (reported by server " + s + ")", remedy, null);
            }
        }
    }

    // ---- writing ----

    @Override
    public Optional<List<Part>> await() {
        try {
            String reason = awaitServers();
            if (reason != null) {
                LOG.log(Level.WARNING, "the {0} is abandoned and the previous checkpoint remains: {1}", name, reason);
                discard();
                return Optional.empty();
            }
            throwIfFailed();
            return Optional.of(parts());
        } catch (CheckpointException e) {
            discard();
            throw e;
        }
    }

    /** Waits until all servers are done or one has failed; returns why that cannot happen, or {@code null}. */
    public @Nullable String awaitServers() {
        String reason = null;
        while (reason == null && !isOver()) {
            long passNs = client.nanoTime();
            client.ask(this);
            awaitChange();
            long sinceNs = idleSinceNs(passNs, REPEAT);
            reason = isOver() ? null : reasonToAbandon(sinceNs);
        }
        return reason;
    }

    private @Nullable String reasonToAbandon(long sinceNs) {
        synchronized (this) {
            if (lost != null) {
                return lost;
            }
        }
        return client.isOver() ? "the group has ended" : client.isTimedOut(sinceNs)
                ? "no server makes progress with it" : null;
    }

    private synchronized void awaitChange() {
        try {
            wait(REPEAT.toMillis());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            lost = "the thread that waits for servers was interrupted";
        }
    }

    private List<Part> parts() {
        List<Part> parts = new ArrayList<>();
        for (int s = 0; s < files.length; s++) {
            if (!(states[s] instanceof RowState.Saved(String file, long bytes, String checksum))) {
                throw new DistributedException("server " + s + " was asked to save its rows, but reports " + states[s]);
            }
            Part part = new Part(file, bytes, checksum);
            try {
                if (!Files.exists(files[s]) || Files.size(files[s]) != part.bytes()) {
                    throw new CheckpointException(files[s], "was written by server " + s + " but worker 0 does not "
                            + "find it", SHARED, null);
                }
            } catch (IOException e) {
                throw new CheckpointException(files[s], "cannot be read: " + e, SHARED, e);
            }
            parts.add(part);
        }
        return parts;
    }

    /** Deletes the files of an abandoned checkpoint, and the drafts of servers that still write, which stops them. */
    private void discard() {
        for (Path file : files) {
            for (Path each : new Path[] {file, CheckedFile.draft(file)}) {
                try {
                    Files.deleteIfExists(each);
                } catch (IOException secondary) {
                    LOG.log(Level.DEBUG, "cannot delete {0}: {1}", each, secondary);
                }
            }
        }
    }

    @Override
    public long progress() {
        return progress;
    }
}
