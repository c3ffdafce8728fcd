package dev.starling.tensor;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** A process to which the system soon refuses threads: their stacks exhaust its address space before anything else. */
public final class ThreadLimit {
    private ThreadLimit() {
    }

    /** Runs the main method of a class in such a process; returns its output. */
    public static String run(Class<?> program) throws Exception {
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        Process process = new ProcessBuilder("sh", "-c", "ulimit -v 12000000; exec \"$@\"", "sh", java, "-Xss512m",
                "-XX:+UseSerialGC", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=64m",
                "-XX:CompressedClassSpaceSize=64m", "--enable-native-access=ALL-UNNAMED", "-cp",
                System.getProperty("java.class.path"), program.getName()).redirectErrorStream(true).start();
        try {
            assertThat(process.waitFor(50, TimeUnit.SECONDS)).isTrue();
            return new String(process.getInputStream().readAllBytes());
        } finally {
            process.destroyForcibly();
        }
    }

    /** Starts threads, which an interrupt ends, until the system refuses one; returns them, the last one first. */
    public static Deque<Thread> exhaust() {
        Deque<Thread> started = new ArrayDeque<>();
        try {
            while (true) {
                Thread thread = Thread.ofPlatform().daemon().unstarted(() -> {
                    while (!Thread.interrupted()) {
                        LockSupport.park();
                    }
                });
                thread.start();
                started.push(thread);
            }
        } catch (OutOfMemoryError e) {
            return started;
        }
    }
}
