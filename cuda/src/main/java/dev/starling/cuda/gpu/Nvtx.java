package dev.starling.cuda.gpu;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.concurrent.ConcurrentHashMap;

/**
 * NVIDIA's tools extension, which names stretches of a thread's work for Nsight Systems and its like. Since CUDA 13 the
 * library {@code nvtx3interop} has it for those who cannot include a C header. Safe for use by several threads.
 */
public final class Nvtx {
    private static final List<String> LIBRARIES = System.getProperty("os.name").startsWith("Windows")
            ? List.of("nvToolsExt64_1.dll")
            : List.of("libnvtx3interop.so.1", "libnvtx3interop.so", "libnvToolsExt.so.1");

    private final MethodHandle push;
    private final MethodHandle pop;
    /** C strings of names that came so far. */
    private final Map<String, MemorySegment> names = new ConcurrentHashMap<>();

    private Nvtx(SymbolLookup library) {
        Linker linker = Linker.nativeLinker();
        push = linker.downcallHandle(library.findOrThrow("nvtxRangePushA"), FunctionDescriptor.of(JAVA_INT, ADDRESS));
        pop = linker.downcallHandle(library.findOrThrow("nvtxRangePop"), FunctionDescriptor.of(JAVA_INT));
    }

    /**
     * Loads the library if it is wanted.
     *
     * @param wanted {@code true}, or the file to load; or {@code null}, {@code false} or nothing for no ranges
     * @return {@code null} if it is not wanted or not there
     */
    public static Nvtx load(String wanted) {
        if (wanted == null || wanted.isEmpty() || wanted.equals("false")) {
            return null;
        }
        List<String> candidates = wanted.equals("true") ? LIBRARIES : List.of(wanted);
        for (String name : candidates) {
            try {
                return new Nvtx(SymbolLookup.libraryLookup(name, Arena.global()));
            } catch (IllegalArgumentException | NoSuchElementException e) {
                continue;
            }
        }
        System.getLogger("dev.starling.cuda").log(System.Logger.Level.INFO,
                "no NVTX ranges: there is none of {0}; name one with -Dstarling.nvtx=FILE", candidates);
        return null;
    }

    /** Begins a range of this thread. */
    public void push(String name) {
        MemorySegment text = names.get(name);
        if (text == null) {
            text = names.computeIfAbsent(name, Arena.global()::allocateFrom);
        }
        try {
            int depth = (int) push.invokeExact(text);
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }

    /** Ends the range that this thread has begun last. */
    public void pop() {
        try {
            int depth = (int) pop.invokeExact();
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }
}
