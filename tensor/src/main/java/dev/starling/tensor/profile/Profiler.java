package dev.starling.tensor.profile;

import dev.starling.tensor.TensorException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import jdk.jfr.Recording;

/**
 * Records all operations of this process from {@link #start} to {@link #close} and writes a report.
 *
 * <pre>{@code
 * try (Profiler profiler = Profiler.start(Path.of("profile.html"))) {
 *     trainer.run();
 * }
 * }</pre>
 */
public final class Profiler implements AutoCloseable {
    private final Recording recording = new Recording();
    private final Path target;
    private boolean closed;

    private Profiler(Path target) {
        this.target = target;
        recording.setName("starling");
        recording.enable(OperationEvent.class).withoutThreshold().withoutStackTrace();
        recording.enable(MemoryEvent.class).withStackTrace();
        recording.enable(WaitEvent.class).withoutThreshold().withStackTrace();
        recording.start();
    }

    /**
     * Starts recording.
     *
     * @param target the file that {@link #close} writes: the recording itself if the name ends in {@code .jfr}, for JDK
     *     Mission Control or {@link Profile#read}; otherwise an HTML page
     */
    public static Profiler start(Path target) {
        return new Profiler(target);
    }

    /**
     * Stops recording and writes the file. Closing twice has no effect.
     *
     * @throws TensorException if the file cannot be written
     */
    @Override
    public void close() {
        if (closed) {
            return;
        }
        closed = true;
        try (recording) {
            recording.stop();
            if (target.toString().endsWith(".jfr")) {
                recording.dump(target);
                return;
            }
            Path file = Files.createTempFile("starling", ".jfr");
            try {
                recording.dump(file);
                Profile.read(file).write(target);
            } finally {
                Files.delete(file);
            }
        } catch (IOException e) {
            TensorException failure = new TensorException(TensorException.Problem.DATA, "profile", List.of(),
                    "cannot write " + target + ": " + e.getMessage(), "name a file that can be written");
            failure.initCause(e);
            throw failure;
        }
    }
}
