package dev.starling.nn.checkpoint;

import dev.starling.nn.Parameter;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Saves checkpoints while training goes on: copies the state at once, in host memory that it keeps for the next time,
 * and writes the copy on a thread of its own. One write at a time; who saves again before it is done waits. Used by one
 * thread.
 */
public final class CheckpointWriter implements AutoCloseable {
    /** How long a write may take that somebody waits for, since others were last seen to write parts of it. */
    private static final Duration PATIENCE = Duration.ofMinutes(10);

    private final Path directory;
    private final int keep;
    private final Map<String, Parameter> copies = new LinkedHashMap<>();
    private FutureTask<Optional<Path>> writing;
    private Parts parts = Parts.NONE;

    /**
     * Makes a writer.
     *
     * @param directory is made if absent
     * @param keep how many checkpoints stay, the latest
     */
    public CheckpointWriter(Path directory, int keep) {
        this.directory = directory;
        this.keep = keep;
    }

    /**
     * Begins to save a state, which may change as soon as this returns. The write before must have been asked for with
     * {@link #await}.
     *
     * @param tensors the same names and shapes every time
     */
    public void save(long step, Map<String, Parameter> tensors, Map<String, String> notes) {
        save(step, tensors, notes, Parts.NONE);
    }

    /**
     * Begins to save a state of which other processes write parts.
     *
     * @param tensors the same names and shapes every time; may change as soon as this returns
     * @param others are waited for by the thread that writes
     */
    public void save(long step, Map<String, Parameter> tensors, Map<String, String> notes, Parts others) {
        if (writing != null) {
            throw new CheckpointException(directory, "a write is under way", "call await() first", null);
        }
        try (Scope scope = Scope.open("snapshot")) {
            tensors.forEach((name, p) -> {
                Parameter copy = copies.get(name);
                if (copy == null || copy.value().dtype() != p.value().dtype()) {
                    Parameter before = copies.put(name, Parameter.buffer(p.value().to(Device.cpu())));
                    if (before != null) {
                        before.close();
                    }
                } else {
                    copy.set(p.value());
                }
            });
        }
        Map<String, String> texts = Map.copyOf(notes);
        parts = others;
        writing = new FutureTask<>(() -> {
            Optional<Path> manifest = Checkpoint.save(directory, step, copies, texts, others);
            Checkpoint.prune(directory, keep);
            return manifest;
        });
        Thread.ofPlatform().daemon().name("starling-checkpoint").start(writing);
    }

    /** Tells whether {@link #await} would return a manifest, or throw, at once. */
    public boolean isDone() {
        return writing != null && writing.isDone();
    }

    /**
     * Waits for the write under way.
     *
     * @return the manifest, or {@code null} if nothing was being written or its parts were given up
     * @throws CheckpointException if it failed or does not end
     */
    public Path await() {
        if (writing == null) {
            return null;
        }
        try {
            Optional<Path> manifest = patiently(writing);
            writing = null;
            return manifest.orElse(null);
        } catch (ExecutionException e) {
            writing = null;
            switch (e.getCause()) {
                case RuntimeException failure -> throw failure;
                case Error failure -> throw failure;
                default -> throw new CheckpointException(directory, "was not written: " + e.getCause(),
                        "look at the cause", e.getCause());
            }
        } catch (TimeoutException e) {
            throw new CheckpointException(directory, "was not written in " + PATIENCE, "look at the disk", e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new CheckpointException(directory, "was being written when this thread was interrupted",
                    "what was saved before is intact", e);
        }
    }

    private Optional<Path> patiently(FutureTask<Optional<Path>> awaited) throws ExecutionException, TimeoutException,
            InterruptedException {
        while (true) {
            long before = parts.progress();
            try {
                return awaited.get(PATIENCE.toNanos(), TimeUnit.NANOSECONDS);
            } catch (TimeoutException e) {
                if (parts.progress() == before) {
                    throw e;
                }
            }
        }
    }

    /** Waits for the write under way, whatever comes of it, and gives the copy's memory back. */
    @Override
    public void close() {
        try {
            await();
        } catch (CheckpointException secondary) {
            // Who wants to know has called await().
            writing = null;
        }
        copies.values().forEach(Parameter::close);
        copies.clear();
    }
}
