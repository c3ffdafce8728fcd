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
import org.jspecify.annotations.Nullable;

/**
 * NVIDIA's tools extension: named ranges of a thread's work, as Nsight Systems shows them. Since CUDA 13 the library
 * {@code nvtx3interop} offers it to languages that cannot include the C header. Safe for use by several threads.
 */
public final class Nvtx {
    private static final List<String> LIBRARIES = System.getProperty("os.name").startsWith("Windows")
            ? List.of("nvToolsExt64_1.dll")
            : List.of("libnvtx3interop.so.1", "libnvtx3interop.so", "libnvToolsExt.so.1");

    private final MethodHandle push;
    private final MethodHandle pop;
    /** C strings of the names used so far. */
    private final Map<String, MemorySegment> names = new ConcurrentHashMap<>();

    private Nvtx(SymbolLookup library) {
        Linker linker = Linker.nativeLinker();
        push = linker.downcallHandle(library.findOrThrow("nvtxRangePushA"), FunctionDescriptor.of(JAVA_INT, ADDRESS));
        pop = linker.downcallHandle(library.findOrThrow("nvtxRangePop"), FunctionDescriptor.of(JAVA_INT));
    }

    /**
     * Loads the library if a setting asks for it.
     *
     * @param setting {@code true}, or the library's file; {@code null}, empty or {@code false} for no ranges
     * @return the library, or {@code null} if it is not asked for or not found
     */
    public static @Nullable Nvtx load(@Nullable String setting) {
        if (setting == null || setting.isEmpty() || setting.equals("false")) {
            return null;
        }
        List<String> candidates = setting.equals("true") ? LIBRARIES : List.of(setting);
        for (String name : candidates) {
            try {
                return new Nvtx(SymbolLookup.libraryLookup(name, Arena.global()));
            } catch (IllegalArgumentException | NoSuchElementException e) {
                continue;
            }
        }
        System.getLogger("dev.starling.cuda").log(System.Logger.Level.INFO,
                "no NVTX ranges: found none of {0}; name the library with -Dstarling.nvtx=FILE", candidates);
        return null;
    }

    /** Begins a range of the calling thread. */
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

    /** Ends the range that the calling thread began last. */
    public void pop() {
        try {
            int depth = (int) pop.invokeExact();
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }
}
