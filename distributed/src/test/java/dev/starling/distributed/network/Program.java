package dev.starling.distributed.network;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;

/** A program of these tests in a process of its own, and its output. */
public final class Program implements AutoCloseable {
    private static final long STANDSTILL_NS = TimeUnit.MILLISECONDS.toNanos(500);

    private final String name;
    private final Process process;
    private final List<String> output = new ArrayList<>();
    private final Thread reader;

    private Program(String name, Process process) {
        this.name = name;
        this.process = process;
        reader = Thread.ofPlatform().daemon().name("reader-" + name).start(this::read);
    }

    /**
     * Starts a program of this class path with the module flags of this JVM.
     *
     * @param prefix first words of the command, which select the host
     */
    public static Program start(String name, List<String> prefix, Class<?> main, List<String> arguments) {
        return start(name, prefix, List.of(), main, arguments);
    }

    /** As above; {@code flags} are further flags of its JVM, which by default compiles for a short life. */
    public static Program start(String name, List<String> prefix, List<String> flags, Class<?> main,
            List<String> arguments) {
        List<String> command = new ArrayList<>(prefix);
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        for (String flag : ManagementFactory.getRuntimeMXBean().getInputArguments()) {
            if (flag.startsWith("--")) {
                command.add(flag);
            }
        }
        command.addAll(List.of("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"));
        command.addAll(flags);
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), main.getName()));
        command.addAll(arguments);
        try {
            return new Program(name, new ProcessBuilder(command).redirectErrorStream(true).start());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private void read() {
        try (BufferedReader lines = process.inputReader()) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                synchronized (output) {
                    output.add(line);
                    output.notifyAll();
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } finally {
            synchronized (output) {
                output.notifyAll();
            }
        }
    }

    /** Sends a line to the program's input. */
    public void send(String line) {
        try {
            process.outputWriter().write(line + '\n');
            process.outputWriter().flush();
        } catch (IOException e) {
            throw new UncheckedIOException(name + " does not read its input:\n" + all(), e);
        }
    }

    /** Waits for a line with a beginning, and returns the rest of the line. */
    public String await(String beginning, long seconds) throws InterruptedException {
        return line(line -> line.startsWith(beginning), "that begins with " + beginning, seconds)
                .substring(beginning.length()).strip();
    }

    /** Waits until the program prints a step with at least a number, taken by a number of ranks. */
    void awaitStep(long minStep, int world, long seconds) throws InterruptedException {
        line(line -> {
            String[] words = line.split(" ");
            return words[0].equals("step") && Long.parseLong(words[1]) >= minStep
                    && Integer.parseInt(words[2]) == world;
        }, "of step " + minStep + " with " + world + " ranks", seconds);
    }

    private String line(Predicate<String> matching, String what, long seconds) throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        int seen = 0;
        synchronized (output) {
            while (true) {
                for (; seen < output.size(); seen++) {
                    if (matching.test(output.get(seen))) {
                        return output.get(seen);
                    }
                }
                long leftMs = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime());
                if (leftMs <= 0 || !reader.isAlive()) {
                    throw new AssertionError(name + (leftMs <= 0 ? " printed" : " ended without printing") + " no line "
                            + what + (leftMs <= 0 ? " within " + seconds + " s" : "") + ", but\n" + all());
                }
                output.wait(Math.min(leftMs, 100));
            }
        }
    }

    /** Waits until the program has printed nothing for half a second. */
    void awaitStandstill(long seconds) throws InterruptedException {
        long begin = System.nanoTime();
        long since = begin;
        synchronized (output) {
            for (int seen = output.size(); System.nanoTime() - since < STANDSTILL_NS; output.wait(50)) {
                if (output.size() > seen) {
                    seen = output.size();
                    since = System.nanoTime();
                }
                if (System.nanoTime() - begin > TimeUnit.SECONDS.toNanos(seconds)) {
                    throw new AssertionError(name + " still prints after " + seconds + " s:\n" + all());
                }
            }
        }
    }

    /** Returns the last step that the program printed. */
    public long lastStep() {
        synchronized (output) {
            for (String line : output.reversed()) {
                if (line.startsWith("step ")) {
                    return Long.parseLong(line.split(" ")[1]);
                }
            }
            return 0;
        }
    }

    /** Returns the output, for reports. */
    public String all() {
        synchronized (output) {
            return String.join("\n", output);
        }
    }

    /** Returns the number of the process. */
    public long pid() {
        return process.pid();
    }

    /** Returns whether the process runs. */
    public boolean isAlive() {
        return process.isAlive();
    }

    /** Waits until the program has ended. */
    public void awaitEnd(long seconds) throws InterruptedException {
        if (!process.waitFor(seconds, TimeUnit.SECONDS)) {
            throw new AssertionError(name + " does not end within " + seconds + " s; its output:\n" + all());
        }
        reader.join(TimeUnit.SECONDS.toMillis(seconds));
    }

    /** Kills the program if it runs. */
    @Override
    public void close() {
        process.destroyForcibly();
        try {
            awaitEnd(20);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
