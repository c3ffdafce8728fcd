package dev.starling.tensor.profile;

import dev.starling.tensor.TensorException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import jdk.jfr.Recording;

/**
 * Observes all operations of this process from {@link #start} to {@link #close}, and writes down what it saw.
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
     * Starts to observe.
     *
     * @param target where {@link #close} writes a page to look at with a browser; or, if its name ends in {@code .jfr},
     *     the recording itself, for JDK Mission Control or {@link Profile#read}
     */
    public static Profiler start(Path target) {
        return new Profiler(target);
    }

    /**
     * Stops to observe and writes the file. Closing twice does nothing.
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
                    "cannot be written to " + target + ": " + e.getMessage(), "name a file that can be written");
            failure.initCause(e);
            throw failure;
        }
    }
}
