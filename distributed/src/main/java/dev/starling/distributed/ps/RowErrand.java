package dev.starling.distributed.ps;

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
 * A task with rows that worker 0 has all servers do. The training thread waits until all have begun, or read all; for
 * files to be written waits the thread that writes the checkpoint.
 */
final class RowErrand implements Parts {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");
    private static final long TURN_MS = 200;
    private static final String SHARED = "give all servers and worker 0 one directory of checkpoints, on a file system "
            + "that they share, at the same path";
    private static final String BEFORE = "put an intact copy back, or delete the manifest to go on from the checkpoint "
            + "before it";

    final long id;
    private final Client client;
    private final String name;
    private final String remedy;
    /** By server. */
    private final byte[][] wishes;
    private final Path[] files;
    private final byte[] asking;
    private final int[] states;
    private final long[] counts;
    private final String[] texts;
    private volatile boolean isBegun;
    private volatile long progress;
    private volatile long heardNs;
    private String lost;

    private RowErrand(Client client, RandomGenerator random, String name, String remedy) {
        this.client = client;
        this.name = name;
        this.remedy = remedy;
        id = random.nextLong() | 1L << 32;
        int servers = client.servers.length;
        wishes = new byte[servers][];
        files = new Path[servers];
        states = new int[servers];
        counts = new long[servers];
        texts = new String[servers];
        Arrays.fill(texts, "");
        asking = wish(RowTask.ASK, out -> { });
        heardNs = client.nanoTime();
    }

    /**
     * Has all servers take a cut of their rows and write it; returns when they have taken it.
     *
     * @throws CheckpointException if the directory cannot be made
     */
    static RowErrand save(Client client, RandomGenerator random, Path directory, long step) {
        Path shared = directory.toAbsolutePath();
        RowErrand errand = new RowErrand(client, random, "checkpoint of step " + step, SHARED
                + ", with room and permission to write; what was saved before is intact");
        try {
            Files.createDirectories(shared);
        } catch (IOException e) {
            throw new CheckpointException(shared, "cannot be made: " + e, "check permissions", e);
        }
        for (int s = 0; s < errand.files.length; s++) {
            Path file = shared.resolve(Part.name(step, (int) errand.id, s));
            errand.files[s] = file;
            errand.wishes[s] = errand.wish(RowTask.SAVE, out -> {
                out.writeUTF(file.toString());
                out.writeLong(step);
            });
        }
        client.pursue(errand, RowTask.UNDER_WAY, "for servers to take a cut of their rows");
        errand.isBegun = true;
        return errand;
    }

    /**
     * Has all servers that have no rows read theirs.
     *
     * @throws CheckpointException if a part is damaged, missing, of another run or not to be read
     */
    static void restore(Client client, RandomGenerator random, Checkpoint checkpoint) {
        RowErrand errand = new RowErrand(client, random, "checkpoint " + checkpoint.path(), BEFORE);
        Path directory = checkpoint.path().toAbsolutePath().getParent();
        byte[] wish = errand.wish(RowTask.RESTORE, out -> {
            out.writeInt(checkpoint.parts().size());
            for (Part part : checkpoint.parts()) {
                out.writeUTF(directory.resolve(part.file()).toString());
                out.writeUTF(part.checksum());
            }
        });
        Arrays.fill(errand.wishes, wish);
        client.pursue(errand, RowTask.DONE, "for servers to read their rows");
        errand.throwIfFailed();
        for (int s = 0; s < errand.texts.length; s++) {
            String[] told = errand.texts[s].split("\n", -1);
            LOG.log(Level.INFO, "server {0} has read {1} rows of {2}", s, told[0], checkpoint.path());
            if (!told[1].isEmpty()) {
                LOG.log(Level.WARNING, "server {0} begins with new rows of {1}: {2} has none", s, told[1],
                        checkpoint.path());
            }
        }
    }

    private interface Content {
        void writeTo(DataOutputStream out) throws IOException;
    }

    private byte[] wish(int what, Content content) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (DataOutputStream out = new DataOutputStream(bytes)) {
            out.writeLong(id);
            out.writeInt(what);
            content.writeTo(out);
        } catch (IOException e) {
            throw new AssertionError("a byte array takes everything", e);
        }
        return bytes.toByteArray();
    }

    /** Returns what to tell a server, or {@code null} if there is nothing to ask. */
    synchronized byte[] wish(int server) {
        return states[server] >= RowTask.DONE ? null : isBegun ? asking : wishes[server];
    }

    /** Takes what a server tells. */
    synchronized void hear(int server, int state, long count, String text) {
        if (states[server] >= RowTask.DONE) {
            return;
        }
        if (state == RowTask.UNKNOWN && isBegun) {
            lost = "server " + server + " was begun anew";
        }
        if (state != states[server] || count != counts[server]) {
            heardNs = client.nanoTime();
        }
        progress += Math.max(0, count - counts[server]);
        states[server] = state;
        counts[server] = count;
        texts[server] = text;
        notifyAll();
    }

    long heardNs() {
        return heardNs;
    }

    /** Tells whether all servers are so far, or one has failed. */
    synchronized boolean isAt(int state) {
        boolean isAll = true;
        for (int each : states) {
            if (each == RowTask.FAILED) {
                return true;
            }
            isAll &= each >= state;
        }
        return isAll;
    }

    private synchronized void throwIfFailed() {
        for (int s = 0; s < states.length; s++) {
            if (states[s] == RowTask.FAILED) {
                String[] told = texts[s].split("\n", 2);
                throw new CheckpointException(Path.of(told[0]), told[1] + " (told by server " + s + ")", remedy, null);
            }
        }
    }

    // ---- writing ----

    @Override
    public Optional<List<Part>> await() {
        try {
            String reason = awaitServers();
            if (reason != null) {
                LOG.log(Level.WARNING, "the {0} is given up, the one before stays: {1}", name, reason);
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

    /** Waits until all servers are done or one has failed; returns why there is no hope of that, or {@code null}. */
    String awaitServers() {
        String reason = null;
        while (reason == null && !isAt(RowTask.DONE)) {
            client.ask(this);
            turn();
            reason = isAt(RowTask.DONE) ? null : reasonToGiveUp();
        }
        return reason;
    }

    private String reasonToGiveUp() {
        synchronized (this) {
            if (lost != null) {
                return lost;
            }
        }
        return client.isOver() ? "the group has ended" : client.isLate(heardNs) ? "no server goes on with it" : null;
    }

    private synchronized void turn() {
        try {
            wait(TURN_MS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            lost = "the thread that waits for servers was interrupted";
        }
    }

    private List<Part> parts() {
        List<Part> parts = new ArrayList<>();
        for (int s = 0; s < files.length; s++) {
            String[] told = texts[s].split("\n");
            Part part = new Part(told[0], Long.parseLong(told[1]), told[2]);
            try {
                if (!Files.exists(files[s]) || Files.size(files[s]) != part.bytes()) {
                    throw new CheckpointException(files[s], "was written by server " + s + " but is not there", SHARED,
                            null);
                }
            } catch (IOException e) {
                throw new CheckpointException(files[s], "cannot be read: " + e, SHARED, e);
            }
            parts.add(part);
        }
        return parts;
    }

    /** Deletes what servers have written for nothing; the drafts of those that still write, too, which ends that. */
    private void discard() {
        for (Path file : files) {
            for (Path each : new Path[] {file, CheckedFile.draft(file)}) {
                try {
                    Files.deleteIfExists(each);
                } catch (IOException secondary) {
                    LOG.log(Level.DEBUG, "{0} stays: {1}", each, secondary);
                }
            }
        }
    }

    @Override
    public long progress() {
        return progress;
    }
}
