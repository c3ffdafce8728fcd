package dev.starling.cuda.bench;

import dev.starling.tensor.profile.WaitEvent;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;

/** How long the host is busy with a run: without its waits for the device, which tell of themselves as events. */
final class HostTime {
    private HostTime() { }

    /** Returns the seconds for which a run keeps the calling thread busy, the mean of so many. */
    static double of(Case work, int runs) {
        try (Recording recording = new Recording()) {
            recording.enable(WaitEvent.NAME).withoutStackTrace().withThreshold(Duration.ZERO);
            recording.start();
            long start = System.nanoTime();
            for (int i = 0; i < runs; i++) {
                work.run();
            }
            long nanos = System.nanoTime() - start;
            recording.stop();
            return (nanos - waited(recording)) / 1e9 / runs;
        }
    }

    /** Returns the sum of this thread's waits. */
    private static long waited(Recording recording) {
        try {
            Path file = Files.createTempFile("starling-waits", ".jfr");
            try {
                recording.dump(file);
                return RecordingFile.readAllEvents(file).stream()
                        .filter(e -> e.getEventType().getName().equals(WaitEvent.NAME) && isMine(e))
                        .mapToLong(e -> e.getDuration().toNanos()).sum();
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
