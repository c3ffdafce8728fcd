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

/** A program of these tests in a process of its own, and what it says. */
final class Program implements AutoCloseable {
    private static final long STANDSTILL_NS = TimeUnit.MILLISECONDS.toNanos(500);

    private final String name;
    private final Process process;
    private final List<String> said = new ArrayList<>();
    private final Thread reader;

    private Program(String name, Process process) {
        this.name = name;
        this.process = process;
        reader = Thread.ofPlatform().daemon().name("reader-" + name).start(this::read);
    }

    /**
     * Starts a program of this class path with what matters of this JVM's flags.
     *
     * @param place what its command begins with: where to run
     */
    static Program start(String name, List<String> place, Class<?> main, List<String> arguments) {
        List<String> command = new ArrayList<>(place);
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        for (String flag : ManagementFactory.getRuntimeMXBean().getInputArguments()) {
            if (flag.startsWith("--")) {
                command.add(flag);
            }
        }
        command.addAll(List.of("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp",
                System.getProperty("java.class.path"), main.getName()));
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
                synchronized (said) {
                    said.add(line);
                    said.notifyAll();
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } finally {
            synchronized (said) {
                said.notifyAll();
            }
        }
    }

    /** Says a line to it. */
    void tell(String line) {
        try {
            process.outputWriter().write(line + '\n');
            process.outputWriter().flush();
        } catch (IOException e) {
            throw new UncheckedIOException(name + " does not listen:\n" + all(), e);
        }
    }

    /** Waits for a line that begins so, and returns what follows in it. */
    String await(String beginning, long seconds) throws InterruptedException {
        return line(line -> line.startsWith(beginning), "that begins with " + beginning, seconds)
                .substring(beginning.length()).strip();
    }

    /** Waits until it tells of a step from that one on, by so many ranks. */
    void awaitStep(long least, int world, long seconds) throws InterruptedException {
        line(line -> {
            String[] words = line.split(" ");
            return words[0].equals("step") && Long.parseLong(words[1]) >= least && Integer.parseInt(words[2]) == world;
        }, "of step " + least + " with " + world + " ranks", seconds);
    }

    private String line(Predicate<String> matching, String what, long seconds) throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        int seen = 0;
        synchronized (said) {
            while (true) {
                for (; seen < said.size(); seen++) {
                    if (matching.test(said.get(seen))) {
                        return said.get(seen);
                    }
                }
                long leftMs = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime());
                if (leftMs <= 0 || !reader.isAlive()) {
                    throw new AssertionError(name + (leftMs <= 0 ? " says" : " ended without saying") + " no line "
                            + what + (leftMs <= 0 ? " within " + seconds + " s" : "") + ", but\n" + all());
                }
                said.wait(Math.min(leftMs, 100));
            }
        }
    }

    /** Waits until it has said nothing for half a second. */
    void awaitStandstill(long seconds) throws InterruptedException {
        long begin = System.nanoTime();
        long since = begin;
        synchronized (said) {
            for (int seen = said.size(); System.nanoTime() - since < STANDSTILL_NS; said.wait(50)) {
                if (said.size() > seen) {
                    seen = said.size();
                    since = System.nanoTime();
                }
                if (System.nanoTime() - begin > TimeUnit.SECONDS.toNanos(seconds)) {
                    throw new AssertionError(name + " goes on for " + seconds + " s, and says\n" + all());
                }
            }
        }
    }

    /** Returns the last step that it told of. */
    long lastStep() {
        synchronized (said) {
            for (String line : said.reversed()) {
                if (line.startsWith("step ")) {
                    return Long.parseLong(line.split(" ")[1]);
                }
            }
            return 0;
        }
    }

    /** Returns what it has said, for reports. */
    String all() {
        synchronized (said) {
            return String.join("\n", said);
        }
    }

    /** Waits until it has ended. */
    void awaitEnd(long seconds) throws InterruptedException {
        if (!process.waitFor(seconds, TimeUnit.SECONDS)) {
            throw new AssertionError(name + " does not end within " + seconds + " s, and says\n" + all());
        }
        reader.join(TimeUnit.SECONDS.toMillis(seconds));
    }

    /** Kills it, if it runs. */
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
