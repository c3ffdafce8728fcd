package dev.starling.cuda.kernels;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.GpuException;
import dev.starling.cuda.gpu.Submissions;
import dev.starling.tensor.spi.Recording;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.function.IntConsumer;
import org.jspecify.annotations.Nullable;

/**
 * Parts of a program as one CUDA graph. Launches are counted to know which kernels belong to which part. When a part's
 * parameters change, its host code runs again, and the arguments of its launches become those of the captured kernels.
 */
public final class StreamRecording implements Recording {
    private final Launcher launcher;
    private final Submissions submissions;
    private final IntConsumer part;
    /** For each part the index of its first kernel, and at the end the number of all kernels. */
    private final int[] first;
    private final List<Runnable> releases = new ArrayList<>();
    private final Thread thread = Thread.currentThread();
    /** Whether kernels use the thread's slot of {@link Faults}. */
    private boolean bound;
    /** {@code null} until the capture is complete. */
    private Gpu.@Nullable Graph graph;
    private int next;

    private StreamRecording(Launcher launcher, Submissions submissions, int parts, IntConsumer part) {
        this.launcher = launcher;
        this.submissions = submissions;
        this.part = part;
        first = new int[parts + 1];
        releases.add(launcher.faults().hold());
    }

    /**
     * Captures all parts. The caller keeps other threads from the stream meanwhile.
     *
     * @throws GpuException if one of them waits for the device or does something else that cannot be captured
     */
    public static StreamRecording of(Launcher launcher, Submissions submissions, int parts, IntConsumer part) {
        StreamRecording recording = new StreamRecording(launcher, submissions, parts, part);
        recording.begin();
        launcher.record(recording);
        boolean complete = false;
        try {
            for (int i = 0; i < parts; i++) {
                recording.first[i] = recording.next;
                part.accept(i);
            }
            complete = true;
        } finally {
            launcher.record(null);
            recording.end(complete);
        }
        recording.first[parts] = recording.next;
        return recording;
    }

    private void begin() {
        boolean begun = false;
        try {
            launcher.gpu().beginCapture(launcher.stream());
            begun = true;
        } finally {
            if (!begun) {
                releases.forEach(Runnable::run);
            }
        }
    }

    private void end(boolean complete) {
        try {
            Gpu.Graph captured = launcher.gpu().endCapture(launcher.stream());
            if (complete) {
                graph = captured;
            } else {
                captured.close();
            }
        } catch (GpuException e) {
            // If a part has failed, its exception is already propagating and has caused this one.
            if (complete) {
                throw e;
            }
        } finally {
            if (graph == null) {
                releases.forEach(Runnable::run);
            }
        }
    }

    /** Adds an action that runs when this recording is closed. */
    public void onClose(Runnable action) {
        releases.add(action);
    }

    /** Marks that a kernel of this recording uses the recording thread's slot of {@link Faults}. */
    void bind() {
        bound = true;
    }

    /** Returns false in other threads than the recording one if kernels would report to that one. */
    @Override
    public boolean isUsable() {
        return !bound || Thread.currentThread() == thread;
    }

    /** Runs a part's host code again and gives its captured kernels the new arguments. */
    @Override
    public void renew(int i) {
        submissions.exclusively("program", () -> {
            replace(i);
            return null;
        });
    }

    private void replace(int i) {
        next = first[i];
        launcher.record(this);
        try {
            part.accept(i);
        } finally {
            launcher.record(null);
        }
        if (next != first[i + 1]) {
            throw new IllegalStateException("part " + i + " now launches " + (next - first[i])
                    + " kernels, but launched " + (first[i + 1] - first[i])
                    + " when it was captured; the parts' first kernels are "
                    + Arrays.toString(first));
        }
    }

    /** Intercepts a launch. Returns false during the capture: the launch is to be queued and thereby captured. */
    boolean replaces(long arguments, int bytes) {
        int kernel = next++;
        if (graph == null) {
            return false;
        }
        graph.arguments(kernel, arguments, bytes);
        return true;
    }

    @Override
    public void run() {
        submissions.queue("program", () -> Objects.requireNonNull(graph).launch(launcher.stream()));
    }

    /** Closes the graph and releases what it used. */
    @Override
    public void close() {
        submissions.exclusively("program", () -> {
            try {
                Objects.requireNonNull(graph).close();
            } finally {
                releases.forEach(Runnable::run);
            }
            return null;
        });
    }
}
