package dev.starling.samples;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/**
 * The result of running the {@code starling} command in a process of its own, with this JVM's flags. The process has
 * ended and left no process behind. All processes that it starts inherit an environment variable, by which they are
 * found.
 *
 * @param status exit status
 * @param output lines of standard output
 * @param errors standard error
 * @param ranks ranks of the processes that it started
 * @param files files that its processes mapped to communicate, and the directory for these files
 */
record Program(int status, List<String> output, String errors, Set<Integer> ranks, Set<Path> files) {
    private static final String MARK = "STARLING_TEST_RUN";
    private static final String RANK = "STARLING_RANK";
    private static final String DIRECTORY = "STARLING_DIRECTORY";
    private static final long POLL_MILLIS = 100;

    /** Runs the command until it ends. */
    static Program run(String... arguments) throws IOException, InterruptedException {
        String mark = "run-" + System.nanoTime();
        Path directory = Files.createTempDirectory("starling-test-");
        Path out = directory.resolve("out");
        Path err = directory.resolve("err");
        ProcessBuilder builder = new ProcessBuilder(command(arguments)).redirectOutput(out.toFile())
                .redirectError(err.toFile());
        builder.environment().keySet().removeIf(name -> name.startsWith("STARLING_"));
        builder.environment().put(MARK, mark);
        Set<Integer> ranks = new TreeSet<>();
        Set<Path> files = new TreeSet<>();
        Process process = builder.start();
        try {
            do {
                recordProcesses(mark, ranks, files);
            } while (!process.waitFor(POLL_MILLIS, TimeUnit.MILLISECONDS));
            awaitNoProcesses(mark);
            return new Program(process.exitValue(), Files.readAllLines(out), Files.readString(err), ranks, files);
        } finally {
            Stream.concat(process.descendants(), Stream.of(process.toHandle())).toList()
                    .forEach(ProcessHandle::destroyForcibly);
            for (Path file : List.of(out, err, directory)) {
                Files.delete(file);
            }
        }
    }

    /** Returns a command line that starts the command in the same way as this JVM was started. */
    static List<String> command(String... arguments) {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        ManagementFactory.getRuntimeMXBean().getInputArguments().stream()
                .filter(flag -> !flag.startsWith("-agentlib:jdwp")).forEach(command::add);
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), Main.class.getName()));
        command.addAll(List.of(arguments));
        return command;
    }

    /** Records the ranks of running processes and the files that they share. */
    private static void recordProcesses(String mark, Set<Integer> ranks, Set<Path> files) throws IOException {
        for (Path process : processes(mark)) {
            Map<String, String> variables = environment(process);
            if (variables.containsKey(RANK)) {
                ranks.add(Integer.valueOf(variables.get(RANK)));
                files.add(Path.of(variables.get(DIRECTORY)));
            }
            read(process.resolve("maps")).lines().filter(line -> line.matches(".*/starling-(launch|aeron)-.*"))
                    .forEach(line -> files.add(Path.of(line.substring(line.indexOf('/')).replace(" (deleted)", ""))));
        }
    }

    /** Waits until all processes have ended; a process that was asked to end may take a moment. */
    private static void awaitNoProcesses(String mark) throws IOException, InterruptedException {
        long begin = System.nanoTime();
        while (!processes(mark).isEmpty() && System.nanoTime() - begin < TimeUnit.SECONDS.toNanos(5)) {
            Thread.sleep(POLL_MILLIS);
        }
        assertThat(processes(mark).stream().map(process -> read(process.resolve("cmdline")).replace('\0', ' ')))
                .as("processes left behind").isEmpty();
    }

    private static List<Path> processes(String mark) throws IOException {
        try (Stream<Path> all = Files.list(Path.of("/proc"))) {
            return all.filter(path -> path.getFileName().toString().matches("\\d+"))
                    .filter(path -> mark.equals(environment(path).get(MARK))).toList();
        }
    }

    private static Map<String, String> environment(Path process) {
        Map<String, String> variables = new HashMap<>();
        for (String each : read(process.resolve("environ")).split("\0")) {
            int equals = each.indexOf('=');
            if (equals > 0) {
                variables.put(each.substring(0, equals), each.substring(equals + 1));
            }
        }
        return variables;
    }

    /** Returns the content of a file in /proc, or nothing if the process has ended or belongs to another user. */
    private static String read(Path file) {
        try {
            return Files.readString(file, StandardCharsets.ISO_8859_1);
        } catch (IOException unreadable) {
            return "";
        }
    }
}
