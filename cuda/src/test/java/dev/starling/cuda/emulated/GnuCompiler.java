package dev.starling.cuda.emulated;

import dev.starling.cuda.gpu.Compiler;
import dev.starling.cuda.gpu.GpuException;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Compiles kernels to shared libraries of the host with g++. */
final class GnuCompiler implements Compiler {
    private static final Pattern KERNEL = Pattern
            .compile("__global__\\s+void\\s+(?:__launch_bounds__\\(([^)]*)\\)\\s*)?"
            + "(\\w+)\\s*\\(");
    /** The largest block of a kernel without launch bounds. */
    private static final String BOUND = "256";
    private static final List<String> COMMAND = List.of("g++", "-std=c++17", "-Og", "-fwrapv", "-fno-strict-aliasing",
            "-ffp-contract=off", "-fsanitize=alignment", "-fPIC", "-fvisibility=hidden", "-w", "-mfma",
            "-mf16c",
            "-fno-exceptions", "-fno-asynchronous-unwind-tables", "-nostdlib", "-pipe", "-fno-use-linker-plugin", "-x",
            "c++");
    /** Every process has the C library; to read its symbols takes as long as the rest of the link. */
    private static final List<String> LIBRARIES = List.of("-lm", "-lgcc");

    private final String header = text("emulator.h");
    private final String emulator = text("emulator.cpp");
    private final Path folder;
    /** The compiled emulator, or {@code null} before the first kernel. */
    private Path emulatorObject;

    GnuCompiler() {
        try {
            folder = Files.createTempDirectory("starling-emulated");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        Runtime.getRuntime().addShutdownHook(new Thread(() -> delete(folder)));
    }

    private static void delete(Path folder) {
        try (var files = Files.list(folder)) {
            for (Path file : files.toList()) {
                Files.delete(file);
            }
            Files.delete(folder);
        } catch (IOException e) {
            System.getLogger("dev.starling.cuda").log(System.Logger.Level.WARNING, "could not delete  " + folder, e);
        }
    }

    /** Returns whether g++ is on the path. */
    static boolean isAvailable() {
        try {
            Process process = new ProcessBuilder("g++", "--version").redirectErrorStream(true).start();
            process.getInputStream().readAllBytes();
            return process.waitFor() == 0;
        } catch (IOException e) {
            return false;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    private static String text(String resource) {
        try (InputStream in = GnuCompiler.class.getResourceAsStream(resource)) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public String version() {
        return String.join(" ", COMMAND) + header + emulator;
    }

    @Override
    public byte[] compile(String name, String source, String architecture) {
        StringBuilder text = new StringBuilder(header).append("#line 1 \"kernel\"\n").append(source).append('\n');
        Matcher m = KERNEL.matcher(source);
        while (m.find()) {
            text.append("#pragma GCC visibility push(default)\nEMULATE(").append(m.group(2)).append(", ")
                    .append(m.group(1) == null ? BOUND : m.group(1)).append(")\n");
        }
        try {
            Path input = Files.createTempFile(folder, "kernel", ".cpp");
            Path output = Path.of(input + ".so");
            Files.writeString(input, text);
            List<String> more = new ArrayList<>(List.of("-shared", "-x", "none", emulator().toString()));
            more.addAll(LIBRARIES);
            run(name, input, output, more);
            byte[] program = Files.readAllBytes(output);
            Files.delete(input);
            Files.delete(output);
            return program;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private synchronized Path emulator() throws IOException {
        if (emulatorObject == null) {
            Path input = Files.writeString(folder.resolve("emulator.cpp"), header + emulator);
            emulatorObject = folder.resolve("emulator.o");
            run("emulator", input, emulatorObject, List.of("-c"));
        }
        return emulatorObject;
    }

    private static void run(String name, Path input, Path output, List<String> more) throws IOException {
        List<String> command = new ArrayList<>(COMMAND);
        command.addAll(List.of("-o", output.toString(), input.toString()));
        command.addAll(more);
        try {
            Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
            String errors = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            if (process.waitFor() != 0) {
                throw new GpuException("kernel " + name + " does not compile with g++:\n" + errors);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new GpuException("interrupted while compiling " + name);
        }
    }
}
