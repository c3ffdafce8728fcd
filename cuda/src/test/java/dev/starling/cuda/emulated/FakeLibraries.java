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
 * Fakes of NVIDIA's libraries (libraries.cpp), under the names by which the bindings load the real ones. They test
 * callers down to the bytes passed. Not on machines with a driver, which use the real ones.
 */
public final class FakeLibraries {
    private static final String FAKE = "libfake.so";
    private static final List<String> NAMES = List.of("libcuda.so.1", "libcudart.so.13", "libcublasLt.so.13",
            "libcublas.so.13", "libcudnn_graph.so.9", "libcudnn_ops.so.9", "libcudnn_cnn.so.9", "libcudnn_adv.so.9",
            "libnccl.so.2");
    private static final boolean AVAILABLE = Emulation.isAvailable() && System.getProperty("os.name").equals("Linux")
            && !isInstalled("libcuda.so.1");

    private static SymbolLookup library;

    private FakeLibraries() { }

    /** Returns whether there is a compiler, and no driver in place of which they would be loaded. */
    public static boolean areAvailable() {
        return AVAILABLE;
    }

    private static boolean isInstalled(String name) {
        try (Arena arena = Arena.ofConfined()) {
            SymbolLookup.libraryLookup(name, arena);
            return true;
        } catch (IllegalArgumentException e) {
            return false;
        }
    }

    /** Makes the libraries loadable in this process. */
    public static synchronized void load() {
        if (library != null) {
            return;
        }
        try {
            Path folder = Files.createTempDirectory("starling-fake");
            Path source = folder.resolve("libraries.cpp");
            for (String file : List.of("libraries.cpp", "device.h", "blas.h", "graphs.h", "recurrence.h")) {
                try (InputStream in = FakeLibraries.class.getResourceAsStream(file)) {
                    Files.copy(in, folder.resolve(file));
                }
            }
            compile("-std=c++17", "-O1", "-pthread", "-fvisibility=hidden", "-Wl,-soname," + FAKE, "-o",
                    folder.resolve(FAKE).toString(), source.toString());
            Path versions = folder.resolve("versions");
            for (String name : NAMES) {
                Files.writeString(versions, name + " { *; };");
                compile("-Wl,-soname," + name, "-Wl,--version-script=" + versions, "-Wl,--no-as-needed",
                        "-Wl,-rpath,$ORIGIN", "-o", folder.resolve(name).toString(), "-L" + folder, "-lfake");
                System.load(folder.resolve(name).toString());
            }
            library = SymbolLookup.libraryLookup(folder.resolve(FAKE), Arena.global());
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
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        try {
            if (process.waitFor() != 0) {
                throw new IllegalStateException(output);
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

    /** Returns the first call that real libraries would not have accepted, or an empty text. */
    public static String firstMisuse() {
        try {
            MemorySegment text = (MemorySegment) Linker.nativeLinker().downcallHandle(library.findOrThrow(
                    "fake_misuse"), FunctionDescriptor.of(ValueLayout.ADDRESS)).invokeExact();
            return text.reinterpret(Long.MAX_VALUE).getString(0);
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }

    /** Returns the number of products with an epilogue, given by the library's number. */
    public static long epilogues(int number) {
        return (long) call("fake_epilogue", FunctionDescriptor.of(ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT),
                number);
    }

    /** Returns the number of operations computed. */
    public static long computed() {
        return count("fake_computed");
    }

    /** Returns the number of existing descriptors of cuDNN's graphs. */
    public static long descriptors() {
        return count("fake_descriptors");
    }

    /** Returns how many plans cuDNN was asked to finalize. */
    public static long planned() {
        return count("fake_planned");
    }

    /** Returns the number of existing descriptors of cuBLASLt. */
    public static long products() {
        return count("fake_products");
    }

    /** Returns the number of existing descriptors of cuDNN's recurrent layers. */
    public static long layers() {
        return count("fake_layers");
    }

    /** Makes cuDNN fail with a status when it finalizes the next plans. */
    public static void failToPlan(int status, int times) {
        call("fake_failures", FunctionDescriptor.ofVoid(ValueLayout.JAVA_INT, ValueLayout.JAVA_INT), status, times);
    }

    /** Makes cuBLASLt fail with a status when it searches for the next algorithms. */
    public static void failToMultiply(int status, int times) {
        call("fake_products_fail", FunctionDescriptor.ofVoid(ValueLayout.JAVA_INT, ValueLayout.JAVA_INT), status,
                times);
    }

    /** Makes cuBLASLt's next products fail with a status. */
    public static void failToRunProducts(int status, int times) {
        call("fake_multiply_fails", FunctionDescriptor.ofVoid(ValueLayout.JAVA_INT, ValueLayout.JAVA_INT), status,
                times);
    }

    /** Makes the next executions of cuDNN's plans fail with a status. */
    public static void failToExecute(int status, int times) {
        call("fake_execute_fails", FunctionDescriptor.ofVoid(ValueLayout.JAVA_INT, ValueLayout.JAVA_INT), status,
                times);
    }

    /** Makes cuDNN's next recurrent layers fail with a status, when they are planned or run. */
    public static void failToRunLayers(int status, int times) {
        call("fake_layers_fail", FunctionDescriptor.ofVoid(ValueLayout.JAVA_INT, ValueLayout.JAVA_INT), status,
                times);
    }

    /** Makes the next attempts to open cuBLASLt fail for lack of memory. */
    public static void failToOpenProducts(int times) {
        call("fake_products_closed", FunctionDescriptor.ofVoid(ValueLayout.JAVA_INT), times);
    }

    /** Sets whether cuBLASLt's ReLU replaces NaN by 0. */
    public static void hideNan(boolean hides) {
        call("fake_relu_hides", FunctionDescriptor.ofVoid(ValueLayout.JAVA_INT), hides ? 1 : 0);
    }

    /** Sets cuDNN's version. */
    public static void version(long number) {
        call("fake_version", FunctionDescriptor.ofVoid(ValueLayout.JAVA_LONG), number);
    }

    /** Sets the CUDA version that cuDNN was built for, and the status that one of its components reports. */
    public static void build(long cuda, int status) {
        call("fake_build", FunctionDescriptor.ofVoid(ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT), cuda, status);
    }

    /** Returns the number of existing handles of cuDNN. */
    public static long handles() {
        return count("fake_handles");
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
