package dev.starling.jmh.gpu;

import dev.starling.jmh.Case;
import dev.starling.tensor.profile.WaitEvent;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Comparator;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;

/** How long a run keeps the host busy, without its waits for the device, which are recorded as events. */
final class HostTime {
    private HostTime() { }

    /**
     * Returns for how many seconds a run keeps the calling thread busy: the median of a number of runs.
     *
     * @throws IllegalStateException if some runs wait more often than others
     */
    static double of(Case work, int runs) {
        long[] nanos = new long[runs];
        try (Recording recording = new Recording()) {
            recording.enable(WaitEvent.NAME).withoutStackTrace().withThreshold(Duration.ZERO);
            recording.start();
            for (int i = 0; i < runs; i++) {
                long start = System.nanoTime();
                work.run();
                nanos[i] = System.nanoTime() - start;
            }
            recording.stop();
            long[] waits = waits(recording);
            if (waits.length % runs != 0) {
                throw new IllegalStateException(runs + " runs wait " + waits.length + " times");
            }
            for (int i = 0; i < waits.length; i++) {
                nanos[i / (waits.length / runs)] -= waits[i];
            }
        }
        Arrays.sort(nanos);
        return nanos[runs / 2] / 1e9;
    }

    /** Returns the nanoseconds of this thread's waits, in order. */
    private static long[] waits(Recording recording) {
        try {
            Path file = Files.createTempFile("starling-waits", ".jfr");
            try {
                recording.dump(file);
                return RecordingFile.readAllEvents(file).stream()
                        .filter(e -> e.getEventType().getName().equals(WaitEvent.NAME) && isMine(e))
                        .sorted(Comparator.comparing(RecordedEvent::getStartTime))
                        .mapToLong(e -> e.getDuration().toNanos()).toArray();
            } finally {
                Files.delete(file);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static boolean isMine(RecordedEvent event) {
        return event.getThread() != null
                && event.getThread().getJavaThreadId() == Thread.currentThread().threadId();
    }
}
