package dev.starling.kafka;

import java.io.File;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** A JVM of its own with the test's class path, that is killed like a crashed process: SIGKILL. */
final class ChildJvm implements AutoCloseable {
    private final Process process;

    private ChildJvm(Process process) {
        this.process = process;
    }

    static ChildJvm start(Path log, Class<?> main, String... arguments) throws IOException {
        List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "java")
                .toString(), "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
                "--enable-native-access=ALL-UNNAMED", "--add-modules=jdk.incubator.vector",
                "-Djava.io.tmpdir=" + log.toAbsolutePath().getParent(),
                "-cp", System.getProperty("java.class.path"), main.getName()));
        command.addAll(List.of(arguments));
        return new ChildJvm(new ProcessBuilder(command).redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.appendTo(new File(log.toString()))).start());
    }

    boolean isAlive() {
        return process.isAlive();
    }

    /** Kills with signal 9 and waits for the end. */
    void kill() throws InterruptedException {
        process.destroyForcibly();
        if (!process.waitFor(20, TimeUnit.SECONDS)) {
            throw new AssertionError("process " + process.pid() + " outlives SIGKILL");
        }
    }

    @Override
    public void close() {
        try {
            kill();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
