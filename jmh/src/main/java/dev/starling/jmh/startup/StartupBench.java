package dev.starling.jmh.startup;

import static dev.starling.jmh.Statistics.median;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.jar.JarEntry;
import java.util.jar.JarOutputStream;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** Measures the time from the start of a JVM to its first result, with and without an AOT cache. */
@Command(
        name = "startup",
        description = "Measures the time from the start of a JVM to its first prediction or training step, with and"
            + " without the JDK's AOT cache, in alternating runs.",
        mixinStandardHelpOptions = true)
public final class StartupBench implements Callable<Integer> {
    private static final String ROW = "%-12s %12s %12s %8s";
    /** What an application that depends on starling-nn has on its class path. */
    private static final List<String> JARS = List.of("javacpp-", "dnnl-", "opencl-", "disruptor-", "fastcsv-",
            "jspecify-");
    private static final List<String> MODULES = List.of("errors", "tensor", "autograd", "nn", "jmh");

    @Option(names = "--runs", defaultValue = "11", description = "Runs of each kind (default: ${DEFAULT-VALUE}).")
    private int runs;

    @Spec
    private CommandSpec spec;

    /** The JVM that has started last, or {@code null}. */
    private volatile Process started;

    /** Called by the command line. */
    public StartupBench() {
    }

    @Override
    public Integer call() throws IOException {
        if (runs < 1) {
            throw new ParameterException(spec.commandLine(), "--runs must be 1 or more, got " + runs);
        }
        Path folder = Files.createTempDirectory("starling-startup");
        // A signal may end the benchmark while a JVM writes a cache.
        Thread hook = new Thread(() -> abandon(folder), "starling-startup-shutdown");
        Runtime.getRuntime().addShutdownHook(hook);
        try {
            measure(folder);
        } finally {
            finish(hook, folder);
        }
        return 0;
    }

    private void measure(Path folder) throws IOException {
        String classPath = classPath(System.getProperty("java.class.path"), folder);
        System.out.printf(ROW + "%n", "first", "plain ms", "cache ms", "ratio");
        for (FirstResult.Kind kind : FirstResult.Kind.values()) {
            Path cache = folder.resolve(kind + ".aot");
            start(classPath, List.of("-XX:AOTCacheOutput=" + cache), kind);
            double[] plain = new double[runs];
            double[] cached = new double[runs];
            for (int i = 0; i < runs; i++) {
                plain[i] = start(classPath, List.of(), kind);
                cached[i] = start(classPath, List.of("-XX:AOTCache=" + cache), kind);
            }
            double[] ratios = new double[runs];
            Arrays.setAll(ratios, i -> plain[i] / cached[i]);
            System.out.printf(ROW + "%n", kind.name().toLowerCase(Locale.ROOT),
                    "%.0f".formatted(median(plain)), "%.0f".formatted(median(cached)),
                    "%.2f".formatted(median(ratios)));
        }
    }

    /** Deletes the folder, unless a signal ends this process: then the hook deletes it. */
    private static void finish(Thread hook, Path folder) throws IOException {
        try {
            Runtime.getRuntime().removeShutdownHook(hook);
        } catch (IllegalStateException shuttingDown) {
            return;
        }
        delete(folder);
    }

    /** Ends the JVM that is running and the one that writes its cache, then deletes the folder. */
    private void abandon(Path folder) {
        Process last = started;
        List<ProcessHandle> running = last == null ? List.of()
                : Stream.concat(Stream.of(last.toHandle()), last.descendants()).toList();
        running.forEach(ProcessHandle::destroyForcibly);
        running.forEach(process -> process.onExit().completeOnTimeout(process, 5, TimeUnit.SECONDS).join());
        try {
            delete(folder);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static void delete(Path folder) throws IOException {
        try (Stream<Path> files = Files.list(folder)) {
            for (Path file : files.toList()) {
                Files.delete(file);
            }
        }
        Files.delete(folder);
    }

    /** Runs a JVM to its end; returns the milliseconds from its start to its first result. */
    private double start(String classPath, List<String> flags, FirstResult.Kind kind) throws IOException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(flags);
        command.addAll(List.of("--enable-native-access=ALL-UNNAMED", "-cp", classPath,
                FirstResult.class.getName(), kind.name()));
        long start = System.nanoTime();
        Process process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.DISCARD).start();
        started = process;
        try (BufferedReader output = process.inputReader()) {
            double millis = 0;
            for (String line = output.readLine(); line != null; line = output.readLine()) {
                if (line.startsWith(FirstResult.DONE)) {
                    millis = (System.nanoTime() - start) / 1e6;
                }
            }
            if (process.waitFor() != 0 || millis == 0) {
                throw new IllegalStateException("this command failed: " + String.join(" ", command));
            }
            return millis;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        } finally {
            process.destroyForcibly();
        }
    }

    /** Returns the smallest class path, of jars only: classes in directories are not put into a cache. */
    static String classPath(String all, Path folder) {
        return Arrays.stream(all.split(File.pathSeparator)).map(Path::of).map(entry -> {
            if (Files.isDirectory(entry)) {
                String module = entry.getParent().getParent().getFileName().toString();
                return MODULES.contains(module) ? jar(entry, folder.resolve(module + ".jar")) : null;
            }
            String name = entry.getFileName().toString();
            return Stream.concat(JARS.stream(), MODULES.stream().map(module -> "starling-" + module + "-"))
                    .anyMatch(name::startsWith) ? entry : null;
        }).filter(entry -> entry != null).map(Path::toString).collect(Collectors.joining(File.pathSeparator));
    }

    private static Path jar(Path classes, Path jar) {
        try (Stream<Path> files = Files.walk(classes);
                JarOutputStream output = new JarOutputStream(Files.newOutputStream(jar))) {
            for (Path file : files.filter(Files::isRegularFile).sorted().toList()) {
                output.putNextEntry(new JarEntry(classes.relativize(file).toString().replace('\\', '/')));
                Files.copy(file, output);
                output.closeEntry();
            }
            return jar;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
