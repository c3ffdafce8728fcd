package dev.starling.cuda.gpu;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BiFunction;
import java.util.stream.Stream;
import org.bytedeco.javacpp.Loader;

/**
 * NVIDIA's run-time compiler: CUDA C++ to machine code of one architecture, or to PTX if the compiler is older than the
 * architecture. It needs neither a GPU nor a driver. This class links only the compiler's library, unlike JavaCPP's
 * binding, so that kernels can be compiled on any machine.
 *
 * <p>The library is searched for in the folder that the environment variable {@code STARLING_NVRTC} names, by the
 * system's loader, and among the libraries that JavaCPP provides.
 */
public final class Nvrtc implements Compiler {
    private static final String LIBRARY = System.getProperty("os.name").startsWith("Windows") ? "nvrtc64_130_0.dll"
            : "libnvrtc.so.13";
    private static final List<String> OPTIONS = List.of("--std=c++17", "--device-as-default-execution-space",
            "--generate-line-info");

    private final MethodHandle create;
    private final MethodHandle compile;
    private final MethodHandle destroy;
    private final MethodHandle cubinSize;
    private final MethodHandle cubin;
    private final MethodHandle ptxSize;
    private final MethodHandle ptx;
    private final MethodHandle logSize;
    private final MethodHandle log;
    private final MethodHandle errorString;
    private final int[] architectures;
    private final String version;

    /** Loads the compiler's library; throws a {@link LinkageError} that names the library if it is missing. */
    public Nvrtc() {
        SymbolLookup library = library();
        create = bind(library, "nvrtcCreateProgram", ADDRESS, ADDRESS, ADDRESS, JAVA_INT, ADDRESS, ADDRESS);
        compile = bind(library, "nvrtcCompileProgram", ADDRESS, JAVA_INT, ADDRESS);
        destroy = bind(library, "nvrtcDestroyProgram", ADDRESS);
        cubinSize = bind(library, "nvrtcGetCUBINSize", ADDRESS, ADDRESS);
        cubin = bind(library, "nvrtcGetCUBIN", ADDRESS, ADDRESS);
        ptxSize = bind(library, "nvrtcGetPTXSize", ADDRESS, ADDRESS);
        ptx = bind(library, "nvrtcGetPTX", ADDRESS, ADDRESS);
        logSize = bind(library, "nvrtcGetProgramLogSize", ADDRESS, ADDRESS);
        log = bind(library, "nvrtcGetProgramLog", ADDRESS, ADDRESS);
        errorString = Linker.nativeLinker().downcallHandle(find(library, "nvrtcGetErrorString"),
                FunctionDescriptor.of(ADDRESS, JAVA_INT));
        MethodHandle numbers = bind(library, "nvrtcVersion", ADDRESS, ADDRESS);
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment major = arena.allocate(JAVA_INT);
            MemorySegment minor = arena.allocate(JAVA_INT);
            call("nvrtcVersion", numbers, major, minor);
            version = "NVRTC " + major.get(JAVA_INT, 0) + "." + minor.get(JAVA_INT, 0) + " "
                    + String.join(" ", OPTIONS);
        }
        architectures = architectures(library);
    }

    private int[] architectures(SymbolLookup library) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment count = arena.allocate(JAVA_INT);
            call("nvrtcGetNumSupportedArchs", bind(library, "nvrtcGetNumSupportedArchs", ADDRESS), count);
            MemorySegment all = arena.allocate(JAVA_INT, count.get(JAVA_INT, 0));
            call("nvrtcGetSupportedArchs", bind(library, "nvrtcGetSupportedArchs", ADDRESS), all);
            return all.toArray(JAVA_INT);
        }
    }

    /**
     * Returns the target to compile for: the GPU's own architecture, or, if the compiler does not know it, the newest
     * older virtual architecture. The driver translates such programs when it loads them.
     *
     * @param architecture the GPU's architecture, for example {@code sm_90}
     * @param known compute capabilities that the compiler supports, as 10·major + minor
     */
    static String target(String architecture, int... known) {
        int wanted = Integer.parseInt(architecture.substring(architecture.indexOf('_') + 1));
        int best = 0;
        for (int each : known) {
            best = each <= wanted ? Math.max(best, each) : best;
        }
        return best == wanted || best == 0 ? architecture : "compute_" + best;
    }

    /** Returns whether the library is available on this machine. */
    public static boolean isAvailable() {
        try {
            library();
            return true;
        } catch (LinkageError e) {
            return false;
        }
    }

    private static SymbolLookup library() {
        String folder = System.getenv("STARLING_NVRTC");
        if (folder != null && Files.exists(Path.of(folder, LIBRARY))) {
            return in(Path.of(folder));
        }
        try {
            return SymbolLookup.libraryLookup(LIBRARY, Arena.global());
        } catch (IllegalArgumentException e) {
            try {
                Loader.load(org.bytedeco.cuda.global.nvrtc.class);
                return SymbolLookup.libraryLookup(LIBRARY, Arena.global());
            } catch (IllegalArgumentException | LinkageError none) {
                throw new UnsatisfiedLinkError(LIBRARY + ": cannot open shared object file");
            }
        }
    }

    /** Loads NVRTC from a folder, after the builtins library, which NVRTC would ask the system's loader for by name. */
    private static SymbolLookup in(Path folder) {
        try {
            builtins(folder).forEach(file -> SymbolLookup.libraryLookup(file, Arena.global()));
            return SymbolLookup.libraryLookup(folder.resolve(LIBRARY), Arena.global());
        } catch (IllegalArgumentException e) {
            throw (LinkageError) new UnsatisfiedLinkError(folder + ": " + e.getMessage()).initCause(e);
        }
    }

    /** Returns the builtins libraries in a folder, without the static ones that a CUDA toolkit has there too. */
    static List<Path> builtins(Path folder) {
        List<Path> found = new ArrayList<>();
        try (DirectoryStream<Path> files = Files.newDirectoryStream(folder, "*nvrtc-builtins*.{so,dll}*")) {
            files.forEach(found::add);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return found;
    }

    private static MemorySegment find(SymbolLookup library, String name) {
        return library.find(name).orElseThrow(() -> new UnsatisfiedLinkError(LIBRARY + " has no " + name));
    }

    private static MethodHandle bind(SymbolLookup library, String name, MemoryLayout... parameters) {
        return Linker.nativeLinker().downcallHandle(find(library, name), FunctionDescriptor.of(JAVA_INT, parameters));
    }

    @Override
    public String version() {
        return version;
    }

    @Override
    public byte[] compile(String name, String source, String architecture) {
        String target = target(architecture, architectures);
        List<String> options = Stream.concat(OPTIONS.stream(), Stream.of("--gpu-architecture=" + target)).toList();
        return compile(name, source, target, options, (arena, program) -> target.startsWith("compute_")
                ? bytes(arena, program, ptxSize, ptx) : bytes(arena, program, cubinSize, cubin));
    }

    /** Compiles a program with the given options, and returns what {@code result} reads of it. */
    private <T> T compile(String name, String source, String architecture, List<String> options,
            BiFunction<Arena, MemorySegment, T> result) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment handle = arena.allocate(ADDRESS);
            call("nvrtcCreateProgram", create, handle, arena.allocateFrom(source), arena.allocateFrom(name), 0,
                    MemorySegment.NULL, MemorySegment.NULL);
            try {
                MemorySegment program = handle.get(ADDRESS, 0);
                MemorySegment texts = arena.allocate(ADDRESS, options.size());
                for (int i = 0; i < options.size(); i++) {
                    texts.setAtIndex(ADDRESS, i, arena.allocateFrom(options.get(i)));
                }
                int error = invoke("nvrtcCompileProgram", compile, program, options.size(), texts);
                if (error != 0) {
                    throw new GpuException("kernel " + name + " does not compile for " + architecture + " with "
                            + version + ": " + describe(error) + "\n" + log(arena, program));
                }
                return result.apply(arena, program);
            } finally {
                call("nvrtcDestroyProgram", destroy, handle);
            }
        }
    }

    private String log(Arena arena, MemorySegment program) {
        return new String(bytes(arena, program, logSize, log), StandardCharsets.UTF_8).replace("\0", "");
    }

    private byte[] bytes(Arena arena, MemorySegment program, MethodHandle sizeOf, MethodHandle get) {
        MemorySegment size = arena.allocate(JAVA_LONG);
        call("nvrtc's size of a result", sizeOf, program, size);
        MemorySegment result = arena.allocate(Math.max(1, size.get(JAVA_LONG, 0)));
        call("nvrtc's result", get, program, result);
        return result.asSlice(0, size.get(JAVA_LONG, 0)).toArray(JAVA_BYTE);
    }

    private void call(String name, MethodHandle function, Object... arguments) {
        int error = invoke(name, function, arguments);
        if (error != 0) {
            throw new GpuException(name + ": " + describe(error));
        }
    }

    private static int invoke(String name, MethodHandle function, Object... arguments) {
        try {
            return (int) function.invokeWithArguments(arguments);
        } catch (Throwable e) {
            throw new AssertionError("calling " + name, e);
        }
    }

    private String describe(int error) {
        try {
            return ((MemorySegment) errorString.invokeExact(error)).reinterpret(1024).getString(0);
        } catch (Throwable e) {
            throw new AssertionError("calling nvrtcGetErrorString", e);
        }
    }

    /**
     * Compiles a program and returns the assembler's report of its kernels: registers, stack and spills, in the
     * assembler's own format.
     *
     * @throws GpuException if the source does not compile
     */
    public String report(String name, String source, String architecture) {
        return compile(name, source, architecture, List.of("--std=c++17", "--device-as-default-execution-space",
                "--ptxas-options=-v", "--gpu-architecture=" + architecture), this::log);
    }
}
