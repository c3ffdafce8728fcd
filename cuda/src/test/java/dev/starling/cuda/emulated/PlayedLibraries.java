package dev.starling.cuda.emulated;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * NVIDIA's libraries as libraries.cpp plays them, under the names by which the bindings look for the real ones: what
 * calls them is tested down to the bytes that it hands over. Not on machines with a driver, which have the real ones.
 */
public final class PlayedLibraries {
    private static final String PLAYED = "libplayed.so";
    private static final List<String> NAMES = List.of("libcuda.so.1", "libcudart.so.13", "libcublasLt.so.13",
            "libcublas.so.13", "libcudnn_graph.so.9", "libcudnn_ops.so.9", "libcudnn_cnn.so.9", "libcudnn_adv.so.9",
            "libnccl.so.2");
    private static final boolean POSSIBLE = Emulation.isPossible() && System.getProperty("os.name").equals("Linux")
            && !isThere("libcuda.so.1");

    private static SymbolLookup library;

    private PlayedLibraries() { }

    /** Tells whether there is a compiler and a place for them to take. */
    public static boolean arePossible() {
        return POSSIBLE;
    }

    private static boolean isThere(String name) {
        try (Arena arena = Arena.ofConfined()) {
            SymbolLookup.libraryLookup(name, arena);
            return true;
        } catch (IllegalArgumentException e) {
            return false;
        }
    }

    /** Lets this process find them. */
    public static synchronized void load() {
        if (library != null) {
            return;
        }
        try {
            Path folder = Files.createTempDirectory("starling-played");
            Path source = folder.resolve("libraries.cpp");
            for (String file : List.of("libraries.cpp", "device.h", "blas.h", "graphs.h", "recurrence.h")) {
                try (InputStream in = PlayedLibraries.class.getResourceAsStream(file)) {
                    Files.copy(in, folder.resolve(file));
                }
            }
            compile("-std=c++17", "-O1", "-pthread", "-fvisibility=hidden", "-Wl,-soname," + PLAYED, "-o",
                    folder.resolve(PLAYED).toString(), source.toString());
            Path versions = folder.resolve("versions");
            for (String name : NAMES) {
                Files.writeString(versions, name + " { *; };");
                compile("-Wl,-soname," + name, "-Wl,--version-script=" + versions, "-Wl,--no-as-needed",
                        "-Wl,-rpath,$ORIGIN", "-o", folder.resolve(name).toString(), "-L" + folder, "-lplayed");
                System.load(folder.resolve(name).toString());
            }
            library = SymbolLookup.libraryLookup(folder.resolve(PLAYED), Arena.global());
            try (var files = Files.list(folder)) {
                for (Path file : files.toList()) {
                    Files.delete(file);
                }
            }
            Files.delete(folder);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static void compile(String... arguments) throws IOException {
        List<String> command = new ArrayList<>(List.of("g++", "-shared", "-fPIC"));
        command.addAll(List.of(arguments));
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        try {
            if (process.waitFor() != 0) {
                throw new IllegalStateException(said);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        }
    }

    static MemorySegment find(String function) {
        load();
        return library.findOrThrow(function);
    }

    /** Returns the first thing that real libraries would not have taken, or an empty text. */
    public static String complaint() {
        try {
            MemorySegment text = (MemorySegment) Linker.nativeLinker().downcallHandle(library.findOrThrow(
                    "played_complaint"), FunctionDescriptor.of(ValueLayout.ADDRESS)).invokeExact();
            return text.reinterpret(Long.MAX_VALUE).getString(0);
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }

    /** Returns how many products were followed by the epilogue of a number. */
    public static long epilogues(int number) {
        return (long) call("played_epilogue", FunctionDescriptor.of(ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT),
                number);
    }

    /** Returns how many operations they have carried out. */
    public static long computed() {
        return count("played_computed");
    }

    /** Returns how many descriptors of cuDNN's graphs there are. */
    public static long descriptors() {
        return count("played_descriptors");
    }

    /** Returns how many plans cuDNN was to finish. */
    public static long planned() {
        return count("played_planned");
    }

    /** Returns how many descriptors of cuBLASLt there are. */
    public static long products() {
        return count("played_products");
    }

    /** Lets cuDNN fail with a status to finish the next plans. */
    public static void failToPlan(int status, int times) {
        call("played_failures", FunctionDescriptor.ofVoid(ValueLayout.JAVA_INT, ValueLayout.JAVA_INT), status, times);
    }

    /** Lets cuBLASLt fail with a status to find the next algorithms. */
    public static void failToMultiply(int status, int times) {
        call("played_products_fail", FunctionDescriptor.ofVoid(ValueLayout.JAVA_INT, ValueLayout.JAVA_INT), status,
                times);
    }

    /** Lets cuBLASLt's ReLU make NaN 0, or lets it pass. */
    public static void hideNan(boolean hides) {
        call("played_relu_hides", FunctionDescriptor.ofVoid(ValueLayout.JAVA_INT), hides ? 1 : 0);
    }

    /** Lets cuDNN be of another version. */
    public static void version(long number) {
        call("played_version", FunctionDescriptor.ofVoid(ValueLayout.JAVA_LONG), number);
    }

    /** Lets cuDNN be built for a CUDA of a number, and one of its parts report a status. */
    public static void build(long cuda, int status) {
        call("played_build", FunctionDescriptor.ofVoid(ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT), cuda, status);
    }

    /** Returns how many handles of cuDNN there are. */
    public static long handles() {
        return count("played_handles");
    }

    private static long count(String name) {
        return (long) call(name, FunctionDescriptor.of(ValueLayout.JAVA_LONG));
    }

    private static Object call(String name, FunctionDescriptor type, Object... arguments) {
        try {
            return Linker.nativeLinker().downcallHandle(library.findOrThrow(name), type)
                    .invokeWithArguments(arguments);
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }
}
