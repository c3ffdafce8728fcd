package dev.starling.distributed.ps.worker;

import dev.starling.distributed.ps.store.CheckedFile;
import dev.starling.distributed.ps.store.RowTask;
import dev.starling.nn.checkpoint.Checkpoint;
import dev.starling.nn.checkpoint.CheckpointException;
import dev.starling.nn.checkpoint.Part;
import dev.starling.nn.checkpoint.Parts;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.lang.System.Logger.Level;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.random.RandomGenerator;

/**
 * A job with rows that worker 0 makes all servers do: save them to a checkpoint, or restore them. The training thread
 * waits until all servers have taken their cut, or have read their rows; the thread that writes the checkpoint waits
 * until the servers have written their files.
 */
public final class RowJob implements Parts {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");
    private static final long REPEAT_MS = 200;
    private static final String SHARED = "give all servers and worker 0 one directory of checkpoints, on a file system "
            + "that they share, at the same path";
    private static final String BEFORE = "put an intact copy back, or delete the manifest to resume from the previous "
            + "checkpoint";

    final long id;
    private final Client client;
    private final String name;
    private final String remedy;
    /** By server. */
    private final byte[][] requests;
    private final Path[] files;
    private final byte[] query;
    private final int[] states;
    private final long[] counts;
    private final String[] texts;
    /** Whether all servers have taken their cut: they are then only queried. */
    private volatile boolean started;
    private volatile long progress;
    private volatile long lastChangeNs;
    /** Why the job cannot complete, or {@code null}. */
    private String lost;

    private RowJob(Client client, RandomGenerator random, String name, String remedy) {
        this.client = client;
        this.name = name;
        this.remedy = remedy;
        id = random.nextLong() | 1L << 32;
        int servers = client.servers.length;
        requests = new byte[servers][];
        files = new Path[servers];
        states = new int[servers];
        counts = new long[servers];
        texts = new String[servers];
        Arrays.fill(texts, "");
        query = request(RowTask.QUERY, out -> { });
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
            job.requests[s] = job.request(RowTask.SAVE, out -> {
                out.writeUTF(file.toString());
                out.writeLong(step);
            });
        }
        client.await(job, RowTask.RUNNING, "for servers to take a cut of their rows");
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
        Path directory = checkpoint.path().toAbsolutePath().getParent();
        byte[] request = job.request(RowTask.RESTORE, out -> {
            out.writeInt(checkpoint.parts().size());
            for (Part part : checkpoint.parts()) {
                out.writeUTF(directory.resolve(part.file()).toString());
                out.writeUTF(part.checksum());
            }
        });
        Arrays.fill(job.requests, request);
        client.await(job, RowTask.DONE, "for servers to read their rows");
        job.throwIfFailed();
        for (int s = 0; s < job.texts.length; s++) {
            String[] lines = job.texts[s].split("\n", -1);
            LOG.log(Level.INFO, "server {0} read {1} rows of {2}", s, lines[0], checkpoint.path());
            if (!lines[1].isEmpty()) {
                LOG.log(Level.WARNING, "server {0} starts with new rows of table {1}: {2} has none", s, lines[1],
                        checkpoint.path());
            }
        }
    }

    private interface Content {
        void writeTo(DataOutputStream out) throws IOException;
    }

    private byte[] request(int what, Content content) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (DataOutputStream out = new DataOutputStream(bytes)) {
            out.writeLong(id);
            out.writeInt(what);
            content.writeTo(out);
        } catch (IOException e) {
            throw new AssertionError("writing to a byte array cannot fail", e);
        }
        return bytes.toByteArray();
    }

    /** Returns the message for a server, or {@code null} if the server has finished or failed. */
    synchronized byte[] request(int server) {
        return states[server] >= RowTask.DONE ? null : started ? query : requests[server];
    }

    /** Handles a server's report: the state of its {@link RowTask}, the rows processed, and the result or error. */
    synchronized void onState(int server, int state, long count, String text) {
        if (states[server] >= RowTask.DONE) {
            return;
        }
        if (state == RowTask.UNKNOWN && started) {
            lost = "server " + server + " was restarted";
        }
        if (state != states[server] || count != counts[server]) {
            lastChangeNs = client.nanoTime();
        }
        progress += Math.max(0, count - counts[server]);
        states[server] = state;
        counts[server] = count;
        texts[server] = text;
        notifyAll();
    }

    /** Returns when a server last reported a change. */
    long lastChangeNs() {
        return lastChangeNs;
    }

    /** Returns whether all servers have reached a state, or one has failed. */
    synchronized boolean hasReached(int state) {
        boolean all = true;
        for (int each : states) {
            if (each == RowTask.FAILED) {
                return true;
            }
            all &= each >= state;
        }
        return all;
    }

    private synchronized void throwIfFailed() {
        for (int s = 0; s < states.length; s++) {
            if (states[s] == RowTask.FAILED) {
                String[] lines = texts[s].split("\n", 2);
                throw new CheckpointException(Path.of(lines[0]), lines[1] + " (reported by server " + s + ")", remedy,
                        null);
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
    public String awaitServers() {
        String reason = null;
        while (reason == null && !hasReached(RowTask.DONE)) {
            client.ask(this);
            awaitChange();
            reason = hasReached(RowTask.DONE) ? null : reasonToAbandon();
        }
        return reason;
    }

    private String reasonToAbandon() {
        synchronized (this) {
            if (lost != null) {
                return lost;
            }
        }
        return client.isOver() ? "the group has ended" : client.isTimedOut(lastChangeNs)
                ? "no server makes progress with it" : null;
    }

    private synchronized void awaitChange() {
        try {
            wait(REPEAT_MS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            lost = "the thread that waits for servers was interrupted";
        }
    }

    private List<Part> parts() {
        List<Part> parts = new ArrayList<>();
        for (int s = 0; s < files.length; s++) {
            String[] lines = texts[s].split("\n");
            Part part = new Part(lines[0], Long.parseLong(lines[1]), lines[2]);
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
