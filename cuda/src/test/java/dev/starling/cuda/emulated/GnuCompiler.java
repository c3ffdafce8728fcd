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
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * Compiles kernels to shared libraries of the host with g++. A library may contain the kernels of several programs: a
 * program is a library and, at its end, the prefix of its functions' names, with a zero behind it.
 */
final class GnuCompiler implements Compiler {
    private static final Pattern KERNEL = Pattern
            .compile("__global__\\s+void\\s+(?:__launch_bounds__\\(([^)]*)\\)\\s*)?"
            + "(\\w+)\\s*\\(");
    private static final Pattern MACRO = Pattern.compile("(?m)^\\s*#\\s*define\\s+(\\w+)");
    /** The number of bytes after a program's library. */
    static final int TRAILER = 4;
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
    /** The macros of the header, which sources may define again but not end. */
    private final Set<String> macros = MACRO.matcher(header).results().map(macro -> macro.group(1))
            .collect(Collectors.toSet());
    private final Path folder;
    /** The compiled emulator, or {@code null} before the first kernel. */
    private Path emulatorObject;
    private final Map<String, Batch> batches = new ConcurrentHashMap<>();

    /** Sources that are compiled together. */
    private final class Batch {
        private final List<String> sources;
        /** The programs, or {@code null} before the first was wanted; empty if the sources do not compile. */
        private List<byte[]> programs;

        Batch(List<String> sources) {
            this.sources = sources;
        }

        /** Returns the program of a source, or {@code null} if the sources do not compile together. */
        synchronized byte[] program(String source) {
            if (programs == null) {
                try {
                    programs = programs("batch", sources);
                } catch (GpuException e) {
                    programs = List.of();
                }
            }
            return programs.isEmpty() ? null : programs.get(sources.indexOf(source));
        }
    }

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

    /** Compiles sources together when the first of them is compiled. */
    void together(List<String> sources) {
        Batch batch = new Batch(List.copyOf(sources));
        sources.forEach(source -> batches.put(source, batch));
    }

    @Override
    public byte[] compile(String name, String source, String architecture) {
        Batch batch = batches.remove(source);
        byte[] program = batch == null ? null : batch.program(source);
        return program != null ? program : programs(name, List.of(source)).getFirst();
    }

    /** Compiles sources to one library; returns their programs. */
    private List<byte[]> programs(String name, List<String> sources) {
        StringBuilder text = new StringBuilder(header);
        for (int i = 0; i < sources.size(); i++) {
            append(text, sources.get(i), prefix(i));
        }
        try {
            Path input = Files.createTempFile(folder, "kernel", ".cpp");
            Path output = Path.of(input + ".so");
            Files.writeString(input, text);
            List<String> more = new ArrayList<>(List.of("-shared", "-x", "none", emulator().toString()));
            more.addAll(LIBRARIES);
            run(name, input, output, more);
            byte[] library = Files.readAllBytes(output);
            Files.delete(input);
            Files.delete(output);
            return IntStream.range(0, sources.size()).mapToObj(i -> program(library, prefix(i))).toList();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static String prefix(int index) {
        return "k" + index + "_";
    }

    private static byte[] program(byte[] library, String prefix) {
        byte[] program = Arrays.copyOf(library, library.length + TRAILER);
        System.arraycopy(prefix.getBytes(StandardCharsets.US_ASCII), 0, program, library.length, TRAILER - 1);
        return program;
    }

    /** Appends a source in a namespace; its macros end with it, and its functions are exported with a prefix. */
    private void append(StringBuilder text, String source, String prefix) {
        String section = "shared_" + prefix;
        text.append("#undef SHARED_SECTION\n#define SHARED_SECTION \"").append(section)
                .append("\"\nDECLARE_SECTION(").append(section).append(")\nnamespace ").append(prefix)
                .append(" {\n#line 1 \"kernel\"\n")
                .append(source.replace("extern \"C\" __global__", "__global__")).append('\n');
        Matcher kernel = KERNEL.matcher(source);
        while (kernel.find()) {
            text.append("EMULATE(").append(prefix).append(", ").append(kernel.group(2)).append(", ")
                    .append(kernel.group(1) == null ? BOUND : kernel.group(1)).append(", ").append(section)
                    .append(")\n");
        }
        text.append("}\n");
        MACRO.matcher(source).results().map(macro -> macro.group(1)).filter(macro -> !macros.contains(macro))
                .forEach(macro -> text.append("#undef ").append(macro).append('\n'));
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
