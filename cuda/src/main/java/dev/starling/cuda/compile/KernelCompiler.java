package dev.starling.cuda.compile;

import dev.starling.cuda.gpu.Compiler;
import dev.starling.cuda.gpu.Gpu;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Compiles kernels for one device and loads them: each source once in a process and, by the {@link ProgramCache}, once
 * on a machine. Safe for use by several threads.
 */
public final class KernelCompiler {
    private final Gpu gpu;
    private final Compiler compiler;
    private final ProgramCache cache;
    private final Map<String, Gpu.Image> images = new ConcurrentHashMap<>();

    /** Makes a compiler for a device that keeps its programs in the user's cache. */
    public KernelCompiler(Gpu gpu) {
        this(gpu, ProgramCache.home());
    }

    /** Makes a compiler for a device that keeps its programs in {@code folder}. */
    public KernelCompiler(Gpu gpu, Path folder) {
        this.gpu = gpu;
        this.compiler = gpu.compiler();
        this.cache = new ProgramCache(folder);
    }

    /**
     * Returns the kernel of a source.
     *
     * @throws dev.starling.cuda.gpu.GpuException if it does not compile or load
     */
    public Gpu.Function function(KernelSource source) {
        return images.computeIfAbsent(source.text(), text -> load(source)).function(source.function());
    }

    private Gpu.Image load(KernelSource source) {
        String key = key(source.text());
        byte[] program = cache.find(key);
        if (program == null) {
            program = compiler.compile(source.name(), source.text(), gpu.architecture());
            cache.keep(key, program);
        }
        return gpu.load(program);
    }

    private String key(String text) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            for (String part : new String[] {gpu.architecture(), compiler.version(), text}) {
                digest.update(part.getBytes(StandardCharsets.UTF_8));
                digest.update((byte) 0);
            }
            return HexFormat.of().formatHex(digest.digest());
        } catch (NoSuchAlgorithmException e) {
            throw new AssertionError("every Java platform has SHA-256", e);
        }
    }
}
