package dev.starling.cuda.kernels;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.GpuException;
import java.util.Arrays;
import java.util.function.IntConsumer;

/**
 * Parts of a piece of work as one graph. Which kernels are a part's is known by counting launches; when its parameters
 * have changed, its host code runs again, and what it would launch becomes their arguments. Whoever uses this keeps
 * other threads from the stream meanwhile.
 */
public final class StreamRecording {
    private final Launcher launcher;
    private final IntConsumer part;
    /** By part, the number of its first kernel, and at the end of all. */
    private final int[] first;
    private final Runnable release;
    private Gpu.Graph graph;
    private int next;

    private StreamRecording(Launcher launcher, int parts, IntConsumer part) {
        this.launcher = launcher;
        this.part = part;
        first = new int[parts + 1];
        release = launcher.faults().hold();
    }

    /**
     * Takes down all parts.
     *
     * @throws GpuException if one of them waits for the device or does something else that cannot be taken down
     */
    public static StreamRecording of(Launcher launcher, int parts, IntConsumer part) {
        StreamRecording recording = new StreamRecording(launcher, parts, part);
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
                release.run();
            }
        }
    }

    private void end(boolean complete) {
        try {
            Gpu.Graph taken = launcher.gpu().endCapture(launcher.stream());
            if (complete) {
                graph = taken;
            } else {
                taken.close();
            }
        } catch (GpuException e) {
            // Else what went wrong in a part is on its way, of which this is a consequence.
            if (complete) {
                throw e;
            }
        } finally {
            if (graph == null) {
                release.run();
            }
        }
    }

    /** Gives a part's kernels the arguments that its host code has for them now. */
    public void renew(int i) {
        next = first[i];
        launcher.record(this);
        try {
            part.accept(i);
        } finally {
            launcher.record(null);
        }
        if (next != first[i + 1]) {
            throw new IllegalStateException("part " + i + " launches " + (next - first[i]) + " kernels, and launched "
                    + (first[i + 1] - first[i]) + " when it was taken down; its numbers of kernels are "
                    + Arrays.toString(first));
        }
    }

    /** Takes a launch: returns false if it is to be queued, and so taken down. */
    boolean replaced(long arguments, int bytes) {
        int kernel = next++;
        if (graph == null) {
            return false;
        }
        graph.arguments(kernel, arguments, bytes);
        return true;
    }

    /** Queues all parts. */
    public void run() {
        graph.launch(launcher.stream());
    }

    /** Gives the graph back. */
    public void close() {
        try {
            graph.close();
        } finally {
            release.run();
        }
    }
}
